package workload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/inplace"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/lifecycle"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podready"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
)

// CreatesPerPass bounds what one pass begins, whatever the user asks for: a typo of 2 000 000 000 replicas must not
// take the memory of the agent. A pass stops after 2 s anyway, and no API server makes more than 2 500 pods a second;
// the events of the created pods bring the next pass.
const CreatesPerPass = 5000

// NewPod returns a pod of the revision with this name, ready to be created, without readiness gates of ours. form says
// how its label names the revision.
func NewPod(
	owner metav1.Object, kind schema.GroupVersionKind, name string, revision Revision, form history.Form,
	hooks *v1beta1.Lifecycle, now time.Time,
) *corev1.Pod {
	template := revision.Template.DeepCopy()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       owner.GetNamespace(),
			Name:            name,
			GenerateName:    owner.GetName() + "-",
			Labels:          copied(template.Labels),
			Annotations:     copied(template.Annotations),
			Finalizers:      template.Finalizers,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, kind)},
		},
		Spec: template.Spec,
	}
	pod.Labels[podset.LabelRevision] = form.Label(revision.Name, revision.Hash)
	lifecycle.Stamp(pod.Labels, pod.Annotations, lifecycle.Initial(hooks), now)
	return pod
}

// WithGates adds the readiness gates of updates in place and of lifecycle hooks to a pod that is to be created. The
// status of Opening opens them.
func WithGates(pod *corev1.Pod) *corev1.Pod {
	inplace.InjectGate(&pod.Spec)
	podready.InjectGate(&pod.Spec)
	return pod
}

func copied(m map[string]string) map[string]string {
	out := make(map[string]string, len(m)+4) // the labels of the controller are added
	maps.Copy(out, m)
	return out
}

// relabelled is why a pod was created that does not match the selector, and when. No pods are created then for as long
// as other failures wait at last: the events of the pod that came and went bring passes at once.
type relabelled struct {
	mu  sync.Mutex
	err error
	at  time.Time
}

// relabel notes that a pod was created that the selector does not match. Creations run in parallel.
func (r *relabelled) relabel(err error, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err, r.at = err, now
}

// Opening returns the first status of new pods, which opens their readiness gates. It is nil, and the reason is kept,
// while no pods are to be created.
func (c *Controller[T, M]) Opening(p *Pass[T, M], now time.Time) []byte {
	opened, err := Opened(now)
	if now.Sub(p.relabelled.at) < LastBackoff {
		err = errors.Join(err, p.relabelled.err)
	}
	if p.Fail(c.kind.ScaleFailure, err); err != nil {
		return nil
	}
	return opened
}

// CreatePod creates a pod. opened is applied to its status, unless it is empty.
func (c *Controller[T, M]) CreatePod(ctx context.Context, p *Pass[T, M], pod *corev1.Pod, opened []byte) error {
	err := c.Writer.CreatePod(ctx, p.Object.GetUID(), pod, opened)
	if apierrors.IsAlreadyExists(err) {
		if mine, readErr := c.isMine(ctx, p, pod); readErr != nil || mine {
			return readErr
		}
	}
	if err == nil {
		err = c.refuseStranger(ctx, p, pod)
	}
	return err
}

const (
	// randomInName is how many random characters a generated name ends with, and longestBase how much of the owner's name
	// it keeps, as names have that an API server generates. A name that is chosen here is known although the answer to
	// its creation is lost.
	randomInName = 5
	longestBase  = 63 - randomInName
	// namesPerPod is how many random names are tried for a pod in one pass.
	namesPerPod = 4
)

// CreateNamed creates a pod with a name that is the owner's name and random characters. opened is as in CreatePod.
func (c *Controller[T, M]) CreateNamed(
	ctx context.Context, p *Pass[T, M], pod func(name string) *corev1.Pod, opened []byte,
) error {
	for try := 1; ; try++ {
		err := c.CreatePod(ctx, p, pod(generatedName(p.Key.Name)), opened)
		if !apierrors.IsAlreadyExists(err) || try == namesPerPod {
			return err
		}
	}
}

func generatedName(owner string) string {
	base := owner + "-"
	return base[:min(len(base), longestBase)] + utilrand.String(randomInName)
}

// isMine reports whether the pod that has the name of the one to create is the object's, and the cache does not have
// it yet: then the pod was created, and only the answer was lost.
func (c *Controller[T, M]) isMine(ctx context.Context, p *Pass[T, M], pod *corev1.Pod) (bool, error) {
	key, have := client.ObjectKeyFromObject(pod), &corev1.Pod{}
	if c.Pods.Get(key).Present {
		return false, nil
	}
	if err := c.Live.Get(ctx, key, have); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read pod %s, whose name is taken: %w", key, err)
	}
	if !metav1.IsControlledBy(have, p.Object) {
		return false, nil
	}
	c.Writer.Fresh.Created(p.Object.GetUID(), key, have.ResourceVersion)
	return true, nil
}

// refuseStranger deletes a pod that was created and that the selector does not match, because its labels were changed
// on the way: it would count for nothing, and each pass would create more.
func (c *Controller[T, M]) refuseStranger(ctx context.Context, p *Pass[T, M], pod *corev1.Pod) error {
	selector, err := metav1.LabelSelectorAsSelector(c.kind.Selector(p.Object))
	if err != nil || selector.Matches(labels.Set(pod.Labels)) {
		return err
	}
	err = fmt.Errorf("a pod was created with labels that selector %q does not match, and is deleted again: a webhook "+
		"changed them; mend it", selector)
	p.relabelled.relabel(err, c.Clock.Now())
	return errors.Join(err, c.Writer.DeletePod(ctx, p.Object.GetUID(), pod))
}

// CreateFailed keeps the error of creations. An API server that refuses what the template asks for stalls the object;
// what names the template in the message.
func (c *Controller[T, M]) CreateFailed(p *Pass[T, M], err error, what string) {
	p.Fail(c.kind.ScaleFailure, err)
	if apierrors.IsInvalid(err) {
		p.Stalled = &conditions.Cause{Reason: ReasonInvalidTemplate,
			Message: "the API server refuses what " + what + " asks for; correct it: " + Text(err)}
		p.Wake = RetryInvalid
	}
}
