package kinds

import (
	"fmt"
	"testing"

	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

func TestSumStates(t *testing.T) {
	got := fmt.Sprint(SumStates(map[string]*work.Report{
		"west": {States: []work.PodState{{State: "role=follower", Pods: 1}, {State: "role=leader", Pods: 1}}},
		"east": {States: []work.PodState{{State: "role=follower", Pods: 2}}},
		"none": {},
	}))
	if want := "[role=follower 3 (east 2, west 1) role=leader 1 (west 1)]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
