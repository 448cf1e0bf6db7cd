package charts

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/apis/crds"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	noderights "github.com/flotilla-dev/flotilla/member-agent/nodedaemon/rights"
)

// system is the namespace of the programs.
const system = "flotilla-system"

// granted are the rules of a program's roles: by namespace, "" for everywhere.
type granted map[string][]rbacv1.PolicyRule

// TestDenials installs the rights that the charts render on a real API server, and asks it for every verb on every
// resource that it has, in the programs' namespace, in another one and in all: what no rule of the program names is
// refused, and what one names is allowed.
func TestDenials(t *testing.T) {
	log.SetLogger(logr.Discard()) // the client library complains if nobody chose
	f := fleet.ForTest(t, fleet.Config{})
	if err := f.Hub().InstallCRDs(t.Context(), crds.FS); err != nil {
		t.Fatal(err)
	}
	admin, err := kubernetes.NewForConfig(f.Hub().RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(f.Hub().RESTConfig(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system}}); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	var all []*unstructured.Unstructured
	for _, golden := range []string{"hub", "agent", "capi", "node"} {
		all = append(all, rightsOf(t, golden)...)
	}
	for _, object := range all {
		if err := c.Create(t.Context(), object.DeepCopy()); err != nil {
			t.Fatal(err)
		}
	}
	pulls := pullsRole(t)
	if err := c.Create(t.Context(), pulls.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	all = append(all, pulls)
	programs, resources := programsOf(t, all), resourcesOf(t, admin)
	for _, name := range []string{"flotilla-hub", "flotilla-approver", "flotilla-agent", "flotilla-capi",
		"flotilla-node"} {
		t.Run(name, func(t *testing.T) {
			expectDenied(t, admin, name, programs[name], resources)
		})
	}
	t.Run("flotilla-agent for some kinds", func(t *testing.T) {
		narrow := rightsOf(t, "agent-narrow")
		for _, object := range narrow {
			if err := c.Patch(t.Context(), object.DeepCopy(), client.Merge); err != nil {
				t.Fatal(err)
			}
		}
		expectDenied(t, admin, "flotilla-agent", programsOf(t, narrow)["flotilla-agent"], resources)
		expectRefused(t, f.Hub().RESTConfig())
	})
	everyVerb := verbs(&resource{GroupResource: schema.GroupResource{Resource: "secrets"}})
	t.Run("Secrets, to an agent that neither distributes nor carries them", func(t *testing.T) {
		expectNoSecrets(t, admin, "flotilla-agent", everyVerb)
	})
	t.Run("writes of Secrets, to the hub, which reads them to copy them", func(t *testing.T) {
		expectNoSecrets(t, admin, "flotilla-hub", slices.DeleteFunc(slices.Clone(everyVerb), func(verb string) bool {
			return slices.Contains([]string{"get", "list", "watch"}, verb)
		}))
	})
}

// pullsRole returns the Role that the agent keeps while a job pulls with a Secret, and that the chart of the node
// daemon binds.
func pullsRole(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	role := &unstructured.Unstructured{}
	role.SetAPIVersion(rbacv1.SchemeGroupVersion.String())
	role.SetKind("Role")
	role.SetNamespace(system)
	role.SetName(noderights.PullsRole)
	rules := []any{map[string]any{"apiGroups": []any{""}, "resources": []any{"secrets"}, "verbs": []any{"get"},
		"resourceNames": []any{"pull-0123"}}}
	if err := unstructured.SetNestedSlice(role.Object, rules, "rules"); err != nil {
		t.Fatal(err)
	}
	return role
}

// expectNoSecrets expects that the API server refuses these verbs on every Secret outside of the programs' namespace.
func expectNoSecrets(t *testing.T, admin kubernetes.Interface, program string, verbs []string) {
	t.Helper()
	var questions []*authorizationv1.ResourceAttributes
	for _, namespace := range []string{"", metav1.NamespaceDefault, metav1.NamespaceSystem} {
		for _, name := range []string{"", "flotilla-hub-webhook", "other"} {
			for _, verb := range verbs {
				questions = append(questions, &authorizationv1.ResourceAttributes{Resource: "secrets", Namespace: namespace,
					Name: name, Verb: verb})
			}
		}
	}
	// No rules: nothing is to be allowed.
	for _, wrong := range wrongAnswers(t, admin, program, granted{}, questions) {
		t.Error(wrong)
	}
}

// expectRefused holds what the API server answers an agent that would make what its hub brings, where its chart was
// told of CloneSets and ConfigMaps alone, as in testdata/agent-narrow.golden.yaml.
func expectRefused(t *testing.T, admin *rest.Config) {
	t.Helper()
	as := rest.CopyConfig(admin)
	as.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + system + ":flotilla-agent"}
	agent, err := client.New(as, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for kind, refused := range map[schema.GroupVersionKind]bool{
		apps.GroupVersion.WithKind("CloneSet"): false, corev1.SchemeGroupVersion.WithKind("ConfigMap"): false,
		apps.GroupVersion.WithKind("UnitedDeployment"): true, apps.GroupVersion.WithKind("WorkloadSpread"): true,
		corev1.SchemeGroupVersion.WithKind("Secret"): true, corev1.SchemeGroupVersion.WithKind("Service"): true,
		corev1.SchemeGroupVersion.WithKind("ServiceAccount"): true, batchv1.SchemeGroupVersion.WithKind("CronJob"): true,
	} {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(kind)
		object.SetNamespace(metav1.NamespaceDefault)
		object.SetName("brought")
		// What is allowed goes on to validation, which has its own opinion of an empty object.
		if err := agent.Create(t.Context(), object, client.DryRunAll); apierrors.IsForbidden(err) != refused {
			t.Errorf("to make a %s: %v, want it refused: %v", kind.Kind, err, refused)
		}
	}
}

// programsOf returns what programs are granted, by the names of their ServiceAccounts.
func programsOf(t *testing.T, all []*unstructured.Unstructured) map[string]granted {
	t.Helper()
	rules := map[string][]rbacv1.PolicyRule{}
	of := func(kind, namespace, name string) string { return kind + " " + namespace + "/" + name }
	for _, object := range all {
		if kind := object.GetKind(); kind == "ClusterRole" || kind == "Role" {
			role := &rbacv1.Role{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, role); err != nil {
				t.Fatal(err)
			}
			rules[of(kind, role.Namespace, role.Name)] = role.Rules
		}
	}
	programs := map[string]granted{}
	for _, object := range all {
		if kind := object.GetKind(); kind != "ClusterRoleBinding" && kind != "RoleBinding" {
			continue
		}
		binding := &rbacv1.RoleBinding{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, binding); err != nil {
			t.Fatal(err)
		}
		name := of(binding.RoleRef.Kind, binding.Namespace, binding.RoleRef.Name)
		if len(rules[name]) == 0 || len(binding.Subjects) != 1 || binding.Subjects[0].Namespace != system {
			t.Fatalf("%s %s gives %s with %d rules to %v", object.GetKind(), binding.Name, name, len(rules[name]),
				binding.Subjects)
		}
		program := binding.Subjects[0].Name
		if programs[program] == nil {
			programs[program] = granted{}
		}
		programs[program][binding.Namespace] = append(programs[program][binding.Namespace], rules[name]...)
	}
	return programs
}

// rightsOf returns the ServiceAccounts, roles and bindings that a chart renders, and their namespaces.
func rightsOf(t *testing.T, golden string) []*unstructured.Unstructured {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", golden+".golden.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var all []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(file, 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) && len(all) > 0 {
			return all
		}
		if err != nil {
			t.Fatalf("read %s: %v", file.Name(), err)
		}
		if slices.Contains([]string{"Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role",
			"RoleBinding"}, object.GetKind()) {
			all = append(all, object)
		}
	}
}

