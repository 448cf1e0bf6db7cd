package judge

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// stop is a stop of the container main of a pod.
func (p *past) stop(cluster, pod, request, id, wanted string) *past {
	return p.add(Entry{Cluster: cluster, Stop: &Stop{Pod: types.UID(cluster + pod), Name: pod, Request: request,
		Container: "main", ID: id, Wanted: wanted}})
}

// restart makes pods not ready because a request restarts their containers.
func (p *past) restart(cluster string, names ...string) *past {
	for _, name := range names {
		p.pod(cluster, name, func(s *Pod) { s.Restarting = true })
	}
	return p
}

func TestStopsOfRequests(t *testing.T) {
	for _, tt := range []struct{ name, steps, want string }{
		{"one request for each of two pods", "a1 r1 x x|a2 r2 y y", ""},
		{"two requests one after the other", "a1 r1 x x|a1 r2 y y", ""},
		{"a stop that is tried again", "a1 r1 x x|a1 r1 x x", ""},
		{"twice for one request", "a1 r1 x x|a1 r1 y y", "a: request r1 restarts container main of pod a1 twice"},
		{"a container that restarted by itself", "a1 r1 y x",
			"a: request r1 stops container main of pod a1, which has restarted since the request was created"},
	} {
		p := newPast()
		for step := range strings.SplitSeq(tt.steps, "|") {
			words := strings.Fields(step)
			p.stop("a", words[0], words[1], words[2], words[3])
		}
		report := Check(p.log, p.hand)
		got := ""
		for _, v := range report.Violations {
			got += v.What
		}
		if got != tt.want || report.Restarts != len(strings.Split(tt.steps, "|")) {
			t.Errorf("%s: %q after %d restarts, want %q", tt.name, got, report.Restarts, tt.want)
		}
	}
}

// TestRestartsCountAsUnavailable: pods whose containers restart are unavailable by our doing, beside those that are
// updated, in one member and over all of them.
func TestRestartsCountAsUnavailable(t *testing.T) {
	for _, tt := range []struct {
		restarts int
		want     string
	}{
		{1, ""},
		{2, ruleGlobal},
	} {
		p := newPast().user(1, 6, 2, 0).hub(1, 6, 6, 2, 0, 2)
		for _, cluster := range []string{"a", "b"} {
			p.set(cluster, 1, 3, 2, 0, 1).ready(cluster, cluster+"1", cluster+"2", cluster+"3")
		}
		p.rest(20).update("a", "a1")
		for i := range tt.restarts {
			p.restart("b", fmt.Sprint("b", i+1))
		}
		p.rest(10)
		got := ""
		for _, v := range Check(p.log, p.hand).Violations {
			got += v.Rule
		}
		if got != tt.want {
			t.Errorf("%d restarts beside an update: %q, want %q", tt.restarts, got, tt.want)
		}
	}
}
