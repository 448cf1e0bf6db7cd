package ephemeraljob

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
)

func noon() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }

// pods returns pods a, b, c … from oldest to youngest, whose containers of job u are in these states: "-" for none, w
// for waiting, r for running, s and f for ended, e for a container that cannot be run.
func pods(states string) []*corev1.Pod {
	var out []*corev1.Pod
	for i, state := range states {
		name := string(rune('a' + i))
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name),
			CreationTimestamp: metav1.NewTime(noon().Add(time.Duration(i-60) * time.Minute))}}
		pod.Spec.Containers = []corev1.Container{{Name: "main"}}
		if state != '-' {
			give(pod, "look", "u", stateOfRune(state))
		}
		out = append(out, pod)
	}
	return out
}

func stateOfRune(state rune) corev1.ContainerState {
	switch state {
	case 'r':
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	case 's':
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	case 'f':
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3}}
	case 'e':
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "RunContainerError"}}
	}
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}}
}

// give adds an ephemeral container of a job to the pod.
func give(pod *corev1.Pod, name, job string, state corev1.ContainerState) {
	c := corev1.EphemeralContainer{}
	c.Name, c.Env = name, []corev1.EnvVar{{Name: v1alpha1.EnvEphemeralJob, Value: job}}
	pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, c)
	pod.Status.EphemeralContainerStatuses = append(pod.Status.EphemeralContainerStatuses,
		corev1.ContainerStatus{Name: name, State: state})
}

func jobOf(change func(*v1alpha1.EphemeralJob)) *v1alpha1.EphemeralJob {
	job := &v1alpha1.EphemeralJob{ObjectMeta: metav1.ObjectMeta{Name: "dump", UID: "u"}}
	c := corev1.EphemeralContainer{}
	c.Name, c.Image = "look", "busybox:1"
	job.Spec.Template.EphemeralContainers = []corev1.EphemeralContainer{c}
	job.Spec.Parallelism = new(int32(1))
	if change != nil {
		change(job)
	}
	return job
}

// written returns the plan as text.
func written(p Plan) string {
	c := p.Counts
	out := []string{string(p.Phase),
		fmt.Sprintf("%d:w%d,r%d,s%d,f%d", c.Match, c.Waiting, c.Running, c.Succeeded, c.Failed)}
	var names []string
	for _, pod := range p.Add {
		names = append(names, pod.Name)
	}
	if len(names) > 0 {
		out = append(out, "add "+strings.Join(names, ","))
	}
	if len(p.Taken) > 0 {
		out = append(out, "taken "+strings.Join(p.Taken, ","))
	}
	for text, holds := range map[string]bool{"overdue": p.Overdue, "expired": p.Expired} {
		if holds {
			out = append(out, text)
		}
	}
	if p.Ended {
		out = append(out, "ends")
	}
	if p.Wake > 0 {
		out = append(out, "wake "+p.Wake.String())
	}
	return strings.Join(out, " ")
}

