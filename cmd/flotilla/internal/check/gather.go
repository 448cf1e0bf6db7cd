package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgo "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/apis/crds"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// reader reads what the checks depend on, and writes nothing.
type reader struct {
	core   clientgo.Interface
	client client.Client
	facts  *facts
}

func newReader(cfg *rest.Config, scheme *runtime.Scheme, f *facts) (*reader, error) {
	// What the API server warns of a dry run concerns no person.
	cfg = rest.CopyConfig(cfg)
	cfg.WarningHandler = rest.NoWarnings{}
	core, err := clientgo.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to the hub: %w", err)
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to the hub at %s: %w", cfg.Host, err)
	}
	f.unread = map[string]error{}
	return &reader{core: core, client: console.Paged(c), facts: f}, nil
}

// reach reads what both kinds of checks begin with. It errs where the API server does not answer.
func (r *reader) reach(ctx context.Context, host string) error {
	info, err := r.core.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("the API server %s does not answer; check its context and that it runs: %w", host, err)
	}
	r.facts.version = info.GitVersion
	return r.definitions(ctx)
}

// before reads what installing depends on.
func (r *reader) before(ctx context.Context) error {
	const rbac, system = "rbac.authorization.k8s.io", topology.SystemNamespace
	for _, may := range []authorizationv1.ResourceAttributes{
		{Verb: "create", Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"},
		{Verb: "create", Resource: "namespaces"},
		{Verb: "create", Group: rbac, Resource: "clusterroles"},
		{Verb: "escalate", Group: rbac, Resource: "clusterroles"},
		{Verb: "create", Group: rbac, Resource: "clusterrolebindings"},
		{Verb: "create", Group: rbac, Resource: "roles", Namespace: system},
		{Verb: "create", Resource: "serviceaccounts", Namespace: system},
		{Verb: "create", Resource: "services", Namespace: system},
		{Verb: "create", Group: "apps", Resource: "deployments", Namespace: system},
	} {
		review, err := r.core.AuthorizationV1().
			SelfSubjectAccessReviews().
			Create(ctx, &authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &may},
			}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("ask what you may do: %w", err)
		}
		if !review.Status.Allowed {
			r.facts.forbidden = append(r.facts.forbidden, may.Verb+" "+may.Resource)
		}
	}
	_, err := r.core.AdmissionregistrationV1().
		MutatingWebhookConfigurations().
		Get(ctx, "kruise-mutating-webhook-configuration", metav1.GetOptions{})
	r.facts.kruise = err == nil
	if client.IgnoreNotFound(err) != nil {
		r.facts.unread["kruise"] = err
	}
	return nil
}

// definitions compares the CustomResourceDefinitions of this program with those of the cluster.
func (r *reader) definitions(ctx context.Context) error {
	own, err := crds.All()
	if err != nil {
		return err
	}
	for _, crd := range own {
		found := &unstructured.Unstructured{}
		found.SetGroupVersionKind(
			schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
		)
		err := r.client.Get(ctx, client.ObjectKeyFromObject(crd), found)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read CustomResourceDefinition %s: %w", crd.GetName(), err)
		}
		d := definition{name: crd.GetName(), served: err == nil}
		if d.served {
			d.lacks = lacking(crd, found)
		}
		r.facts.crds = append(r.facts.crds, d)
	}
	return nil
}

// lacking returns the first field that a definition has and another of the same name has not, as version and path. It
// is pure.
func lacking(want, have *unstructured.Unstructured) string {
	schemas := func(crd *unstructured.Unstructured) map[string]any {
		all := map[string]any{}
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		for _, v := range versions {
			if one, ok := v.(map[string]any); ok {
				name, _ := one["name"].(string)
				root, _, _ := unstructured.NestedMap(one, "schema", "openAPIV3Schema")
				all[name] = root
			}
		}
		return all
	}
	wanted, had := schemas(want), schemas(have)
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if had[name] == nil {
			return name
		}
		if path := missingField(wanted[name], had[name]); path != "" {
			return name + path
		}
	}
	return ""
}

// missingField returns the path of the first property of a schema that another has not, empty for none.
func missingField(want, have any) string {
	w, _ := want.(map[string]any)
	h, _ := have.(map[string]any)
	wanted, _ := w["properties"].(map[string]any)
	had, _ := h["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if had[name] == nil {
			return "." + name
		}
		if path := missingField(wanted[name], had[name]); path != "" {
			return "." + name + path
		}
	}
	for _, below := range []string{"items", "additionalProperties"} {
		if w[below] != nil {
			if path := missingField(w[below], h[below]); path != "" {
				return path
			}
		}
	}
	return ""
}

// now reads what runs.
func (r *reader) now(ctx context.Context) error {
	list := &topology.MemberClusterList{}
	if err := r.client.List(ctx, list); err != nil {
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return nil // the check of the definitions says it
		}
		return fmt.Errorf("list MemberClusters: %w", err)
	}
	r.facts.members = list.Items
	r.programs(ctx)
	r.contacts(ctx)
	r.converts(ctx)
	if err := r.workloads(ctx); err != nil {
		r.facts.unread["workloads"] = err
	}
	return nil
}