// resource is one that the API server has.
type resource struct {
	schema.GroupResource
	sub        string
	namespaced bool
}

// resourcesOf returns all resources that the API server has, and those that exist for rights alone.
func resourcesOf(t *testing.T, admin kubernetes.Interface) []resource {
	t.Helper()
	_, lists, err := admin.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	var all []resource
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.APIResources {
			name, sub, _ := strings.Cut(list.APIResources[i].Name, "/")
			key := version.Group + " " + list.APIResources[i].Name
			if !seen[key] {
				all = append(all, resource{schema.GroupResource{Group: version.Group, Resource: name}, sub,
					list.APIResources[i].Namespaced})
			}
			seen[key] = true
		}
	}
	const least = 100 // one of a plain API server has about 150 of its own
	if len(all) < least {
		t.Fatalf("discovery has found %d resources alone", len(all))
	}
	for _, name := range impersonated[1:] {
		all = append(all, resource{GroupResource: schema.GroupResource{Resource: name}})
	}
	return append(all, resource{GroupResource: schema.GroupResource{Group: "certificates.k8s.io", Resource: "signers"}})
}

// impersonated are the resources that stand for users; the API server has the first one beside that.
var impersonated = [...]string{"serviceaccounts", "users", "groups", "uids", "userextras"}

// verbs are those of requests, and those that exist for rights alone.
func verbs(r *resource) []string {
	all := []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}
	switch {
	case r.Group == rbacv1.GroupName:
		return append(all, "bind", "escalate")
	case r.Resource == "signers":
		return []string{"approve", "sign", "attest"}
	case r.sub == "" && slices.Contains(impersonated[:], r.Resource):
		return append(all, "impersonate")
	}
	return all
}

