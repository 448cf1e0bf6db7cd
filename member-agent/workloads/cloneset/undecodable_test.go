package cloneset

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/simulator"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

func TestATemplateThatCannotBeDecodedKeepsPodsAndScalesToZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulated(simulator.Options{Seed: 7, Profile: simulator.Calm(), Story: true})
		defer s.Stop()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("%v\n%s", err, s.Story())
			}
		}
		must(s.begin(simCloneSet(3, v1beta1.ReCreatePodUpdatePolicy)))
		must(s.rest())

		good := s.cloneSet().Spec.Template
		expect := func(what string, pods int, stalled bool) {
			t.Helper()
			must(s.RunFor(time.Minute))
			if n := len(s.pods()); n != pods {
				t.Fatalf("%s: %d pods, want %d\n%s", what, n, pods, s.Story())
			}
			for _, c := range s.cloneSet().Status.Conditions {
				if c.Type != v1beta1.ConditionStalled || c.Status != corev1.ConditionTrue {
					continue
				}
				const want = `spec.template.spec.containers: Invalid value: "x"`
				if !stalled || c.Reason != workload.ReasonInvalidTemplate || !strings.Contains(c.Message, want) {
					t.Fatalf("%s: stalled by %s: %s", what, c.Reason, c.Message)
				}
				return
			}
			if stalled {
				t.Fatalf("%s: it is not stalled\n%s", what, s.Story())
			}
		}
		s.spec("containers x", func(spec *v1beta1.CloneSetSpec) {
			spec.Template.Undecoded = []byte(`{"metadata":{"labels":{"app":"web"}},"spec":{"containers":"x"}}`)
		})
		expect("a template that cannot be decoded", 3, true)
		s.spec("replicas 5", func(spec *v1beta1.CloneSetSpec) { spec.Replicas = new(int32(5)) })
		expect("scaled out", 3, true)
		s.spec("replicas 0", func(spec *v1beta1.CloneSetSpec) { spec.Replicas = new(int32(0)) })
		expect("scaled to zero", 0, true)
		s.spec("corrected", func(spec *v1beta1.CloneSetSpec) { spec.Template, spec.Replicas = good, new(int32(2)) })
		expect("corrected", 2, false)
	})
}
