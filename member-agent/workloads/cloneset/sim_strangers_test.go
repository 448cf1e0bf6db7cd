package cloneset

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/simulator"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// inWorld tells a story in a calm world that begins with the CloneSet, at rest.
func inWorld(t *testing.T, cs *v1beta1.CloneSet, tell func(s *simulated, must func(error)),
	change ...func(*simulated)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newSimulated(simulator.Options{Seed: 3, Profile: simulator.Calm(), Story: true, Guard: true}, change...)
		defer s.Stop()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("%v\n%s", err, s.Story())
			}
		}
		must(s.begin(cs))
		must(s.rest())
		tell(s, must)
		if t.Failed() {
			t.Log(s.Story())
		}
	})
}

const orphanFinalizer = "orphan"

// deleteAndOrphan deletes the CloneSet as kubectl delete --cascade=orphan does. gone tells whether its object goes in
// the end.
func (s *simulated) deleteAndOrphan(must func(error), gone bool) {
	must(s.Change("CloneSet", simKey(), func(obj client.Object) { obj.SetFinalizers([]string{orphanFinalizer}) }))
	must(s.RunFor(time.Second))
	if !gone {
		s.Interrupt("CloneSet")
	}
	s.Tell("user: delete the CloneSet, and leave what it has")
	must(s.Delete("CloneSet", simKey()))
	must(s.RunFor(time.Second))
	for _, kind := range []simulator.Kind{"ControllerRevision", "PersistentVolumeClaim", "Pod"} {
		for _, obj := range s.List(kind) {
			must(s.Change(kind, client.ObjectKeyFromObject(obj), func(obj client.Object) { obj.SetOwnerReferences(nil) }))
		}
	}
	if gone {
		must(s.Change("CloneSet", simKey(), func(obj client.Object) { obj.SetFinalizers(nil) }))
	}
	must(s.RunFor(time.Second))
}

// uids returns the uids of all pods and how often each one's containers have been started.
func (s *simulated) uids() map[types.UID]int32 {
	out := map[types.UID]int32{}
	for _, pod := range s.pods() {
		for i := range pod.Status.ContainerStatuses {
			out[pod.UID] += pod.Status.ContainerStatuses[i].RestartCount
		}
	}
	return out
}

// TestACloneSetThatIsMadeAgainKeepsItsPods: who must change a selector deletes the object, leaves its pods, and makes
// it again.
func TestACloneSetThatIsMadeAgainKeepsItsPods(t *testing.T) {
	for _, policy := range []v1beta1.PodUpdatePolicyType{v1beta1.ReCreatePodUpdatePolicy,
		v1beta1.InPlaceIfPossiblePodUpdatePolicy} {
		for name, before := range map[string]string{"the same template": "app:1", "the second template": "app:2"} {
			t.Run(string(policy)+", "+name, func(t *testing.T) {
				inWorld(t, simCloneSet(4, policy), func(s *simulated, must func(error)) {
					s.spec("image "+before, func(spec *v1beta1.CloneSetSpec) { spec.Template.Spec.Containers[0].Image = before })
					must(s.rest())
					had, revisions := s.uids(), len(s.List("ControllerRevision"))
					s.deleteAndOrphan(must, true)
					again := simCloneSet(4, policy)
					again.Spec.Template.Spec.Containers[0].Image = before
					s.Tell("user: make the CloneSet again")
					must(s.Create(again))
					must(s.rest())
					if have := s.uids(); !maps.Equal(have, had) {
						t.Errorf("pods and restarts %v, were %v", have, had)
					}
					if have := len(s.List("ControllerRevision")); have != revisions {
						t.Errorf("%d revisions, were %d", have, revisions)
					}
					if n := s.cloneSet().Status.CollisionCount; n != nil && *n != 0 {
						t.Errorf("%d collisions", *n)
					}
					// Its revision is its own again, and goes on being one.
					s.spec("image app:3", func(spec *v1beta1.CloneSetSpec) { spec.Template.Spec.Containers[0].Image = "app:3" })
					must(s.rest())
					s.spec("image "+before, func(spec *v1beta1.CloneSetSpec) { spec.Template.Spec.Containers[0].Image = before })
					must(s.rest())
				})
			})
		}
	}
}