func TestCompute(t *testing.T) {
	parallel := func(n int32) func(*v1alpha1.EphemeralJob) {
		return func(job *v1alpha1.EphemeralJob) { job.Spec.Parallelism = &n }
	}
	replicas := func(n int32) func(*v1alpha1.EphemeralJob) {
		return func(job *v1alpha1.EphemeralJob) { job.Spec.Replicas, job.Spec.Parallelism = &n, new(int32(9)) }
	}
	unlimited := func(job *v1alpha1.EphemeralJob) { job.Spec.Parallelism = nil }
	paused := func(job *v1alpha1.EphemeralJob) { job.Spec.Paused = true }
	deadline := func(left time.Duration, also ...func(*v1alpha1.EphemeralJob)) func(*v1alpha1.EphemeralJob) {
		return func(job *v1alpha1.EphemeralJob) {
			job.Spec.ActiveDeadlineSeconds = new(int64(60))
			job.Status.StartTime = new(metav1.NewTime(noon().Add(left - time.Minute)))
			for _, change := range also {
				change(job)
			}
		}
	}
	ended := func(ago time.Duration, ttl *int32) func(*v1alpha1.EphemeralJob) {
		return func(job *v1alpha1.EphemeralJob) {
			job.Status.Phase, job.Spec.TTLSecondsAfterFinished = v1alpha1.EphemeralJobFailed, ttl
			job.Status.CompletionTime = new(metav1.NewTime(noon().Add(-ago)))
		}
	}
	for name, test := range map[string]struct {
		job     func(*v1alpha1.EphemeralJob)
		pods    string
		change  func([]*corev1.Pod)
		refused string
		want    string
	}{
		"no pods":                        {want: "Waiting 0:w0,r0,s0,f0"},
		"the oldest first":               {pods: "---", want: "Waiting 3:w3,r0,s0,f0 add a"},
		"parallelism":                    {job: parallel(2), pods: "---", want: "Waiting 3:w3,r0,s0,f0 add a,b"},
		"one runs, one more may":         {job: parallel(2), pods: "r--", want: "Running 3:w2,r1,s0,f0 add b"},
		"three left of ten, two run":     {job: parallel(10), pods: "rr---", want: "Running 5:w3,r2,s0,f0 add c,d,e"},
		"waiting containers take part":   {job: parallel(2), pods: "ww-", want: "Waiting 3:w3,r0,s0,f0"},
		"parallelism was lowered":        {pods: "rr-", want: "Running 3:w1,r2,s0,f0"},
		"parallelism 0":                  {job: parallel(0), pods: "s-", want: "Waiting 2:w1,r0,s1,f0"},
		"parallelism by default":         {job: unlimited, pods: "--", want: "Waiting 2:w2,r0,s0,f0 add a"},
		"the next one":                   {pods: "s-f-", want: "Waiting 4:w2,r0,s1,f1 add b"},
		"all succeeded":                  {pods: "ss", want: "Succeeded 2:w0,r0,s2,f0 ends"},
		"mixed results end too":          {pods: "sf", want: "Failed 2:w0,r0,s1,f1 ends"},
		"a container that cannot be run": {pods: "e", want: "Failed 1:w0,r0,s0,f1 ends"},
		"replicas, the oldest":           {job: replicas(2), pods: "---", want: "Waiting 2:w2,r0,s0,f0 add a,b"},
		"replicas are reached":           {job: replicas(1), pods: "-s", want: "Succeeded 1:w0,r0,s1,f0 ends"},
		"more replicas than pods":        {job: replicas(9), pods: "s", want: "Succeeded 1:w0,r0,s1,f0 ends"},
		"replicas 0":                     {job: replicas(0), pods: "-", want: "Waiting 0:w0,r0,s0,f0"},
		"paused":                         {job: paused, pods: "r-", want: "Paused 2:w1,r1,s0,f0"},
		"paused, but through":            {job: paused, pods: "s", want: "Succeeded 1:w0,r0,s1,f0 ends"},
		"before the deadline":            {job: deadline(time.Second), pods: "r", want: "Running 1:w0,r1,s0,f0 wake 1s"},
		"at the deadline":                {job: deadline(0), pods: "r-", want: "Failed 2:w1,r1,s0,f0 overdue ends"},
		"without pods at the deadline":   {job: deadline(0), want: "Failed 0:w0,r0,s0,f0 overdue ends"},
		"paused at the deadline":         {job: deadline(0, paused), pods: "r", want: "Paused 1:w0,r1,s0,f0"},
		"through at the deadline":        {job: deadline(0), pods: "s", want: "Succeeded 1:w0,r0,s1,f0 ends"},
		"kept after its end": {job: ended(time.Minute, new(int32(90))), pods: "-",
			want: "Failed 0:w0,r0,s0,f0 wake 30s"},
		"kept long enough":      {job: ended(time.Minute, new(int32(60))), want: "Failed 0:w0,r0,s0,f0 expired"},
		"kept for half an hour": {job: ended(29*time.Minute, nil), want: "Failed 0:w0,r0,s0,f0 wake 1m0s"},
		"no container": {job: func(job *v1alpha1.EphemeralJob) { job.Spec.Template.EphemeralContainers = nil }, pods: "-",
			want: "Error 0:w0,r0,s0,f0"},
		"pods that end or go do not count": {pods: "--s-", want: "Waiting 2:w2,r0,s0,f0 add b",
			change: func(pods []*corev1.Pod) {
				pods[0].Status.Phase, pods[2].DeletionTimestamp = corev1.PodSucceeded, new(metav1.NewTime(noon()))
			}},
		"a container of that name of others": {pods: "---", job: parallel(3),
			want: "Waiting 1:w1,r0,s0,f0 add b taken a,c",
			change: func(pods []*corev1.Pod) {
				give(pods[0], "look", "v", corev1.ContainerState{})
				pods[2].Spec.Containers[0].Name = "look"
			}},
		"other containers do not matter": {pods: "-", want: "Waiting 1:w1,r0,s0,f0 add a",
			change: func(pods []*corev1.Pod) { give(pods[0], "debug", "v", stateOfRune('r')) }},
		"the template changed: the pod has its containers": {pods: "r", want: "Running 1:w0,r1,s0,f0",
			job: func(job *v1alpha1.EphemeralJob) { job.Spec.Template.EphemeralContainers[0].Name = "other" }},
		"one of two containers ended": {pods: "s", want: "Waiting 1:w1,r0,s0,f0",
			change: func(pods []*corev1.Pod) { give(pods[0], "more", "u", stateOfRune('w')) }},
		"one of two containers runs": {pods: "s", want: "Running 1:w0,r1,s0,f0",
			change: func(pods []*corev1.Pod) { give(pods[0], "more", "u", stateOfRune('r')) }},
		"one of two containers failed": {pods: "r", want: "Failed 1:w0,r0,s0,f1 ends",
			change: func(pods []*corev1.Pod) { give(pods[0], "more", "u", stateOfRune('f')) }},
		"not started yet": {pods: "w", want: "Waiting 1:w1,r0,s0,f0",
			change: func(pods []*corev1.Pod) { pods[0].Status.EphemeralContainerStatuses = nil }},
		"one that refused comes last":      {pods: "---", refused: "a", want: "Waiting 3:w3,r0,s0,f0 add b"},
		"all refused":                      {pods: "--", refused: "ab", want: "Waiting 2:w2,r0,s0,f0 add a"},
		"another takes its place":          {job: replicas(1), pods: "--", refused: "a", want: "Waiting 1:w1,r0,s0,f0 add b"},
		"youngest have them, older remain": {job: replicas(2), pods: "--r", want: "Running 2:w1,r1,s0,f0 add a"},
	} {
		t.Run(name, func(t *testing.T) {
			f := Facts{Job: jobOf(test.job), Pods: pods(test.pods), Refused: map[types.UID]bool{}, Now: noon()}
			for _, name := range test.refused {
				f.Refused[types.UID(name)] = true
			}
			if test.change != nil {
				test.change(f.Pods)
			}
			job, before := f.Job.DeepCopy(), deepCopies(f.Pods)
			if got := written(Compute(f)); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
			if !equality.Semantic.DeepEqual(job, f.Job) || !equality.Semantic.DeepEqual(before, f.Pods) {
				t.Error("the plan changed what it was made from")
			}
		})
	}
}