// programs reads the Leases and the Deployments of Flotilla.
func (r *reader) programs(ctx context.Context) {
	leases := &coordinationv1.LeaseList{}
	if err := r.client.List(ctx, leases, client.InNamespace(topology.SystemNamespace)); err != nil {
		r.facts.unread["leases"] = err
	}
	r.facts.leases = map[string]*coordinationv1.Lease{}
	for i := range leases.Items {
		r.facts.leases[leases.Items[i].Name] = &leases.Items[i]
	}
	deployments := &appsv1.DeploymentList{}
	if err := r.client.List(ctx, deployments, client.InNamespace(topology.SystemNamespace),
		client.MatchingLabels{"app.kubernetes.io/part-of": "flotilla"}); err != nil {
		r.facts.unread["deployments"] = err
	}
	r.facts.deployments = deployments.Items
}

// contacts reads which agents renew their Leases, and which ask to join.
func (r *reader) contacts(ctx context.Context) {
	r.facts.memberLeases, r.facts.asking = map[string]*coordinationv1.Lease{}, map[string]bool{}
	for i := range r.facts.members {
		name, lease := r.facts.members[i].Name, &coordinationv1.Lease{}
		err := r.client.Get(ctx, client.ObjectKey{Namespace: wire.MemberNamespace(name), Name: name}, lease)
		if err == nil {
			r.facts.memberLeases[name] = lease
		} else if !apierrors.IsNotFound(err) {
			r.facts.unread["memberLeases"] = err
		}
		_, err = r.core.CertificatesV1().CertificateSigningRequests().Get(ctx, topology.JoinObject(name), metav1.GetOptions{})
		r.facts.asking[name] = err == nil
		if client.IgnoreNotFound(err) != nil {
			r.facts.unread["requests"] = err
		}
	}
}

// converts asks the API server to take an object of an older version, without keeping it.
func (r *reader) converts(ctx context.Context) {
	old := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"replicas": int64(0), "selector": map[string]any{"matchLabels": map[string]any{"app": "flotilla-check"}},
		"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"app": "flotilla-check"}},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": "check", "image": "check"}}},
		},
	}}}
	old.SetGroupVersionKind(
		schema.GroupVersionKind{Group: apps.CloneSetKind.Group, Version: "v1alpha1", Kind: apps.CloneSetKind.Kind},
	)
	old.SetNamespace(metav1.NamespaceDefault)
	old.SetName("flotilla-check")
	err := r.client.Create(ctx, old, client.DryRunAll)
	switch {
	case err == nil || apierrors.IsAlreadyExists(err):
	case apierrors.IsForbidden(err):
		r.facts.unread["conversion"] = err
	default:
		r.facts.conversion = err.Error()
	}
}

// workloads reads the policies, the workloads and their placements.
func (r *reader) workloads(ctx context.Context) error {
	namespaces := &corev1.NamespaceList{}
	if err := r.client.List(ctx, namespaces, client.MatchingLabels{topology.LabelFederated: "true"}); err != nil {
		return fmt.Errorf("list namespaces: %w", err)
	}
	federated := map[string]bool{}
	for i := range namespaces.Items {
		federated[namespaces.Items[i].Name] = true
	}
	r.facts.federated = len(federated)
	placements, err := r.placements(ctx)
	if err != nil {
		return err
	}
	for _, rule := range kinds.Workloads() {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(rule.GVK)
		if err := r.client.List(ctx, list); err != nil {
			return fmt.Errorf("list %ss: %w", rule.GVK.Kind, err)
		}
		for i := range list.Items {
			o := &list.Items[i]
			if o.GetDeletionTimestamp() != nil || metav1.GetControllerOfNoCopy(o) != nil {
				continue
			}
			w, err := readWorkload(o, rule, federated)
			if err != nil {
				return err
			}
			if p := placements[w.key]; p != nil {
				w.replicas, w.unplaced = p.Spec.Replicas, p.Spec.Unplaced
			}
			r.facts.workloads = append(r.facts.workloads, w)
		}
	}
	slices.SortFunc(r.facts.workloads, func(a, b workload) int {
		return strings.Compare(a.key.Sentence(), b.key.Sentence())
	})
	if err := r.idle(ctx, federated, placements); err != nil {
		r.facts.unread["idle"] = err
	}
	return r.policies(ctx)
}

// placements reads what is placed, by workload.
func (r *reader) placements(ctx context.Context) (map[wire.Key]*topology.WorkloadPlacement, error) {
	list := &topology.WorkloadPlacementList{}
	if err := r.client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list WorkloadPlacements: %w", err)
	}
	placements := map[wire.Key]*topology.WorkloadPlacement{}
	for i := range list.Items {
		placements[wire.KeyOfPlacement(&list.Items[i])] = &list.Items[i]
	}
	return placements, nil
}