// expectDenied asks the API server all questions about a program, several at once.
func expectDenied(t *testing.T, admin kubernetes.Interface, program string, rules granted, resources []resource) {
	t.Helper()
	if len(rules[""]) == 0 || len(rules[system]) == 0 {
		t.Fatalf("%s has no rules: %v", program, rules)
	}
	resources = append(slices.Clone(resources), rules.foreign(resources)...)
	var questions []*authorizationv1.ResourceAttributes
	for i := range resources {
		r := &resources[i]
		namespaces := []string{""}
		if r.namespaced {
			namespaces = append(namespaces, system, topology.MembersNamespace, metav1.NamespaceDefault)
		}
		for _, namespace := range namespaces {
			for _, name := range append(rules.names(r), "") {
				for _, verb := range verbs(r) {
					questions = append(questions, &authorizationv1.ResourceAttributes{
						Group: r.Group, Resource: r.Resource, Subresource: r.sub, Namespace: namespace, Name: name, Verb: verb,
					})
				}
			}
		}
	}
	// The authorizer learns of roles and bindings a little later than they are made: what it answers must be right once it
	// has.
	for end := time.Now().Add(2 * time.Minute); ; {
		wrong := wrongAnswers(t, admin, program, rules, questions)
		if len(wrong) == 0 {
			t.Logf("%d questions", len(questions))
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d of %d answers:\n%s", len(wrong), len(questions), strings.Join(wrong, "\n"))
		}
	}
}

// wrongAnswers asks the questions about a program, several at once, and says which answers the rules do not give.
func wrongAnswers(t *testing.T, admin kubernetes.Interface, program string, rules granted,
	questions []*authorizationv1.ResourceAttributes) []string {
	t.Helper()
	answers, group := make([]bool, len(questions)), errgroup.Group{}
	group.SetLimit(8)
	for i, q := range questions {
		group.Go(func() error {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: "system:serviceaccount:" + system + ":" + program, ResourceAttributes: q,
				Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + system, "system:authenticated"},
			}}
			answer, err := admin.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
			if err != nil {
				return fmt.Errorf("ask whether %s may %v: %w", program, q, err)
			}
			answers[i] = answer.Status.Allowed
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	var wrong []string
	for i, q := range questions {
		if want := rules.allow(q) || everybody(q); answers[i] != want {
			wrong = append(wrong, fmt.Sprintf("%s %s/%s/%s %q in %q: allowed %v, want %v", q.Verb, q.Group, q.Resource,
				q.Subresource, q.Name, q.Namespace, answers[i], want))
		}
	}
	return wrong
}

// foreign returns the resources that rules name and the API server does not have, as those of Cluster API: rights can
// be there before.
func (g granted) foreign(have []resource) []resource {
	var all []resource
	for _, rules := range g {
		for i := range rules {
			for _, name := range rules[i].Resources {
				name, sub, _ := strings.Cut(name, "/")
				r := resource{schema.GroupResource{Group: rules[i].APIGroups[0], Resource: name}, sub, true}
				known := func(h resource) bool { return h.GroupResource == r.GroupResource && h.sub == r.sub }
				if !slices.ContainsFunc(have, known) && !slices.ContainsFunc(all, known) {
					all = append(all, r)
				}
			}
		}
	}
	return all
}

// names returns the names that rules have for a resource, and one that none has.
func (g granted) names(r *resource) []string {
	all := []string{"other"}
	for _, rules := range g {
		for i := range rules {
			if rule := &rules[i]; concerns(rule, r.Group, r.Resource, r.sub) {
				all = append(all, rule.ResourceNames...)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// allow tells whether a rule names what is asked: there is no *, and what a rule of a namespace says holds there alone.
func (g granted) allow(q *authorizationv1.ResourceAttributes) bool {
	for namespace, rules := range g {
		if namespace != "" && namespace != q.Namespace {
			continue
		}
		for i := range rules {
			rule := &rules[i]
			if concerns(rule, q.Group, q.Resource, q.Subresource) && slices.Contains(rule.Verbs, q.Verb) &&
				(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, q.Name)) {
				return true
			}
		}
	}
	return false
}

func concerns(rule *rbacv1.PolicyRule, group, name, sub string) bool {
	if sub != "" {
		name += "/" + sub
	}
	return slices.Contains(rule.APIGroups, group) && slices.Contains(rule.Resources, name)
}

// everybody tells what Kubernetes allows every user: to ask what it may do itself.
func everybody(q *authorizationv1.ResourceAttributes) bool {
	return q.Verb == "create" && q.Subresource == "" &&
		(q.Group == "authorization.k8s.io" && (q.Resource == "selfsubjectaccessreviews" ||
			q.Resource == "selfsubjectrulesreviews") ||
			q.Group == "authentication.k8s.io" && q.Resource == "selfsubjectreviews")
}
