package cloneset

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/simulator"
)

// sizing answers all resizes of pods with *err, unless it is nil.
type sizing struct {
	client.Client
	err *error
}

func (r sizing) SubResource(name string) client.SubResourceClient {
	if name == "resize" && *r.err != nil {
		return refusedSize{r.Client.SubResource(name), *r.err}
	}
	return r.Client.SubResource(name)
}

type refusedSize struct {
	client.SubResourceClient
	err error
}

func (r refusedSize) Patch(context.Context, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
	return r.err
}

// TestASizeThatIsRefusedCanBeTakenBack: a quota or a limit may refuse a resize for ever. The pods that were to have it
// stay as they are, and the next template must reach them.
func TestASizeThatIsRefusedCanBeTakenBack(t *testing.T) {
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("exceeded quota: cpu"))
	cpu := func(n int64) func(*v1beta1.CloneSetSpec) {
		return func(spec *v1beta1.CloneSetSpec) {
			for i := range spec.Template.Spec.Containers {
				setCPU(&spec.Template.Spec.Containers[i], n)
			}
		}
	}
	for name, after := range map[string]func(*v1beta1.CloneSetSpec){
		"back to what it was": cpu(1),
		"back, with another image": func(spec *v1beta1.CloneSetSpec) {
			cpu(1)(spec)
			spec.Template.Spec.Containers[0].Image = "app:2"
		},
	} {
		for _, policy := range []v1beta1.PodUpdatePolicyType{v1beta1.InPlaceIfPossiblePodUpdatePolicy,
			v1beta1.InPlaceOnlyPodUpdatePolicy} {
			t.Run(name+", "+string(policy), func(t *testing.T) {
				var refusal error
				cs := simCloneSet(3, policy)
				cpu(1)(&cs.Spec)
				inWorld(t, cs, func(s *simulated, must func(error)) {
					had := s.uids()
					refusal = refused
					s.spec("cpu 2", cpu(2))
					must(s.RunFor(time.Minute))
					told := false
					for _, c := range s.cloneSet().Status.Conditions {
						told = told || c.Type == v1beta1.CloneSetConditionFailedUpdate && strings.Contains(c.Message, "exceeded quota")
					}
					if !told {
						t.Errorf("no condition tells of it: %+v", s.cloneSet().Status.Conditions)
					}
					s.spec(name, after)
					must(s.rest())
					for uid := range s.uids() {
						if _, ok := had[uid]; !ok {
							t.Error("a pod was made anew")
						}
					}
				}, func(s *simulated) {
					s.wrap = func(c client.Client) client.Client { return sizing{c, &refusal} }
				})
			})
		}
	}
}

// TestSizesWithoutASubresource: before 1.33 the API server has no pods/resize, and pods are made anew for another size.
func TestSizesWithoutASubresource(t *testing.T) {
	missing := error(apierrors.NewGenericServerResponse(404, "patch", schema.GroupResource{Resource: "pods"}, "web",
		"404 page not found", 0, true))
	cs := simCloneSet(3, v1beta1.InPlaceIfPossiblePodUpdatePolicy)
	setCPU(&cs.Spec.Template.Spec.Containers[0], 1)
	inWorld(t, cs, func(s *simulated, must func(error)) {
		s.spec("cpu 2", func(spec *v1beta1.CloneSetSpec) { setCPU(&spec.Template.Spec.Containers[0], 2) })
		must(s.rest())
		s.spec("image app:2", func(spec *v1beta1.CloneSetSpec) { spec.Template.Spec.Containers[0].Image = "app:2" })
		must(s.rest())
		for _, pod := range s.pods() {
			if pod.Status.ContainerStatuses[0].RestartCount != 1 {
				t.Errorf("pod %s was not updated in place for its image", s.Name(pod.Name))
			}
		}
	}, func(s *simulated) {
		s.wrap = func(c client.Client) client.Client { return sizing{c, &missing} }
		s.noResize = func(context.Context) (bool, error) { return true, nil }
	})
}

// TestInPlaceOnlyMakesNoPodAnew: a webhook made one pod unlike the others of its revision, so that it alone cannot get
// the new size.
func TestInPlaceOnlyMakesNoPodAnew(t *testing.T) {
	cs := simCloneSet(3, v1beta1.InPlaceOnlyPodUpdatePolicy)
	main := &cs.Spec.Template.Spec.Containers[0]
	setCPU(main, 1)
	main.Resources.Requests[corev1.ResourceMemory] = resource.MustParse("1Gi")
	synctest.Test(t, func(t *testing.T) {
		s := newSimulated(simulator.Options{Seed: 9, Profile: simulator.Calm(), Story: true})
		defer s.Stop()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("%v\n%s", err, s.Story())
			}
		}
		made := 0
		s.Admit(func(obj client.Object) error {
			pod, ok := obj.(*corev1.Pod)
			if !ok {
				return nil
			}
			if made++; made == 2 {
				// With cpu 2 it would be guaranteed what it asks for, which no running pod can become.
				pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"),
					corev1.ResourceMemory: resource.MustParse("1Gi")}
			}
			return nil
		})
		must(s.begin(cs))
		must(s.RunFor(time.Minute))
		had := s.uids()
		s.spec("cpu 2", func(spec *v1beta1.CloneSetSpec) {
			c := &spec.Template.Spec.Containers[0]
			c.Resources.Requests = maps.Clone(c.Resources.Requests)
			c.Resources.Requests[corev1.ResourceCPU] = resource.MustParse("2")
		})
		must(s.RunFor(2 * time.Minute))
		if have := s.uids(); !maps.Equal(have, had) {
			t.Errorf("pods and restarts %v, were %v", have, had)
		}
		told := false
		for _, c := range s.cloneSet().Status.Conditions {
			told = told || c.Type == v1beta1.ConditionStalled && c.Reason == "InPlaceImpossible"
		}
		if !told || s.cloneSet().Status.UpdatedReplicas > 2 {
			t.Errorf("%d pods are updated, conditions %+v\n%s", s.cloneSet().Status.UpdatedReplicas,
				s.cloneSet().Status.Conditions, s.Story())
		}
	})
}