// readWorkload reads what is judged of an object but for its placement.
func readWorkload(o *unstructured.Unstructured, rule kinds.Kind, federated map[string]bool) (workload, error) {
	w := workload{
		key: wire.Key{Group: rule.GVK.Group, Kind: rule.GVK.Kind, Namespace: o.GetNamespace(), Name: o.GetName()},
		// The label of a cluster-scoped object is its own.
		federated: federated[o.GetNamespace()] || rule.ClusterScoped && wire.Federated(o),
		created:   o.GetCreationTimestamp().Time,
	}
	status, _, _ := unstructured.NestedMap(o.Object, "status")
	w.answered = len(status) > 0
	data, err := json.Marshal(status["conditions"])
	if err == nil {
		err = json.Unmarshal(data, &w.conditions)
	}
	if err != nil {
		return w, fmt.Errorf("read the conditions of %s: %w", w.key.Sentence(), err)
	}
	return w, nil
}

func (r *reader) policies(ctx context.Context) error {
	r.facts.policies = map[string][]metav1.Condition{}
	own, shared := &topology.FederationPolicyList{}, &topology.ClusterFederationPolicyList{}
	if err := errors.Join(r.client.List(ctx, own), r.client.List(ctx, shared)); err != nil {
		return fmt.Errorf("list policies: %w", err)
	}
	for i := range own.Items {
		p := &own.Items[i]
		r.facts.policies["FederationPolicy "+p.Namespace+"/"+p.Name] = p.Status.Conditions
	}
	for i := range shared.Items {
		p := &shared.Items[i]
		r.facts.policies["ClusterFederationPolicy "+p.Name] = p.Status.Conditions
	}
	return nil
}

// idle reads the objects of federated namespaces that do nothing on a hub. Kinds that the API server does not serve
// are left out.
func (r *reader) idle(
	ctx context.Context, federated map[string]bool, placements map[wire.Key]*topology.WorkloadPlacement,
) error {
	if len(federated) == 0 {
		return nil
	}
	for _, kind := range idleKinds() {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		err := r.client.List(ctx, list)
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("list %ss: %w", kind.Kind, err)
		}
		for i := range list.Items {
			o := &list.Items[i]
			key := wire.Key{Group: kind.Group, Kind: kind.Kind, Namespace: o.GetNamespace(), Name: o.GetName()}
			if !federated[key.Namespace] || placements[key] != nil || o.GetDeletionTimestamp() != nil ||
				metav1.GetControllerOfNoCopy(o) != nil {
				continue
			}
			if why, instead := judgeIdle(o); why != "" {
				r.facts.idle = append(r.facts.idle, idle{key.Kind, key.Namespace, key.Name, why, instead})
			}
		}
	}
	return nil
}

// idleKinds are the kinds whose objects may do nothing in a federated namespace of a hub.
func idleKinds() []schema.GroupVersionKind {
	all := []schema.GroupVersionKind{
		{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"},
		{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"},
		{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
	}
	for _, kind := range slices.Concat(kinds.BuiltInKinds(), kinds.NeverPlacedKinds()) {
		// ReplicaSets are many, and Deployments own them; the other two have no namespace.
		if !slices.Contains([]string{"ReplicaSet", "NodeImage", "NodePodProbe"}, kind.Kind) {
			all = append(all, kind)
		}
	}
	return all
}

// judgeIdle returns why an object of a federated namespace does nothing on a hub and what to do instead, "" where it
// may do something. It is pure.
func judgeIdle(o *unstructured.Unstructured) (why, instead string) {
	kind := o.GroupVersionKind()
	if text, never := kinds.NeverPlaced(kind.GroupKind()); never {
		_, instead, _ = strings.Cut(text, ": ")
		if status, _, _ := unstructured.NestedMap(o.Object, "status"); len(status) > 0 {
			return "", "" // an agent of the hub's own cluster carries it out
		}
		return "a hub sends no " + kind.Kind + " to members", instead
	}
	switch kind.Kind {
	case "HorizontalPodAutoscaler":
		return judgeAutoscaler(o)
	case "Ingress":
		return "it leads to pods of the hub's own cluster, and no member gets it", "create it in each member"
	case "PodDisruptionBudget":
		return "it counts the pods of the hub's own cluster, and no member gets it",
			"create a PodUnavailableBudget of policy.kruise.io/v1beta1: docs/kinds/podunavailablebudget.md"
	}
	return "no member gets it", kinds.InsteadInBothModes(kind.Kind)
}

// judgeAutoscaler judges an autoscaler by its metrics: a hub has no pods to measure.
func judgeAutoscaler(o *unstructured.Unstructured) (why, instead string) {
	target, _, _ := unstructured.NestedString(o.Object, "spec", "scaleTargetRef", "apiVersion")
	metrics, has, _ := unstructured.NestedSlice(o.Object, "spec", "metrics")
	ofPods := !has
	for _, m := range metrics {
		one, _ := m.(map[string]any)
		kind, _ := one["type"].(string)
		ofPods = ofPods || slices.Contains([]string{"Resource", "ContainerResource", "Pods"}, kind)
	}
	if !ofPods || !strings.HasPrefix(target, apps.GroupVersion.Group+"/") {
		return "", ""
	}
	return "it measures pods, and a hub has none", "use metrics of type External, or Object with averageValue"
}