// TestNothingIsAdoptedForACloneSetThatGoes: the garbage collector would delete what has a controller that is gone.
func TestNothingIsAdoptedForACloneSetThatGoes(t *testing.T) {
	inWorld(t, simCloneSet(3, v1beta1.ReCreatePodUpdatePolicy), func(s *simulated, must func(error)) {
		// The controller does not hear of the deletion, only of the pods.
		s.deleteAndOrphan(must, false)
		must(s.RunFor(20 * time.Second))
		if n := len(s.pods()); n != 3 {
			t.Errorf("%d pods, want the 3 that were left", n)
		}
		for _, pod := range s.pods() {
			if ref := metav1.GetControllerOf(pod); ref != nil {
				t.Errorf("pod %s was adopted for a CloneSet that goes", s.Name(pod.Name))
			}
		}
	})
}

// TestAFailedStrangerIsLeftAlone: a pod of nobody that has ended has nothing to give, and may be kept for its logs.
func TestAFailedStrangerIsLeftAlone(t *testing.T) {
	inWorld(t, simCloneSet(2, v1beta1.ReCreatePodUpdatePolicy), func(s *simulated, must func(error)) {
		stranger := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: simKey().Namespace, Name: "by-hand",
			Labels: map[string]string{"app": "other"}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "app:1"}}}}
		must(s.Create(stranger))
		s.Kubelet.Evict(client.ObjectKeyFromObject(stranger))
		must(s.Change("Pod", client.ObjectKeyFromObject(stranger), func(obj client.Object) {
			obj.SetLabels(map[string]string{"app": "web"})
		}))
		must(s.RunFor(time.Minute))
		if s.Get("Pod", client.ObjectKeyFromObject(stranger)) == nil {
			t.Error("the pod was deleted")
		}
		if n := len(s.pods()); n != 3 {
			t.Errorf("%d pods, want 2 and the stranger", n)
		}
	})
}

// TestASelectorOnTheControllersOwnLabelsMakesNoPods: no pod would ever match, and each pass would make more.
func TestASelectorOnTheControllersOwnLabelsMakesNoPods(t *testing.T) {
	for _, key := range []string{"controller-revision-hash", v1beta1.LabelPodTemplateHash, v1beta1.LabelInstanceID,
		v1beta1.LabelLifecycleState} {
		t.Run(key, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSimulated(simulator.Options{Seed: 4, Profile: simulator.Calm(), Story: true})
				defer s.Stop()
				cs := simCloneSet(2, v1beta1.ReCreatePodUpdatePolicy)
				cs.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: key,
					Operator: metav1.LabelSelectorOpDoesNotExist}}
				if err := s.begin(cs); err != nil {
					t.Fatal(err)
				}
				if err := s.RunFor(20 * time.Second); err != nil {
					t.Fatal(err)
				}
				if n := len(s.pods()); n > 0 {
					t.Errorf("%d pods", n)
				}
				for _, c := range s.cloneSet().Status.Conditions {
					if c.Type == v1beta1.ConditionStalled && (c.Status != corev1.ConditionTrue || c.Reason != "InvalidSelector" ||
						!strings.Contains(c.Message, key)) {
						t.Errorf("Stalled is %s: %s: %s", c.Status, c.Reason, c.Message)
					}
				}
			})
		})
	}
}

