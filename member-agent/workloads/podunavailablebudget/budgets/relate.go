package budgets

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/admission"
)

// relatePatience is how long a new pod waits at most for the name of its budget. The controller writes what is missing.
const relatePatience = 100 * time.Millisecond

// relator names budgets on new pods. It reads the cache only.
type relator struct {
	keeper *Keeper
	caches interface{ Synced() bool }
	log    logr.Logger
}

// Mutator returns the mutator that names the budget of a new pod in its annotations, and has the manager fill the cache
// that it reads. No pod is refused: in any doubt it starts without, and the controller names the budget later.
func (k *Keeper) Mutator(mgr ctrl.Manager) (admission.Mutator, error) {
	caches, err := admission.NewCaches(mgr, &v1beta1.PodUnavailableBudget{})
	if err != nil {
		return admission.Mutator{}, err
	}
	r := &relator{k, caches, mgr.GetLogger().WithName("pod-budgets")}
	return admission.Mutator{
		Name: v1beta1.PodUnavailableBudgetKind.Kind, Scope: r.scope, Mutate: r.mutate, Changes: caches.Changes(),
	}, nil
}

// scope returns which pods the API server sends: those of budgets.
func (r *relator) scope(ctx context.Context) ([]admission.Scope, error) {
	if !r.caches.Synced() {
		return nil, nil // Changes has an event when they are
	}
	var list v1beta1.PodUnavailableBudgetList
	if err := r.keeper.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list PodUnavailableBudgets: %w", err)
	}
	var scopes []admission.Scope
	for i := range list.Items {
		pub := &list.Items[i]
		limits, err := r.keeper.limits(ctx, pub)
		if err != nil {
			return nil, err
		}
		if limits {
			scopes = append(scopes, admission.Scope{
				Name:          v1beta1.PodUnavailableBudgetKind.Kind + " " + pub.Namespace + "/" + pub.Name,
				FailurePolicy: admissionregistrationv1.Ignore, Namespaces: []string{pub.Namespace},
				Condition: within(pub.Namespace) + " && " + podsOf("object", pub), Wide: within(pub.Namespace),
			})
		}
	}
	return scopes, nil
}

// mutate names the budget of the pod. Whatever goes wrong, the pod starts as it is.
func (r *relator) mutate(ctx context.Context, request *admission.Request) error {
	log := r.log.WithValues("namespace", request.Namespace, "pod", request.Name)
	defer func() {
		if p := recover(); p != nil {
			log.Error(fmt.Errorf("panic: %v", p), "admitted a pod without the name of its budget")
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, relatePatience)
	defer cancel()
	if err := r.relate(ctx, request); err != nil {
		log.Error(err, "admitted a pod without the name of its budget")
	}
	return nil
}

func (r *relator) relate(ctx context.Context, request *admission.Request) error {
	if !r.caches.Synced() {
		return nil
	}
	pod, err := request.Pod()
	if err != nil || Related(pod) {
		return err
	}
	all, err := r.keeper.known.in(ctx, pod.Namespace)
	if err != nil {
		if errors.Is(err, errUnknown) {
			return nil // as above: the controller names the budget later
		}
		return err
	}
	slices.SortFunc(all, func(a, b *v1beta1.PodUnavailableBudget) int { return strings.Compare(a.Name, b.Name) })
	for _, pub := range all {
		protects, err := Protects(ctx, r.keeper.client, pub, pod)
		if err != nil {
			return err
		}
		if !protects {
			continue
		}
		limits, err := r.keeper.limits(ctx, pub)
		if err != nil {
			return err
		}
		if limits {
			return request.Change(func(pod *corev1.Pod) error {
				for name, value := range Relation(pub) {
					metav1.SetMetaDataAnnotation(&pod.ObjectMeta, name, value)
				}
				return nil
			})
		}
	}
	return nil
}

// Related reports whether the pod names a budget.
func Related(pod *corev1.Pod) bool {
	return pod.Annotations[v1beta1.AnnotationRelatedPub] != "" || pod.Annotations[v1beta1.AnnotationFormerRelatedPub] != ""
}

// Relation returns the annotations by which a pod names the budget.
func Relation(pub *v1beta1.PodUnavailableBudget) map[string]string {
	return map[string]string{
		v1beta1.AnnotationRelatedPub: pub.Name, v1beta1.AnnotationFormerRelatedPub: pub.Name,
	}
}
