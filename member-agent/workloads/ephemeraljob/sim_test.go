package ephemeraljob

import (
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
)

// simulate runs one job in a random world and returns what went wrong, "" if nothing did.
func simulate(seed uint64) string {
	random := rand.New(rand.NewPCG(seed, 1))
	parallelism := int32(1 + random.IntN(4))
	job := jobOf(func(job *v1alpha1.EphemeralJob) {
		job.Spec.Parallelism = &parallelism
		if random.IntN(2) == 0 {
			job.Spec.Replicas = new(int32(1 + random.IntN(8)))
		}
	})
	f := Facts{Job: job, Refused: map[types.UID]bool{}, Now: noon()}
	made := 0
	come := func() {
		name := fmt.Sprintf("p%03d", made)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name),
			CreationTimestamp: metav1.NewTime(noon().Add(time.Duration(made) * time.Second))}}
		made++
		f.Pods = append(f.Pods, pod)
	}
	for range 1 + random.IntN(8) {
		come()
	}
	for step := range 500 {
		plan := Compute(f)
		if plan.Ended {
			return ""
		}
		if problem := check(f, plan, parallelism); problem != "" {
			return fmt.Sprintf("step %d: %s", step, problem)
		}
		for _, pod := range plan.Add {
			if random.IntN(4) == 0 {
				f.Refused[pod.UID] = true
				continue
			}
			delete(f.Refused, pod.UID)
			give(pod, "look", "u", stateOfRune('w'))
		}
		for _, pod := range f.Pods {
			advance(random, pod)
		}
		if step < 40 && random.IntN(5) == 0 {
			come()
		}
		if step < 40 && random.IntN(8) == 0 && len(f.Pods) > 1 {
			f.Pods = f.Pods[1:]
		}
	}
	return "the job did not end"
}

// advance lets a container of the pod take its next step, or not.
func advance(random *rand.Rand, pod *corev1.Pod) {
	for i := range pod.Status.EphemeralContainerStatuses {
		s := &pod.Status.EphemeralContainerStatuses[i]
		switch {
		case random.IntN(2) == 0 || s.State.Terminated != nil:
		case s.State.Running == nil:
			s.State = stateOfRune('r')
		case random.IntN(3) == 0:
			s.State = stateOfRune('f')
		default:
			s.State = stateOfRune('s')
		}
	}
}

// check returns what is wrong with a plan.
func check(f Facts, plan Plan, parallelism int32) string {
	busy := 0
	for _, pod := range f.Pods {
		if s := stateOf(pod, f.Job.UID); s == waiting || s == running {
			busy++
		}
	}
	for _, pod := range plan.Add {
		if stateOf(pod, f.Job.UID) != none {
			return "pod " + pod.Name + " gets its containers twice"
		}
	}
	if n := busy + len(plan.Add); len(plan.Add) > 0 && n > int(parallelism) {
		return fmt.Sprintf("containers run in %d pods, parallelism is %d", n, parallelism)
	}
	if n := f.Job.Spec.Replicas; n != nil && plan.Counts.Match > *n {
		return fmt.Sprintf("%d pods, replicas is %d", plan.Counts.Match, *n)
	}
	c := plan.Counts
	if c.Waiting+c.Running+c.Succeeded+c.Failed != c.Match {
		return fmt.Sprintf("the counters %+v do not add up", c)
	}
	return ""
}
