package hub_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

// crons is the kind with its group.
const crons = "AdvancedCronJob.apps.kruise.io"

// cronOrder is what the Work of a member asks of an AdvancedCronJob.
type cronOrder struct {
	Metadata struct{ Annotations map[string]string }
	Spec     struct{ Paused bool }
	ticks    topology.Ticks
}

// cronOrder waits for an order that is paused or not, and returns it.
func (f *fleet) cronOrder(cluster string, paused bool) (o cronOrder) {
	f.t.Helper()
	f.eventually(fmt.Sprintf("%s has an order with paused %t", cluster, paused), func() error {
		w := &work.Work{}
		if err := f.client.Get(f.ctx, keyOf(crons, f.namespace, "clean").Work(cluster), w); err != nil {
			return err
		}
		o = cronOrder{}
		if err := json.Unmarshal(w.Spec.Workload.Manifests[0].Raw, &o); err != nil {
			return err
		}
		if o.Spec.Paused != paused {
			return fmt.Errorf("its order is %+v", o)
		}
		if ticks := o.Metadata.Annotations[topology.AnnotationTicks]; ticks != "" {
			return json.Unmarshal([]byte(ticks), &o.ticks)
		}
		return nil
	})
	return o
}

// cronIs waits until the AdvancedCronJob is Ready with this message and newest tick.
func (f *fleet) cronIs(job *apps.AdvancedCronJob, message string, tick time.Time) {
	f.t.Helper()
	f.eventually(message, func() error {
		if err := f.client.Get(f.ctx, client.ObjectKeyFromObject(job), job); err != nil {
			return err
		}
		last := job.Status.LastScheduleTime
		for _, c := range job.Status.Conditions {
			if string(c.Type) == apps.ConditionReady && c.Status == corev1.ConditionTrue && c.Message == message &&
				(tick.IsZero() || last != nil && last.Time.Equal(tick)) {
				return nil
			}
		}
		return fmt.Errorf("status %+v", job.Status)
	})
}

