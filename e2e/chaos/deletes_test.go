package main

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/flotilla-dev/flotilla/e2e/audit"
)

// TestWhoDeletedAPod holds that a pod counts as taken by whoever made the API server store that it goes, whatever was
// answered. The pod begins to go 10.4 s after dawn and is seen to at 10.6 s.
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
		{"we were refused, and others were not", []deletion{request(us, 10.3, 10.5, 429), request(others, 10.3, 10.5, 200)},
			others},
		{"others asked when it was seen to go", []deletion{request(others, 10.7, 10.8, 200)}, us},
		{"others asked, and we when they were answered",
			[]deletion{request(others, 10.3, 10.45, 200), request(us, 10.5, 10.6, 200)}, others},
		{"the same, in the other order of the log", []deletion{request(us, 10.5, 10.6, 200),
			request(others, 10.3, 10.45, 200)}, others},
		{"both at once", []deletion{request(others, 10.3, 10.5, 200), request(us, 10.35, 10.5, 200)}, us},
		{"we asked, and others when we were answered",
			[]deletion{request(us, 10.3, 10.45, 200), request(others, 10.5, 10.6, 200)}, us},
		{"we gave up, and others asked", []deletion{request(us, 10.2, 10.3, 504), request(others, 10.35, 10.5, 200)}, us},
		{"others gave up, and we asked", []deletion{request(others, 10.2, 10.3, 504), request(us, 10.35, 10.5, 200)}, us},
		{"we gave up long before others asked", []deletion{request(us, 5, 5.1, 504), request(others, 10.35, 10.5, 200)},
			others},
		{"others gave up long before we asked", []deletion{request(others, 5, 5.1, 504), request(us, 10.35, 10.5, 200)}, us},
		{"our request came a second after it was stored",
			[]deletion{request(others, 10.3, 10.5, 504), request(us, 11.1, 11.2, 200)}, others},
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

