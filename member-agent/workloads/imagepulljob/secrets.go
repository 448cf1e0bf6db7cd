package imagepulljob

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/nodeimages"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

const (
	// lookEvery is how often the Secrets of running jobs are compared with their copies, and lookAgain how often a missing
	// Secret is looked for: the agent has no right to watch Secrets.
	lookEvery = time.Minute
	lookAgain = 5 * time.Second
	// roleName is the Role that lists the copies, which the chart of the daemon binds.
	roleName = "flotilla-node-pulls"
)

// keeper copies the Secrets of running jobs into the namespace of the agent, where daemons read them. It alone writes
// copies, and the Role that lists them.
type keeper struct {
	client    client.Client // reads from the cache
	live      client.Reader
	namespace string

	mu    sync.Mutex
	known map[types.NamespacedName]*secretState
	// listed are the names in the Role, nil while they are not known.
	listed []string
}

// secretState is what is known of a Secret that a job names.
type secretState struct {
	uid     types.UID // of the original
	version string    // of the original
	copied  string    // version of the copy
	missing bool
	err     error
}

// secretsOf returns the copies of the Secrets that a job names. ok is false while they are not ready: missing names
// those that do not exist, and err says what failed.
func (k *keeper) secretsOf(job *v1beta1.ImagePullJob) (
	copies []v1beta1.PullSecretReference, missing []string, ok bool, err error,
) {
	k.mu.Lock()
	defer k.mu.Unlock()
	ok = true
	for _, name := range job.Spec.PullSecrets {
		state := k.known[types.NamespacedName{Namespace: job.Namespace, Name: name}]
		switch {
		case state == nil:
			ok = false
		case state.missing:
			missing, ok = append(missing, name), false
		case state.err != nil:
			err, ok = errors.Join(err, state.err), false
		}
		copies = append(copies, v1beta1.PullSecretReference{Namespace: k.namespace,
			Name: nodeimages.SecretName(job.Namespace, name)})
	}
	return copies, missing, ok, err
}

// add adds the controller of copies to the manager. All its work is one request.
func (k *keeper) add(mgr ctrl.Manager) error {
	only := reconcile.Request{NamespacedName: types.NamespacedName{Name: roleName}}
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{only}
	})
	err := ctrl.NewControllerManagedBy(mgr).Named("imagepulljob-secrets").
		Watches(&v1beta1.ImagePullJob{}, all, builder.WithPredicates(predicate.Funcs{
			CreateFunc: func(e event.CreateEvent) bool { return namesSecrets(e.Object) },
			DeleteFunc: func(e event.DeleteEvent) bool { return namesSecrets(e.Object) },
			UpdateFunc: func(e event.UpdateEvent) bool {
				return namesSecrets(e.ObjectNew) && usesSecrets(e.ObjectOld) != usesSecrets(e.ObjectNew)
			},
		})).
		WatchesRawSource(source.Func(func(_ context.Context, q workload.Queue) error {
			q.Add(only) // copies of jobs that ended while no agent ran are deleted
			return nil
		})).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1,
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](workload.FirstBackoff,
				workload.LastBackoff)}).
		Complete(k)
	if err != nil {
		return fmt.Errorf("set up the copies of pull secrets: %w", err)
	}
	return nil
}

func namesSecrets(object client.Object) bool {
	job, ok := object.(*v1beta1.ImagePullJob)
	return ok && len(job.Spec.PullSecrets) > 0
}

// usesSecrets reports whether daemons may need the Secrets of a job.
func usesSecrets(object client.Object) bool {
	job, ok := object.(*v1beta1.ImagePullJob)
	return ok && len(job.Spec.PullSecrets) > 0 && job.DeletionTimestamp == nil && job.Status.CompletionTime == nil &&
		askedBy(job) != v1beta1.PullByPod
}