// TestAdvancedCronJobs places an AdvancedCronJob in each member, and then in one: it moves when that member has
// confirmed its end, or a person has confirmed that it is lost.
func TestAdvancedCronJobs(t *testing.T) {
	t.Parallel() // most of its time is waiting
	f := newFleet(t, threeMembers)
	change := func(policy *topology.FederationPolicy, change func(*topology.FederationPolicySpec)) {
		t.Helper()
		base := policy.DeepCopy()
		change(&policy.Spec)
		must(t, f.client.Patch(f.ctx, policy, client.MergeFrom(base)))
	}
	policy := f.policy("crons", func(spec *topology.FederationPolicySpec) {
		spec.Workloads = []topology.WorkloadSelector{{Kind: "AdvancedCronJob"}}
		spec.Clusters.Names = []string{"east", "south", "west"}
		spec.Failover = topology.Failover{Mode: topology.FailoverFence, After: "20s"}
	})
	job := &apps.AdvancedCronJob{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "clean"}}
	job.Spec.Schedule = "0 3 * * *"
	job.Spec.Template.BroadcastJobTemplate = &apps.BroadcastJobTemplateSpec{
		Spec: apps.BroadcastJobSpec{Template: apps.NewPodTemplate(podTemplate("clean:1"))}}
	job.Spec.Template.BroadcastJobTemplate.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	must(t, f.client.Create(f.ctx, job))
	f.placed(crons, "clean", map[string]int32{"east": 1, "south": 1, "west": 1})
	ticks := func(at int) time.Time { return time.Date(2026, 3, 1, 3, at, 0, 0, time.UTC) }
	f.agents["south"].ticks(ticks(1))
	f.agents["west"].ticks(ticks(2))
	f.cronIs(job, "3 members start jobs, each its own", ticks(2))
	if job.Status.Type != apps.BroadcastJobTemplateType {
		t.Errorf("%+v", job.Status)
	}
	for name := range threeMembers {
		if o := f.cronOrder(name, false); len(o.Metadata.Annotations) != 0 {
			t.Errorf("%s has %+v", name, o)
		}
	}

	change(policy, func(spec *topology.FederationPolicySpec) { spec.Placement = topology.PlacementOne })
	f.cronIs(job, "1 member starts the jobs", ticks(2))
	first := f.alone()
	f.rest()
	if wrote, _ := f.about(f.quiet()); len(wrote) > 0 {
		t.Errorf("at rest the hub wrote %v", wrote)
	}

	// The next one starts after the first one has confirmed its end, with the ticks that that one has left.
	f.agents[first].ticks(ticks(3))
	f.cronIs(job, "1 member starts the jobs", ticks(3))
	f.agents[first].hush(true)
	change(policy, func(spec *topology.FederationPolicySpec) {
		spec.Clusters.Names = []string{}
		for name := range threeMembers {
			if name != first {
				spec.Clusters.Names = append(spec.Clusters.Names, name)
			}
		}
	})
	f.cronOrder(first, true)
	if p, err := f.placement(crons, "clean"); err != nil || p.Spec.Placed != 0 {
		t.Fatalf("%v, %v", p.Spec.Cells, err)
	}
	f.agents[first].hush(false)
	f.cronIs(job, "1 member starts the jobs", ticks(3))
	second := f.alone()
	if o := f.cronOrder(second, false); second == first || !o.ticks.Alone || o.ticks.Since == nil ||
		o.ticks.StartAfter != nil {
		t.Fatalf("%s, after %s, has %+v", second, first, o)
	}
	f.eventually(first+" loses its AdvancedCronJob", func() error {
		err := f.client.Get(f.ctx, keyOf(crons, f.namespace, "clean").Work(first), &work.Work{})
		if err == nil {
			return fmt.Errorf("it has its Work")
		}
		return client.IgnoreNotFound(err)
	})

	// A member that is lost keeps the ticks until a person confirms it.
	f.agents[second].hush(true)
	f.agents[second].keepStill()
	member := &topology.MemberCluster{}
	f.eventually(second+" is lost", func() error {
		if err := f.client.Get(f.ctx, client.ObjectKey{Name: second}, member); err != nil {
			return err
		}
		if meta.IsStatusConditionTrue(member.Status.Conditions, topology.MemberReady) {
			return fmt.Errorf("it is Ready")
		}
		return nil
	})
	if alone := f.alone(); alone != second {
		t.Fatalf("%s starts the jobs before a person has confirmed that %s is lost", alone, second)
	}
	base := member.DeepCopy()
	ready := meta.FindStatusCondition(member.Status.Conditions, topology.MemberReady)
	member.Spec.Fence = &topology.Fence{LostSince: ready.LastTransitionTime}
	must(t, f.client.Patch(f.ctx, member, client.MergeFrom(base)))
	f.cronOrder(second, true)
	var third string
	f.eventually("another member starts the jobs", func() error {
		if third = f.alone(); third == second {
			return fmt.Errorf("it is %s", third)
		}
		return nil
	})
	if o := f.cronOrder(third, false); o.ticks.StartAfter == nil || o.ticks.Since == nil {
		t.Errorf("%s, after %s, has %+v", third, second, o)
	}
}

// alone waits until the placement has one cell with 1, and returns its member.
func (f *fleet) alone() (name string) {
	f.t.Helper()
	f.eventually("one member starts the jobs", func() error {
		p, err := f.placement(crons, "clean")
		if err != nil {
			return err
		}
		name = ""
		for cluster, n := range cellsOf(p) {
			if n == 1 && name != "" {
				return fmt.Errorf("%v", p.Spec.Cells)
			} else if n == 1 {
				name = cluster
			}
		}
		if name == "" {
			return fmt.Errorf("%v", p.Spec.Cells)
		}
		return nil
	})
	return name
}
