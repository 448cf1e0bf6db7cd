package main

import (
	_ "embed" // the log
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
//
//go:embed testdata/requests.log
var requests string

// TestADeleteThatWasNotAnsweredIsWhoseItIs is what seed 201 found: a delete of ours that was cut when the storm
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
