package pods

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

// chosen is the pod that a session goes to.
type chosen struct {
	member *reached
	pod    *corev1.Pod
}

// choose returns the first Ready pod of the target in the first member that has one, and says which one it is; without
// a Ready pod the first that runs. It fails where no pod runs.
func (f *fleet) choose(ctx context.Context, t *target, o *options) (*chosen, error) {
	if t.pod != "" && len(o.only) > 1 {
		return nil, console.Usagef("pod %s is in one member: name one member with -C", t.pod)
	}
	answers := ask(ctx, f.members, o.patience, func(ctx context.Context, r *reached) ([]corev1.Pod, error) {
		return r.pods(ctx, t)
	})
	found, reached, failures := sorted(f, answers)
	if err := f.report(ctx, reached, failures); err != nil {
		return nil, err
	}
	if len(found) == 0 {
		what := "a pod of "
		if t.pod != "" {
			what = ""
		}
		return nil, t.without(what, failures)
	}
	best, all := pick(found)
	switch {
	case best == nil && t.pod != "":
		pod := &found[0].value[0]
		return nil, fmt.Errorf("pod %s in member %s is %s: it has no running container", pod.Name, found[0].member.name,
			pod.Status.Phase)
	case best == nil:
		return nil, fmt.Errorf("no pod of %s runs (%d exist): flotilla get pods %s shows them", t.key.Sentence(), all,
			t.argument)
	case t.pod == "" && podstate.Ready(best.pod):
		f.notes.say("Using pod %s in member %s, the first Ready one of %d", best.pod.Name, best.member.name, all)
	case t.pod == "":
		f.notes.say("Using pod %s in member %s: it runs, and none of %d is Ready", best.pod.Name, best.member.name, all)
	}
	return best, nil
}

// pick returns the first Ready pod, or else the first that runs, nil for none; and how many pods there are. It is pure.
func pick(found []answer[[]corev1.Pod]) (*chosen, int) {
	var running *chosen
	all := 0
	for _, a := range found {
		all += len(a.value)
	}
	for _, a := range found {
		for i := range a.value {
			pod := &a.value[i]
			switch {
			case pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil:
			case podstate.Ready(pod):
				return &chosen{a.member, pod}, all
			case running == nil:
				running = &chosen{a.member, pod}
			}
		}
	}
	return running, all
}