// TestPodsWhoseLabelsAWebhookTakesAreNotMadeForEver: they do not count, so that each pass would make more.
func TestPodsWhoseLabelsAWebhookTakesAreNotMadeForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulated(simulator.Options{Seed: 5, Profile: simulator.Calm(), Story: true})
		defer s.Stop()
		made := 0
		s.Admit(func(obj client.Object) error {
			if pod, ok := obj.(*corev1.Pod); ok {
				made++
				delete(pod.Labels, "app")
			}
			return nil
		})
		if err := s.begin(simCloneSet(3, v1beta1.ReCreatePodUpdatePolicy)); err != nil {
			t.Fatal(err)
		}
		if err := s.RunFor(5 * time.Minute); err != nil {
			t.Fatal(err)
		}
		// Nobody knows when the webhook is mended, so it is tried again.
		if n := len(s.pods()); n > 1 || made > 40 {
			t.Errorf("%d pods are there, %d were made", n, made)
		}
		found := slices.ContainsFunc(s.cloneSet().Status.Conditions, func(c v1beta1.CloneSetCondition) bool {
			return c.Type == v1beta1.CloneSetConditionFailedScale && strings.Contains(c.Message, "selector")
		})
		if !found {
			t.Errorf("no condition says why: %+v", s.cloneSet().Status.Conditions)
		}
		s.Admit(nil)
		if err := s.rest(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestATakenNameIsNoFailure: the next random name is tried at once, and nobody is told.
func TestATakenNameIsNoFailure(t *testing.T) {
	cs := simCloneSet(2, v1beta1.ReCreatePodUpdatePolicy)
	inWorld(t, cs, func(s *simulated, must func(error)) {
		taken := 0
		s.Admit(func(obj client.Object) error {
			if _, ok := obj.(*corev1.Pod); ok && taken < 3 {
				taken++
				return apierrors.NewGenerateNameConflict(schema.GroupResource{Resource: "pods"}, obj.GetName(), 1)
			}
			return nil
		})
		s.spec("replicas 20", func(spec *v1beta1.CloneSetSpec) { spec.Replicas = new(int32(20)) })
		must(s.RunFor(2 * time.Second))
		if n := len(s.pods()); n != 20 || taken != 3 {
			t.Errorf("%d pods after 2 s, %d names were taken", n, taken)
		}
		if strings.Contains(s.Story(), "the pass failed") {
			t.Error("a pass failed")
		}
		must(s.rest())
	})
}

// TestARefusedTemplateWithZonesIsTold: what the API server refuses is told also where a hub says how many pods each
// zone gets.
func TestARefusedTemplateWithZonesIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulated(simulator.Options{Seed: 6, Profile: simulator.Calm(), Story: true})
		defer s.Stop()
		s.Admit(func(obj client.Object) error {
			if _, ok := obj.(*corev1.Pod); ok {
				return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, obj.GetName(), nil)
			}
			return nil
		})
		cs := simCloneSet(2, v1beta1.ReCreatePodUpdatePolicy)
		cs.Annotations = map[string]string{topology.AnnotationZones: `{"a":1,"b":1}`}
		if err := s.begin(cs); err != nil {
			t.Fatal(err)
		}
		if err := s.RunFor(20 * time.Second); err != nil {
			t.Fatal(err)
		}
		for _, c := range s.cloneSet().Status.Conditions {
			if c.Type == v1beta1.ConditionStalled && c.Reason == workload.ReasonInvalidTemplate {
				return
			}
		}
		t.Errorf("not stalled: %+v", s.cloneSet().Status.Conditions)
	})
}

// TestPodsThatFailAtOnceAreNotMadeAsFastAsPossible: a node that refuses its pods, for a device or for its pressure,
// would get new ones without an end.
func TestPodsThatFailAtOnceAreNotMadeAsFastAsPossible(t *testing.T) {
	inWorld(t, simCloneSet(3, v1beta1.ReCreatePodUpdatePolicy), func(s *simulated, must func(error)) {
		made, fail := 0, true
		s.Admit(func(obj client.Object) error {
			if _, ok := obj.(*corev1.Pod); ok {
				made++
				if key := client.ObjectKeyFromObject(obj); fail {
					s.After(50*time.Millisecond, func() {
						if s.Get("Pod", key) != nil {
							s.Kubelet.Evict(key)
						}
					})
				}
			}
			return nil
		})
		for _, pod := range s.pods() {
			s.Kubelet.Evict(client.ObjectKeyFromObject(pod))
		}
		must(s.RunFor(time.Minute))
		if made < 12 || made > 21 {
			t.Errorf("%d pods were made for 3 replicas in a minute, want 3 every ten seconds", made)
		}
		fail = false
		must(s.rest())
	})
}

// TestWhatAQuotaRefusesIsTold: revisions and adoptions may be refused as well as pods.
func TestWhatAQuotaRefusesIsTold(t *testing.T) {
	inWorld(t, simCloneSet(2, v1beta1.ReCreatePodUpdatePolicy), func(s *simulated, must func(error)) {
		s.Admit(func(obj client.Object) error {
			if _, ok := obj.(*appsv1.ControllerRevision); ok {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "controllerrevisions"}, obj.GetName(),
					errors.New("exceeded quota"))
			}
			return nil
		})
		s.spec("image app:2", func(spec *v1beta1.CloneSetSpec) { spec.Template.Spec.Containers[0].Image = "app:2" })
		must(s.RunFor(time.Minute))
		told := slices.ContainsFunc(s.cloneSet().Status.Conditions, func(c v1beta1.CloneSetCondition) bool {
			return c.Type == v1beta1.CloneSetConditionFailedUpdate && strings.Contains(c.Message, "exceeded quota")
		})
		if !told || len(s.pods()) != 2 {
			t.Errorf("%d pods, conditions %+v", len(s.pods()), s.cloneSet().Status.Conditions)
		}
		s.Admit(nil)
		must(s.rest())
	})
}
