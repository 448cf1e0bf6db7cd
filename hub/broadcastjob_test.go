package hub_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// jobIs waits until the status of the job is as is says.
func (f *fleet) jobIs(job *apps.BroadcastJob, what string, is func(*apps.BroadcastJobStatus) bool) {
	f.t.Helper()
	f.eventually(what, func() error {
		if err := f.client.Get(f.ctx, client.ObjectKeyFromObject(job), job); err != nil {
			return err
		}
		if job.Status.ObservedGeneration != job.Generation || !is(&job.Status) {
			return fmt.Errorf("status %+v, progress %+v", job.Status, job.Status.Flotilla)
		}
		return nil
	})
}

// TestBroadcastJobs runs a job in batches over three members. It halts in one of them, so that no member touches a
// further node, is resumed and completes, and is deleted after its time.
func TestBroadcastJobs(t *testing.T) {
	t.Parallel() // most of its time is waiting
	f := newFleet(t, threeMembers)
	for name, n := range map[string]int32{"east": 5, "south": 3, "west": 2} {
		f.agents[name].has(n)
	}
	f.policy("all", func(spec *topology.FederationPolicySpec) {
		spec.Workloads = []topology.WorkloadSelector{{APIVersion: "apps.kruise.io/v1beta1", Kind: "BroadcastJob"}}
	})
	job := &apps.BroadcastJob{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "repair"}}
	job.Spec.Template = apps.NewPodTemplate(podTemplate("repair:1"))
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	job.Spec.Parallelism = new(intstr.FromInt32(4))
	job.Spec.Flotilla = &apps.BroadcastJobFlotilla{Batches: &apps.BroadcastJobBatches{Size: intstr.FromString("40%"),
		Soak: "3s"}}
	must(t, f.client.Create(f.ctx, job))
	f.jobIs(job, "batch 1 soaks", func(s *apps.BroadcastJobStatus) bool {
		return s.Desired == 10 && s.Succeeded == 4 && s.Flotilla != nil && s.Flotilla.Batch == 1 &&
			s.Flotilla.SoakTime != nil && s.Phase == apps.PhaseRunning
	})

	f.agents["east"].halts("PodsRestarted", "pod shop/web restarted")
	f.jobIs(job, "it halts, and says where and why", func(s *apps.BroadcastJobStatus) bool {
		return s.Phase == apps.PhasePaused && s.Flotilla != nil && s.Flotilla.Halted != nil &&
			slices.ContainsFunc(s.Conditions, func(c apps.JobCondition) bool {
				return c.Type == apps.ConditionStalled && c.Status == corev1.ConditionTrue && c.Reason == "JobHalted" &&
					strings.Contains(c.Message, "halted in member east: PodsRestarted: pod shop/web restarted")
			})
	})
	f.eventually("all members wait", func() error {
		p, err := f.placement("BroadcastJob.apps.kruise.io", "repair")
		if err != nil {
			return err
		}
		for _, c := range p.Spec.Cells {
			if !c.Waiting {
				return fmt.Errorf("%+v", c)
			}
		}
		return nil
	})
	touched := job.Status.Succeeded

	base := job.DeepCopy()
	metav1.SetMetaDataAnnotation(&job.ObjectMeta, apps.AnnotationResume,
		job.Status.Flotilla.Halted.Time.UTC().Format(time.RFC3339))
	must(t, f.client.Patch(f.ctx, job, client.MergeFrom(base)))
	f.jobIs(job, "it is resumed and completes", func(s *apps.BroadcastJobStatus) bool {
		return s.Phase == apps.PhaseCompleted
	})
	s := &job.Status
	if touched > 8 || s.Succeeded != 10 || s.CompletionTime == nil || s.StartTime == nil || s.Flotilla != nil {
		t.Errorf("%d nodes were touched before the halt; %+v", touched, s)
	}
	f.rest()
	if wrote, _ := f.about(f.quiet()); len(wrote) > 0 {
		t.Errorf("at rest the hub wrote %v", wrote)
	}

	f.patch(job, `{"completionPolicy":{"ttlSecondsAfterFinished":0}}`)
	f.eventually("it is deleted after its time", func() error {
		if err := f.client.Get(f.ctx, client.ObjectKeyFromObject(job), job); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
}
