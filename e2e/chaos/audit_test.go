package main

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/flotilla-dev/flotilla/e2e/audit"
	"github.com/flotilla-dev/flotilla/e2e/judge"
)

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
	asked := judge.Deletions{}
	addDeletions(asked, "west", events)
	began := time.Date(2026, 11, 23, 13, 26, 25, 0, time.UTC)
	got := map[string]bool{}
	for key := range asked {
		got[key.Name] = asked.ByUs(key, began, began.Add(700*time.Millisecond))
	}
	if want := map[string]bool{"cut": false, "cut-ours": true, "killed": false, "ended": true}; !maps.Equal(got, want) {
		t.Errorf("taken by us: %v, want %v", got, want)
	}
}
