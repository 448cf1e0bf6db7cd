package cloneset

import (
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// strangeActions are what others do to a CloneSet beside its user: webhooks, quotas, people who label and make pods by
// hand, and who take away what they think is not needed.
func (u *user) strangeActions() []func() {
	r := u.random
	return []func(){
		func() {
			kind := []v1beta1.CloneSetUpdateStrategyType{v1beta1.OnDeleteCloneSetUpdateStrategyType,
				v1beta1.RollingUpdateCloneSetUpdateStrategyType}[r.IntN(2)]
			u.spec("type "+string(kind), func(s *v1beta1.CloneSetSpec) { s.UpdateStrategy.Type = kind })
		},
		func() {
			n := intstr.FromString([]string{"0%", "10%", "34%", "50%", "100%"}[r.IntN(5)])
			u.spec("maxUnavailable "+n.String(), func(s *v1beta1.CloneSetSpec) {
				s.UpdateStrategy.RollingUpdate.MaxUnavailable = &n
			})
		},
		func() {
			key, value := fmt.Sprintf("tier-%d", r.IntN(2)), fmt.Sprint(r.IntN(3))
			u.spec("template label "+key+"="+value, func(s *v1beta1.CloneSetSpec) { s.Template.Labels[key] = value })
		},
		func() {
			value := []string{"", "abcde", "fghij"}[r.IntN(3)]
			u.spec("template label "+v1beta1.LabelInstanceID+"="+value, func(s *v1beta1.CloneSetSpec) {
				s.Template.Labels["tier-0"] = "copied" + value // pods do not show the other label
				if s.Template.Labels[v1beta1.LabelInstanceID] = value; value == "" {
					delete(s.Template.Labels, v1beta1.LabelInstanceID)
				}
			})
		},
		func() {
			value := fmt.Sprint(r.IntN(3))
			u.spec("template annotation note="+value, func(s *v1beta1.CloneSetSpec) {
				s.Template.Annotations = map[string]string{"note": value}
			})
		},
		func() {
			n := r.Int32N(3)
			u.spec(fmt.Sprintf("revisionHistoryLimit %d", n), func(s *v1beta1.CloneSetSpec) { s.RevisionHistoryLimit = &n })
		},
		func() {
			revisions := u.List("ControllerRevision")
			if len(revisions) == 0 {
				return
			}
			one := revisions[r.IntN(len(revisions))]
			u.Tell("somebody deletes revision %s", one.GetName())
			u.must(u.Delete("ControllerRevision", client.ObjectKeyFromObject(one)))
		},
		u.release, u.release, u.bare,
		func() {
			most := len(u.pods()) - 1 + r.IntN(3)
			u.Tell("a quota of %d pods", most)
			u.quota = most
			u.After(time.Duration(r.IntN(30))*time.Second, func() { u.quota = 0 })
		},
		func() {
			u.injects = !u.injects
			u.Tell("a webhook injects sidecars: %v", u.injects)
		},
		func() {
			if name := u.anyPod(r); name != "" {
				u.Tell("somebody marks %s unavailable", name)
				u.must(u.Change("Pod", podKey(name), func(obj client.Object) {
					obj.GetLabels()[v1beta1.UnavailableLabelPrefix+"drill"] = ""
				}))
				u.After(time.Duration(r.IntN(20))*time.Second, func() {
					u.must(u.Change("Pod", podKey(name), func(obj client.Object) {
						delete(obj.GetLabels(), v1beta1.UnavailableLabelPrefix+"drill")
					}))
				})
			}
		},
		func() {
			u.Tell("no node takes pods")
			u.Kubelet.Refuse = true
			u.After(time.Duration(r.IntN(20))*time.Second, func() {
				u.Kubelet.Refuse = false
				u.Kubelet.Retry()
			})
		},
	}
}

func (u *user) must(err error) {
	if err != nil {
		u.Fail(err)
	}
}

// release takes the label off a pod that the selector asks for, or gives it back to one.
func (u *user) release() {
	name := u.anyPod(u.random)
	if name == "" {
		return
	}
	off := u.random.IntN(2) == 0
	u.Tell("somebody takes the label of %s: %v", name, off)
	u.must(u.Change("Pod", podKey(name), func(obj client.Object) {
		if obj.GetLabels()["app"] = "web"; off {
			obj.GetLabels()["app"] = "debug"
		}
	}))
}

// bare makes a pod by hand that the CloneSet adopts.
func (u *user) bare() {
	name := fmt.Sprintf("bare-%d", u.random.IntN(3))
	if u.Get("Pod", podKey(name)) != nil {
		return
	}
	u.Tell("somebody makes %s", name)
	labels := maps.Clone(u.cloneSet().Spec.Template.Labels)
	err := u.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: simKey().Namespace, Name: name, Labels: labels},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "bare:1"}}}})
	if !apierrors.IsForbidden(err) {
		u.must(err)
	}
}

// injected is the container that a webhook adds.
const injected = "mesh"

// admitStrange is the admission of a world with strangers.
func (s *simulated) admitStrange(obj client.Object) error {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil
	}
	if s.quota > 0 && len(s.pods()) >= s.quota {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, pod.Name, errors.New("exceeded quota"))
	}
	if s.injects {
		pod.Spec.Containers = append([]corev1.Container{{Name: injected, Image: "mesh:1"}}, pod.Spec.Containers...)
	}
	return nil
}

// endStrange ends what strangers do, and gives every pod back to the CloneSet.
func (s *simulated) endStrange() {
	s.quota, s.Kubelet.Refuse = 0, false
	for _, pod := range s.pods() {
		err := s.Change("Pod", client.ObjectKeyFromObject(pod), func(obj client.Object) {
			obj.GetLabels()["app"] = "web"
			delete(obj.GetLabels(), v1beta1.UnavailableLabelPrefix+"drill")
		})
		if err != nil {
			s.Fail(err)
		}
	}
	s.spec("type RollingUpdate", func(spec *v1beta1.CloneSetSpec) {
		spec.UpdateStrategy.Type = v1beta1.RollingUpdateCloneSetUpdateStrategyType
	})
	s.Kubelet.Retry()
}

// owns tells whether the pod is the CloneSet's, as the truth has it and the pass has seen it.
func (c *checker) owns(pod *corev1.Pod) bool {
	if seen := c.seen[pod.UID]; seen != nil && seen.Labels["app"] != "web" {
		return false
	}
	return metav1.IsControlledBy(pod, c.spec) && pod.Labels["app"] == "web"
}
