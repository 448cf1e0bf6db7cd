package main

import (
	"testing"
	"time"
)

// TestWhoDeletedAPod holds that a pod counts as taken by whoever made the API server store that it goes, whatever was answered. The
// pod begins to go 10.4 s after dawn and is seen to at 10.6 s.
func TestWhoDeletedAPod(t *testing.T) {
	after := func(seconds float64) time.Time { return dawn.Add(time.Duration(seconds * float64(time.Second))) }
	request := func(ours bool, asked, answered float64, code int) deletion {
		d := deletion{ours: ours, asked: after(asked), code: code}
		if answered > 0 {
			d.answered = after(answered)
		}
		return d
	}
	const us, others = true, false
	tests := []struct {
		name  string
		asked []deletion
		want  bool
	}{
		{"nobody known", nil, us},
		{"others", []deletion{request(others, 10.3, 10.5, 200)}, others},
		{"we", []deletion{request(us, 10.3, 10.5, 200)}, us},
		{"others, who gave up", []deletion{request(others, 10.3, 10.5, 504)}, others},
		{"others, who gave up before it was stored", []deletion{request(others, 9, 9.2, 504)}, others},
		{"we, and we gave up", []deletion{request(us, 10.3, 10.5, 504)}, us},
		{"others, and the API server was killed", []deletion{request(others, 10.3, 0, 0)}, others},
		{"we, and the API server was killed", []deletion{request(us, 10.3, 0, 0)}, us},
		{"others, whose answer was 500", []deletion{request(others, 10.3, 10.5, 500)}, others},
		{"others, who were refused, and nobody known", []deletion{request(others, 10.3, 10.5, 409)}, us},
		{"we were refused, and others were not", []deletion{request(us, 10.3, 10.5, 429), request(others, 10.3, 10.5, 200)}, others},
		{"others asked when it was seen to go", []deletion{request(others, 10.7, 10.8, 200)}, us},
		{"others asked, and we when they were answered", []deletion{request(others, 10.3, 10.45, 200), request(us, 10.5, 10.6, 200)}, others},
		{"the same, in the other order of the log", []deletion{request(us, 10.5, 10.6, 200), request(others, 10.3, 10.45, 200)}, others},
		{"both at once", []deletion{request(others, 10.3, 10.5, 200), request(us, 10.35, 10.5, 200)}, us},
		{"we asked, and others when we were answered", []deletion{request(us, 10.3, 10.45, 200), request(others, 10.5, 10.6, 200)}, us},
		{"we gave up, and others asked", []deletion{request(us, 10.2, 10.3, 504), request(others, 10.35, 10.5, 200)}, us},
		{"others gave up, and we asked", []deletion{request(others, 10.2, 10.3, 504), request(us, 10.35, 10.5, 200)}, us},
		{"we gave up long before others asked", []deletion{request(us, 5, 5.1, 504), request(others, 10.35, 10.5, 200)}, others},
		{"others gave up long before we asked", []deletion{request(others, 5, 5.1, 504), request(us, 10.35, 10.5, 200)}, us},
		{"our request came a second after it was stored", []deletion{request(others, 10.3, 10.5, 504), request(us, 11.1, 11.2, 200)}, others},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := deletions{{"west", "web-1"}: tt.asked}
			if got := d.byUs(podKey{"west", "web-1"}, after(10), after(10.6)); got != tt.want {
				t.Errorf("taken by us: %t, want %t", got, tt.want)
			}
		})
	}
}