// requests is what kube-apiserver v1.36 wrote of deletes with a grace period of 0 whose clients gave up after some
// milliseconds, of one in whose middle it was killed, and of one that a simulated kubelet ended; fields that are not
// read are cut. Of 303 deletes that were answered 504, 10 pods were gone and 57 going; of 9 that were not answered, 1
// was gone and 4 were going.
const requests = `{"auditID":"70ba","stage":"RequestReceived","verb":"delete","user":{"username":"kwok-admin"},"userAgent":"chaos/v0.0.0 (linux/amd64) kubernetes/$Format","objectRef":{"resource":"pods","namespace":"run","name":"cut","apiVersion":"v1"},"requestReceivedTimestamp":"2026-11-23T13:26:25.207061Z","stageTimestamp":"2026-11-23T13:26:25.207061Z"}
{"auditID":"70ba","stage":"ResponseComplete","verb":"delete","user":{"username":"kwok-admin"},"userAgent":"chaos/v0.0.0 (linux/amd64) kubernetes/$Format","objectRef":{"resource":"pods","namespace":"run","name":"cut","apiVersion":"v1"},"responseStatus":{"metadata":{},"status":"Failure","message":"Timeout: request did not complete within requested timeout - context canceled","reason":"Timeout","details":{},"code":504},"requestReceivedTimestamp":"2026-11-23T13:26:25.207061Z","stageTimestamp":"2026-11-23T13:26:25.219124Z"}
{"auditID":"7ba7","stage":"RequestReceived","verb":"delete","user":{"username":"flotilla-agent"},"userAgent":"flotilla-agent/v0.0.0 (linux/amd64)","objectRef":{"resource":"pods","namespace":"run","name":"cut-ours","apiVersion":"v1"},"requestReceivedTimestamp":"2026-11-23T13:26:25.397416Z","stageTimestamp":"2026-11-23T13:26:25.397416Z"}
{"auditID":"7ba7","stage":"ResponseComplete","verb":"delete","user":{"username":"flotilla-agent"},"userAgent":"flotilla-agent/v0.0.0 (linux/amd64)","objectRef":{"resource":"pods","namespace":"run","name":"cut-ours","apiVersion":"v1"},"responseStatus":{"metadata":{},"status":"Failure","message":"stream error: stream ID 951; CANCEL","code":500},"requestReceivedTimestamp":"2026-11-23T13:26:25.397416Z","stageTimestamp":"2026-11-23T13:26:25.401209Z"}
{"auditID":"b1f0","stage":"RequestReceived","verb":"delete","user":{"username":"kwok-admin"},"userAgent":"chaos/v0.0.0 (linux/amd64) kubernetes/$Format","objectRef":{"resource":"pods","namespace":"run","name":"killed","apiVersion":"v1"},"requestReceivedTimestamp":"2026-11-23T13:26:25.5Z","stageTimestamp":"2026-11-23T13:26:25.5Z"}
{"auditID":"ff61","stage":"RequestReceived","verb":"delete","user":{"username":"flotilla-agent"},"userAgent":"flotilla-agent/v0.0.0 (linux/amd64)","objectRef":{"resource":"pods","namespace":"run","name":"ended","apiVersion":"v1"},"requestReceivedTimestamp":"2026-11-23T13:26:25.162813Z","stageTimestamp":"2026-11-23T13:26:25.162813Z"}
{"auditID":"fcf3","stage":"RequestReceived","verb":"delete","user":{"username":"kwok-admin"},"userAgent":"kwok-controller/v0.8.0 (linux/amd64)","objectRef":{"resource":"pods","namespace":"run","name":"ended","apiVersion":"v1"},"requestReceivedTimestamp":"2026-11-23T13:26:25.168307Z","stageTimestamp":"2026-11-23T13:26:25.168307Z"}
{"auditID":"fcf3","stage":"ResponseComplete","verb":"delete","user":{"username":"kwok-admin"},"userAgent":"kwok-controller/v0.8.0 (linux/amd64)","objectRef":{"resource":"pods","namespace":"run","name":"ended","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":200},"requestReceivedTimestamp":"2026-11-23T13:26:25.168307Z","stageTimestamp":"2026-11-23T13:26:25.171863Z"}
{"auditID":"ff61","stage":"ResponseComplete","verb":"delete","user":{"username":"flotilla-agent"},"userAgent":"flotilla-agent/v0.0.0 (linux/amd64)","objectRef":{"resource":"pods","namespace":"run","name":"ended","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":200},"requestReceivedTimestamp":"2026-11-23T13:26:25.162813Z","stageTimestamp":"2026-11-23T13:26:25.172116Z"}
{"auditID":"5a5a","stage":"ResponseComplete","verb":"delete","user":{"username":"flotilla-agent"},"userAgent":"flotilla-agent/v0.0.0 (linux/amd64)","objectRef":{"resource":"pods","namespace":"other","name":"cut","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":200},"requestReceivedTimestamp":"2026-11-23T13:26:25.2Z","stageTimestamp":"2026-11-23T13:26:25.3Z"}
`

// TestADeleteThatWasNotAnsweredIsWhoseItIs is what seed 201 found: a delete of fate's that was cut when the storm
// ended, and was carried out, was no delete for the judge, and the pod was taken for one of ours. It also holds that
// the kubelet, which ends what an agent began and may be answered first, does not hide the agent.
func TestADeleteThatWasNotAnsweredIsWhoseItIs(t *testing.T) {
	events, err := audit.ReadRequests(strings.NewReader(requests), podsDeleted("run"))
	if err != nil {
		t.Fatal(err)
	}
	asked := deletions{}
	asked.add("west", events)
	began := time.Date(2026, 11, 23, 13, 26, 25, 0, time.UTC)
	got := map[string]bool{}
	for key := range asked {
		got[key.name] = asked.byUs(key, began, began.Add(700*time.Millisecond))
	}
	if want := map[string]bool{"cut": false, "cut-ours": true, "killed": false, "ended": true}; !maps.Equal(got, want) {
		t.Errorf("taken by us: %v, want %v", got, want)
	}
}