// Reconcile brings all copies, and the Role, to what the jobs that run need.
func (k *keeper) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	wanted, err := k.wanted(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	copies, err := k.copies(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	states, names, wait := map[types.NamespacedName]*secretState{}, []string{}, time.Duration(0)
	for source := range wanted {
		name := nodeimages.SecretName(source.Namespace, source.Name)
		state := k.keep(ctx, source, name, copies[name])
		states[source] = state
		switch {
		case state.missing || state.err != nil:
			wait = lookAgain
		default:
			names = append(names, name)
			delete(copies, name)
		}
	}
	slices.Sort(names)
	err = k.list(ctx, names)
	for _, state := range states {
		if state.err == nil && !state.missing {
			state.err = err
		}
	}
	for _, stale := range copies {
		uid := stale.UID
		if gone := client.IgnoreNotFound(k.client.Delete(ctx, stale, client.Preconditions{UID: &uid})); gone != nil {
			err = errors.Join(err, fmt.Errorf("delete copy %s of a pull secret: %w", stale.Name, gone))
		}
	}
	k.mu.Lock()
	k.known = states
	k.mu.Unlock()
	if wait == 0 && len(states) > 0 {
		wait = lookEvery
	}
	return reconcile.Result{RequeueAfter: wait}, err
}

// wanted returns the Secrets of jobs that run.
func (k *keeper) wanted(ctx context.Context) (map[types.NamespacedName]bool, error) {
	var jobs v1beta1.ImagePullJobList
	if err := k.client.List(ctx, &jobs, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list ImagePullJobs: %w", err)
	}
	out := map[types.NamespacedName]bool{}
	for i := range jobs.Items {
		if job := &jobs.Items[i]; usesSecrets(job) {
			for _, name := range job.Spec.PullSecrets {
				out[types.NamespacedName{Namespace: job.Namespace, Name: name}] = true
			}
		}
	}
	return out, nil
}

// copies reads the metadata of all copies.
func (k *keeper) copies(ctx context.Context) (map[string]*metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := k.live.List(ctx, list, client.InNamespace(k.namespace),
		client.MatchingLabels{nodeimages.LabelPullSecret: "true"}); err != nil {
		return nil, fmt.Errorf("list the copies of pull secrets: %w", err)
	}
	out := map[string]*metav1.PartialObjectMetadata{}
	for i := range list.Items {
		out[list.Items[i].Name] = &list.Items[i]
	}
	return out, nil
}

// keep brings the copy of one Secret to what the Secret is. The content is read only after a change of one of them.
func (k *keeper) keep(ctx context.Context, source types.NamespacedName, name string,
	have *metav1.PartialObjectMetadata) *secretState {
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	err := k.live.Get(ctx, source, metadata)
	if apierrors.IsNotFound(err) {
		return &secretState{missing: true}
	}
	if err != nil {
		return &secretState{err: fmt.Errorf("read the metadata of Secret %s: %w", source, err)}
	}
	if before := k.state(source); before != nil && have != nil && before.err == nil && before.uid == metadata.UID &&
		before.version == metadata.ResourceVersion && before.copied == have.ResourceVersion {
		same := *before // jobs read what is known meanwhile
		return &same
	}
	original := &corev1.Secret{}
	if err := k.live.Get(ctx, source, original); err != nil {
		return &secretState{err: fmt.Errorf("read Secret %s: %w", source, err)}
	}
	state := &secretState{uid: original.UID, version: original.ResourceVersion}
	state.copied, state.err = k.write(ctx, original, name)
	return state
}

// state returns what is known of a Secret, nil for nothing.
func (k *keeper) state(source types.NamespacedName) *secretState {
	k.mu.Lock()
	defer k.mu.Unlock()
	if state := k.known[source]; state != nil && !state.missing {
		return state
	}
	return nil
}

// write creates or updates a copy, and returns its version.
func (k *keeper) write(ctx context.Context, original *corev1.Secret, name string) (string, error) {
	want := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: k.namespace, Name: name,
			Labels:      map[string]string{nodeimages.LabelPullSecret: "true"},
			Annotations: map[string]string{nodeimages.AnnotationSource: original.Namespace + "/" + original.Name}},
		Type: original.Type, Data: original.Data,
	}
	fail := func(verb string, err error) (string, error) {
		return "", fmt.Errorf("%s copy %s of Secret %s/%s: %w", verb, name, original.Namespace, original.Name, err)
	}
	err := k.client.Create(ctx, want.DeepCopy(), workload.FieldOwner)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fail("create", err)
	}
	have := &corev1.Secret{}
	if err := k.live.Get(ctx, client.ObjectKeyFromObject(want), have); err != nil {
		return fail("read", err)
	}
	if have.Type != want.Type { // the type of a Secret cannot change
		if err := k.client.Delete(ctx, have, client.Preconditions{UID: &have.UID}); client.IgnoreNotFound(err) != nil {
			return fail("delete", err)
		}
		if err := k.client.Create(ctx, want, workload.FieldOwner); err != nil {
			return fail("create", err)
		}
		return want.ResourceVersion, nil
	}
	if equality.Semantic.DeepEqual(have.Data, want.Data) && maps.Equal(have.Labels, want.Labels) &&
		maps.Equal(have.Annotations, want.Annotations) {
		return have.ResourceVersion, nil
	}
	have.Data, have.Labels, have.Annotations = want.Data, want.Labels, want.Annotations
	if err := k.client.Update(ctx, have, workload.FieldOwner); err != nil {
		return fail("update", err)
	}
	return have.ResourceVersion, nil
}

// list writes the Role that lets daemons read these copies. Without any it allows nothing.
func (k *keeper) list(ctx context.Context, names []string) error {
	if k.listed != nil && slices.Equal(k.listed, names) {
		return nil
	}
	var rules []rbacv1.PolicyRule
	if len(names) > 0 {
		rules = []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"},
			ResourceNames: names}}
	}
	role := &rbacv1.Role{}
	err := k.live.Get(ctx, client.ObjectKey{Namespace: k.namespace, Name: roleName}, role)
	switch {
	case apierrors.IsNotFound(err):
		role.Namespace, role.Name, role.Rules = k.namespace, roleName, rules
		err = k.client.Create(ctx, role, workload.FieldOwner)
	case err == nil && !equality.Semantic.DeepEqual(role.Rules, rules):
		role.Rules = rules
		err = k.client.Update(ctx, role, workload.FieldOwner)
	}
	if err != nil {
		return fmt.Errorf("write Role %s, which lets daemons read %s: %w", roleName, strings.Join(names, ", "), err)
	}
	k.listed = names
	return nil
}
