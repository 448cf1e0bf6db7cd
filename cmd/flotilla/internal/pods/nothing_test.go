package pods

import (
	"io"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// TestFollowNothing holds that a followed pod that is missing, or has no such container, is an error.
func TestFollowNothing(t *testing.T) {
	m := &member{t: t, pods: []corev1.Pod{pod("api-1", corev1.PodRunning, "main")}}
	for argument, want := range map[string]string{"pod/api-9": "member east has no pod api-9",
		"pod/api-1": "has a log of pod api-1", "clone/api": "has a log of CloneSet shop/api"} {
		log, talk := logsOf(), &buffer{}
		log.follow, log.container = true, "none"
		f := &fleet{notes: &notes{out: talk}, members: []*reached{m.reach(cloneSet())}}
		err := log.run(t.Context(), f, targetFor(t, argument), 0, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s; says %s", argument, err, want, talk)
		}
	}
}

func TestNegativeFlags(t *testing.T) {
	log := logsOf()
	log.tailed, log.tail = true, -1
	if log.of("main").TailLines != nil {
		t.Error("--tail -1 limits the lines")
	}
	log.since = -time.Second
	if _, err := log.check(io.Discard); err == nil || !strings.Contains(err.Error(), "--since -1s") {
		t.Errorf("says %v", err)
	}
}

// TestPlacedInNoMember holds that a user who may not list members hears that the workload is placed in none.
func TestPlacedInNoMember(t *testing.T) {
	key := targetFor(t, "clone/api").key
	if err := nowhere(&key, &hubView{placed: []string{}}); !strings.Contains(err.Error(), "is placed in no member") {
		t.Errorf("says %v", err)
	}
	if err := nowhere(&key, &hubView{members: []string{}}); !strings.Contains(err.Error(), "the hub has no members") {
		t.Errorf("says %v", err)
	}
}

// TestChooseNeedsOneMember holds that a pod's name is not searched for in several members.
func TestChooseNeedsOneMember(t *testing.T) {
	_, err := (&fleet{}).choose(t.Context(), targetFor(t, "pod/api-1"), &options{only: []string{"east", "west"}})
	if err == nil || !strings.Contains(err.Error(), "name one member") {
		t.Errorf("says %v", err)
	}
}

// TestWorkloadsOfOthersAreLeftAlone: a workload of the same name that the hub did not place is not reached by accident.
func TestWorkloadsOfOthersAreLeftAlone(t *testing.T) {
	m := &member{t: t, pods: []corev1.Pod{pod("api-1", corev1.PodRunning, "main")}}
	for _, tt := range []struct {
		name, label, hub string
		placed, want     bool
	}{
		{"a local one", "", "1", true, false}, {"another hub's", "2", "1", true, false},
		{"this hub's", "1", "1", true, true}, {"a hub's whose identity is not known", "2", "", true, true},
		{"a member that the user names", "", "1", false, true},
	} {
		workload := cloneSet()
		if tt.label != "" {
			workload.Labels = map[string]string{topology.LabelHub: tt.label}
		}
		r := m.reach(workload)
		r.placed, r.hubID = tt.placed, tt.hub
		_, err := r.pods(t.Context(), targetFor(t, "clone/api"))
		if (err == nil) != tt.want {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
