package cloneset

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/simulator"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/lifecycle"
)

// partyPrefix begins the labels and finalizers of the party outside.
const partyPrefix = "party.test/"

// party serves the hooks of pods as a load balancer does: it holds pods that serve, lets go of those that are to change
// or to leave, and takes them back afterwards. Before it is diligent it is late, and forgets one pod in eight.
type party struct {
	*simulated
	random   *rand.Rand
	diligent bool
	forgets  map[forgotten]bool
	awaits   map[types.UID]bool
}

// forgotten is a pod in a state of life.
type forgotten struct {
	uid   types.UID
	state v1beta1.LifecycleState
}

func newParty(s *simulated) *party {
	return &party{simulated: s, random: s.Random("party"), forgets: map[forgotten]bool{}, awaits: map[types.UID]bool{}}
}

// changed is told of every change.
func (p *party) changed(kind simulator.Kind, after client.Object) {
	switch kind {
	case "Pod":
		if pod, ok := after.(*corev1.Pod); ok {
			p.later(pod)
		}
	case "CloneSet":
		p.all()
	}
}

func (p *party) all() {
	for _, pod := range p.pods() {
		p.later(pod)
	}
}

// later looks at a pod after a while.
func (p *party) later(pod *corev1.Pod) {
	if p.awaits[pod.UID] {
		return
	}
	p.awaits[pod.UID] = true
	delay := time.Duration(p.random.IntN(300)) * time.Millisecond
	if !p.diligent && p.random.IntN(3) == 0 {
		delay *= 20
	}
	p.After(delay, func() {
		delete(p.awaits, pod.UID)
		if now, ok := p.Get("Pod", client.ObjectKeyFromObject(pod)).(*corev1.Pod); ok && now.UID == pod.UID {
			p.serve(now)
		}
	})
}

// serve does what the state of a pod asks for.
func (p *party) serve(pod *corev1.Pod) {
	key := forgotten{pod.UID, lifecycle.State(pod)}
	forget, known := p.forgets[key]
	if !known {
		forget = p.random.IntN(8) == 0
		p.forgets[key] = forget
	}
	cs := p.cloneSet()
	if cs == nil || forget && !p.diligent {
		return
	}
	l := cs.Spec.Lifecycle
	if l == nil {
		l = &v1beta1.Lifecycle{}
	}
	var hold, letGo []*v1beta1.LifecycleHook
	switch key.state {
	case v1beta1.LifecyclePreparingNormal:
		hold = append(hold, l.PreNormal)
	case v1beta1.LifecycleNormal:
		hold = append(hold, l.PreDelete, l.InPlaceUpdate)
	case v1beta1.LifecyclePreparingUpdate:
		letGo = append(letGo, l.InPlaceUpdate)
	case v1beta1.LifecycleUpdated:
		hold = append(hold, l.InPlaceUpdate)
	case v1beta1.LifecyclePreparingDelete:
		letGo = append(letGo, l.PreDelete)
	}
	after := pod.DeepCopy()
	if pod.DeletionTimestamp != nil {
		after.Finalizers = slices.DeleteFunc(after.Finalizers, func(f string) bool {
			return strings.HasPrefix(f, partyPrefix)
		})
		hold, letGo = nil, nil
	}
	for _, hook := range hold {
		handle(hook, after, true)
	}
	for _, hook := range letGo {
		handle(hook, after, false)
	}
	if slices.Equal(after.Finalizers, pod.Finalizers) && maps.Equal(after.Labels, pod.Labels) {
		return
	}
	p.Tell("party: %s in state %q is let go of: %v", pod.Name, key.state, len(hold) == 0)
	p.must(p.Change("Pod", client.ObjectKeyFromObject(pod), func(obj client.Object) {
		obj.SetFinalizers(after.Finalizers)
		obj.SetLabels(after.Labels)
	}))
}

func (s *simulated) must(err error) {
	if err != nil {
		s.Fail(err)
	}
}

// handle puts the labels and finalizers of a hook on a pod, or takes them off.
func handle(hook *v1beta1.LifecycleHook, pod *corev1.Pod, on bool) {
	if hook == nil {
		return
	}
	for name, value := range hook.LabelsHandler {
		if on {
			pod.Labels[name] = value
		} else {
			delete(pod.Labels, name)
		}
	}
	for _, name := range hook.FinalizersHandler {
		switch have := slices.Contains(pod.Finalizers, name); {
		case on && !have:
			pod.Finalizers = append(pod.Finalizers, name)
		case !on:
			pod.Finalizers = slices.DeleteFunc(pod.Finalizers, func(f string) bool { return f == name })
		}
	}
}

// holdsPod tells whether anything of the hook is on the pod.
func holdsPod(hook *v1beta1.LifecycleHook, pod *corev1.Pod) bool {
	if hook == nil {
		return false
	}
	for name, value := range hook.LabelsHandler {
		if have, ok := pod.Labels[name]; ok && have == value {
			return true
		}
	}
	return slices.ContainsFunc(hook.FinalizersHandler, func(f string) bool { return slices.Contains(pod.Finalizers, f) })
}
