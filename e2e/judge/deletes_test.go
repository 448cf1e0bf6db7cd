package judge

import (
	"testing"
	"time"
)

// TestWhoDeletedAPod holds that a pod counts as taken by whoever made the API server store that it goes, whatever was
// answered. The pod begins to go 10.4 s after dawn and is seen to at 10.6 s.
func TestWhoDeletedAPod(t *testing.T) {
	after := func(seconds float64) time.Time { return dawn.Add(time.Duration(seconds * float64(time.Second))) }
	request := func(ours bool, asked, answered float64, code int) Deletion {
		d := Deletion{Ours: ours, Asked: after(asked), Code: code}
		if answered > 0 {
			d.Answered = after(answered)
		}
		return d
	}
	const us, others = true, false
	tests := []struct {
		name  string
		asked []Deletion
		want  bool
	}{
		{"nobody known", nil, us},
		{"others", []Deletion{request(others, 10.3, 10.5, 200)}, others},
		{"we", []Deletion{request(us, 10.3, 10.5, 200)}, us},
		{"others, who gave up", []Deletion{request(others, 10.3, 10.5, 504)}, others},
		{"others, who gave up before it was stored", []Deletion{request(others, 9, 9.2, 504)}, others},
		{"we, and we gave up", []Deletion{request(us, 10.3, 10.5, 504)}, us},
		{"others, and the API server was killed", []Deletion{request(others, 10.3, 0, 0)}, others},
		{"we, and the API server was killed", []Deletion{request(us, 10.3, 0, 0)}, us},
		{"others, whose answer was 500", []Deletion{request(others, 10.3, 10.5, 500)}, others},
		{"others, who were refused, and nobody known", []Deletion{request(others, 10.3, 10.5, 409)}, us},
		{"we were refused, and others were not", []Deletion{request(us, 10.3, 10.5, 429), request(others, 10.3, 10.5, 200)},
			others},
		{"others asked when it was seen to go", []Deletion{request(others, 10.7, 10.8, 200)}, us},
		{"others asked, and we when they were answered",
			[]Deletion{request(others, 10.3, 10.45, 200), request(us, 10.5, 10.6, 200)}, others},
		{"the same, in the other order of the log", []Deletion{request(us, 10.5, 10.6, 200),
			request(others, 10.3, 10.45, 200)}, others},
		{"both at once", []Deletion{request(others, 10.3, 10.5, 200), request(us, 10.35, 10.5, 200)}, us},
		{"we asked, and others when we were answered",
			[]Deletion{request(us, 10.3, 10.45, 200), request(others, 10.5, 10.6, 200)}, us},
		{"we gave up, and others asked", []Deletion{request(us, 10.2, 10.3, 504), request(others, 10.35, 10.5, 200)}, us},
		{"others gave up, and we asked", []Deletion{request(others, 10.2, 10.3, 504), request(us, 10.35, 10.5, 200)}, us},
		{"we gave up long before others asked", []Deletion{request(us, 5, 5.1, 504), request(others, 10.35, 10.5, 200)},
			others},
		{"others gave up long before we asked", []Deletion{request(others, 5, 5.1, 504), request(us, 10.35, 10.5, 200)}, us},
		{"our request came a second after it was stored",
			[]Deletion{request(others, 10.3, 10.5, 504), request(us, 11.1, 11.2, 200)}, others},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := Deletions{{"west", "web-1"}: tt.asked}
			if got := d.ByUs(PodKey{"west", "web-1"}, after(10), after(10.6)); got != tt.want {
				t.Errorf("taken by us: %t, want %t", got, tt.want)
			}
		})
	}
}