func deepCopies(pods []*corev1.Pod) (out []*corev1.Pod) {
	for _, pod := range pods {
		out = append(out, pod.DeepCopy())
	}
	return out
}

func TestContainersHaveTheUIDOfTheJob(t *testing.T) {
	job := jobOf(func(job *v1alpha1.EphemeralJob) {
		job.Spec.Template.EphemeralContainers[0].Env = []corev1.EnvVar{{Name: "A", Value: "b"},
			{Name: v1alpha1.EnvEphemeralJob, Value: "forged"}}
	})
	before := job.DeepCopy()
	got := containersOf(job)
	want := []corev1.EnvVar{{Name: "A", Value: "b"}, {Name: v1alpha1.EnvEphemeralJob, Value: "u"}}
	if len(got) != 1 || !equality.Semantic.DeepEqual(got[0].Env, want) {
		t.Errorf("%+v", got)
	}
	if !equality.Semantic.DeepEqual(before, job) {
		t.Error("the job changed")
	}
}

// TestSimulatedJobsKeepTheirParallelism runs jobs over pods that come, go, take and refuse containers: no pod gets them
// twice, no more than parallelism run, and each job ends.
func TestSimulatedJobsKeepTheirParallelism(t *testing.T) {
	for seed := range uint64(2000) {
		if problem := simulate(seed); problem != "" {
			t.Fatalf("seed %d: %s", seed, problem)
		}
	}
}
