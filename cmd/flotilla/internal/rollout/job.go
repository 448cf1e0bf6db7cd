package rollout

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// jobVerbs are the verbs, beside status, that a BroadcastJob has.
func jobVerbs() []string { return []string{"pause", "resume", "promote"} }

// isJob reports whether the key names a BroadcastJob, which also clusters without a hub run.
func isJob(key wire.Key) bool { return key.GroupKind() == apps.BroadcastJobKind.GroupKind() }

// noVerb says that a BroadcastJob does not have the verb.
func noVerb(name string) error {
	return fmt.Errorf("a BroadcastJob runs its pods once, and has no rollout %s: use status, %s, or apply a job of "+
		"another name to run it again", name, strings.Join(jobVerbs(), ", "))
}

func getJob(ctx context.Context, c client.Client, key wire.Key) (client.Object, error) {
	job := &apps.BroadcastJob{}
	if err := c.Get(ctx, key.Workload(), job); apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("there is no %s: see kubectl get broadcastjobs -A", key.Sentence())
	} else if err != nil {
		return nil, fmt.Errorf("get %s: %w", key.Sentence(), err)
	}
	return job, nil
}

// pauseJob pauses a job, or lets one go on that was paused or has halted.
func pauseJob(job *apps.BroadcastJob, paused bool) error {
	if ended := job.Status.CompletionTime; ended != nil {
		return fmt.Errorf("BroadcastJob %s/%s has ended, it is %s", job.Namespace, job.Name, job.Status.Phase)
	}
	job.Spec.Paused = paused
	if progress := job.Status.Flotilla; !paused && progress != nil && progress.Halted != nil {
		metav1.SetMetaDataAnnotation(&job.ObjectMeta, apps.AnnotationResume,
			progress.Halted.Time.UTC().Format(time.RFC3339))
	}
	return nil
}

// promoteJob lets the next batch begin without a soak, and whatever checks say.
func promoteJob(job *apps.BroadcastJob) {
	if progress := job.Status.Flotilla; progress != nil && progress.Batch > 0 {
		metav1.SetMetaDataAnnotation(&job.ObjectMeta, apps.AnnotationPromote, strconv.Itoa(int(progress.Batch)))
	}
}
