package check

import (
	"context"
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
	core, err := clientgo.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to the hub: %w", err)
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to the hub at %s: %w", cfg.Host, err)
	}
	f.unread = map[string]error{}
	return &reader{core: core, client: c, facts: f}, nil
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

// workloads reads the policies, and which workloads stand still.
func (r *reader) workloads(ctx context.Context) error {
	namespaces := &corev1.NamespaceList{}
	if err := r.client.List(ctx, namespaces, client.MatchingLabels{topology.LabelFederated: "true"}); err != nil {
		return fmt.Errorf("list namespaces: %w", err)
	}
	federated := map[string]bool{}
	for i := range namespaces.Items {
		federated[namespaces.Items[i].Name] = true
	}
	r.facts.federated, r.facts.policies, r.facts.stalled = len(federated), map[string][]metav1.Condition{},
		map[string]string{}
	for kind, rule := range kinds.Workloads() {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(rule.GVK)
		if err := r.client.List(ctx, list); err != nil {
			return fmt.Errorf("list %ss: %w", kind.Kind, err)
		}
		for i := range list.Items {
			if o := &list.Items[i]; federated[o.GetNamespace()] {
				r.facts.workloads++
				if why := stalled(o); why != "" {
					r.facts.stalled[kind.Kind+" "+o.GetNamespace()+"/"+o.GetName()] = why
				}
			}
		}
	}
	policies, clusterPolicies := &topology.FederationPolicyList{}, &topology.ClusterFederationPolicyList{}
	if err := errors.Join(r.client.List(ctx, policies), r.client.List(ctx, clusterPolicies)); err != nil {
		return fmt.Errorf("list policies: %w", err)
	}
	for i := range policies.Items {
		p := &policies.Items[i]
		r.facts.policies["FederationPolicy "+p.Namespace+"/"+p.Name] = p.Status.Conditions
	}
	for i := range clusterPolicies.Items {
		p := &clusterPolicies.Items[i]
		r.facts.policies["ClusterFederationPolicy "+p.Name] = p.Status.Conditions
	}
	return nil
}

// stalled returns why an object stands still, empty where it does not.
func stalled(o *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		one, _ := c.(map[string]any)
		if one["type"] == apps.ConditionStalled && one["status"] == string(metav1.ConditionTrue) {
			return strings.TrimSpace(fmt.Sprintf("%v: %v", one["reason"], one["message"]))
		}
	}
	return ""
}
