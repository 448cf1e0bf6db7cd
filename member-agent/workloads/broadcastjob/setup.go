package broadcastjob

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// gatherEvents is how long events of pods and nodes are gathered before a job is reconciled. A pass looks at all nodes.
const gatherEvents = 20 * time.Millisecond

// The conditions of errors.
const (
	failedCreate = "FailedCreatePod"
	failedUpdate = "FailedUpdatePod"
)

// Add adds the controller of BroadcastJobs to the manager.
func Add(ctx context.Context, env *workload.Env) error {
	r := &Reconciler{ask: ask}
	b := workload.For(env, r.kind()).OwnsPods(ctx).OnNodes(ctx)
	r.Controller, r.nodeNames = b.Controller, namesOfNodes(b.Controller.Live)
	return b.Complete()
}

func (r *Reconciler) kind() workload.Kind[*v1beta1.BroadcastJob, memory] {
	return workload.Kind[*v1beta1.BroadcastJob, memory]{
		GVK:           v1beta1.BroadcastJobKind,
		New:           func() *v1beta1.BroadcastJob { return &v1beta1.BroadcastJob{} },
		NewList:       func() client.ObjectList { return &v1beta1.BroadcastJobList{} },
		Workers:       16,
		Phases:        r.phases,
		Selector:      selectorOf,
		PodDelay:      gatherEvents,
		ScaleFailure:  failedCreate,
		UpdateFailure: failedUpdate,
	}
}

// namesOfNodes returns a function that asks the API server for the names of all nodes.
func namesOfNodes(live client.Reader) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
		if err := live.List(ctx, list); err != nil {
			return nil, fmt.Errorf("list the nodes: %w", err)
		}
		names := make([]string, len(list.Items))
		for i := range list.Items {
			names[i] = list.Items[i].Name
		}
		return names, nil
	}
}

// selectorOf selects the pods of a job, by a label that no other job has.
func selectorOf(job *v1beta1.BroadcastJob) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{v1beta1.LabelBroadcastJobUID: string(job.UID)}}
}
