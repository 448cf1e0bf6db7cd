package podprobemarker

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
)

// marking returns a marker that selects by some keys and sets others.
func marking(name, selects, sets string) *v1alpha1.PodProbeMarker {
	m := &v1alpha1.PodProbeMarker{ObjectMeta: metav1.ObjectMeta{Name: name}}
	m.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{}}
	for _, key := range strings.Fields(selects) {
		m.Spec.Selector.MatchLabels[key] = "true"
	}
	policy := v1alpha1.ProbeMarkerPolicy{State: "Succeeded", Labels: map[string]string{}}
	for _, key := range strings.Fields(sets) {
		policy.Labels[key] = "true"
	}
	m.Spec.Probes = []v1alpha1.PodContainerProbe{{Name: "p", MarkerPolicy: []v1alpha1.ProbeMarkerPolicy{policy}}}
	return m
}

func TestMarkersThatChangeEachOtherAreRefused(t *testing.T) {
	for _, tt := range []struct {
		name string
		all  []*v1alpha1.PodProbeMarker
		want string
	}{
		{"no labels", []*v1alpha1.PodProbeMarker{marking("a", "app", ""), marking("b", "app", "")}, "map[]"},
		{"one selects what another one marks", []*v1alpha1.PodProbeMarker{marking("a", "app", "leader"),
			marking("b", "leader", "slow")}, "map[]"},
		{"each other", []*v1alpha1.PodProbeMarker{marking("a", "x", "y z"), marking("b", "y", "x w")},
			"map[a:map[y:b] b:map[x:a]]"},
		{"over a third one", []*v1alpha1.PodProbeMarker{marking("a", "x", "y"), marking("b", "y", "z"),
			marking("c", "z", "x")}, "map[a:map[y:b] b:map[z:c] c:map[x:a]]"},
		{"one beside a loop", []*v1alpha1.PodProbeMarker{marking("a", "x", "y"), marking("b", "y", "x"),
			marking("c", "app", "x")}, "map[a:map[y:b] b:map[x:a]]"},
		{"its own selector is no loop: that is left out anyway", []*v1alpha1.PodProbeMarker{marking("a", "x", "x"),
			marking("b", "x", "y")}, "map[]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := fmt.Sprint(loopsOf(tt.all)); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
	all := []*v1alpha1.PodProbeMarker{marking("a", "x", "y"), marking("b", "y", "x")}
	const want = "markerPolicy sets y, which is left out: PodProbeMarker b selects by it, and marks pods by whose " +
		"labels this one selects"
	if got := loopsOf(all).sentence(all[0]); !strings.HasPrefix(got, want) {
		t.Errorf("%s", got)
	}
	if got := loopsOf(all[:1]).sentence(all[0]); got != "" {
		t.Errorf("one alone: %s", got)
	}
}

// TestInvalidMarksDoNotHideRefusals: a condition says both.
func TestInvalidMarksDoNotHideRefusals(t *testing.T) {
	f := findings{pods: 1, invalid: []string{"markerPolicy sets a b"}}
	if c := f.stalled(); c == nil || c.Reason != reasonInvalidMarks {
		t.Errorf("%+v", c)
	}
	f.refused, f.refusal = "db-0", "not allowed"
	cause, _ := f.cause()
	if c := f.stalled(); c != nil || cause.Reason != reasonMarksRefused ||
		!strings.HasSuffix(cause.Message, "not allowed; markerPolicy sets a b") {
		t.Errorf("%+v, %+v", c, cause)
	}
}
