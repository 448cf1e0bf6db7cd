//go:build e2e

package capi

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/apis/crds"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/hub/inventory/capi"
)

const (
	// patience is how long the test waits for what takes seconds on a quiet machine.
	patience = 5 * time.Minute
	// program is the name of the program, and of its user on the hub.
	program = "flotilla-capi"
	// machineFinalizer holds Machines as that of Cluster API does.
	machineFinalizer = "e2e.flotilla.dev/machine"
	// site is the namespace of Clusters.
	site = "site"
	// replicas of the workload, and how many of them may be missing.
	replicas, maxUnavailable = 6, 1
)

// manifests are a policy and a workload. What it fences it does not wait for: an hour is longer than the test.
const manifests = `
apiVersion: topology.flotilla.dev/v1alpha1
kind: FederationPolicy
metadata: {name: everywhere, namespace: shop}
spec:
  workloads: [{kind: CloneSet}]
  clusters: {}
  spread: {by: Cluster, type: Even}
  failover: {mode: Fence, after: 1h}
---
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: api, namespace: shop}
spec:
  replicas: 6
  selector: {matchLabels: {app: api}}
  template:
    metadata: {labels: {app: api}}
    spec: {containers: [{name: api, image: "api:0"}]}
  updateStrategy: {rollingUpdate: {maxUnavailable: 1}}
`

// world is a hub where Cluster API's definitions are, a member that a person joined, and clusters that are to join by
// themselves.
type world struct {
	t      *testing.T
	fleet  *fleet.Fleet
	scheme *runtime.Scheme
	hub    client.Client
	at     map[string]client.Client
}

// bare are nodes without labels of zones.
func bare(cluster string, names ...string) fleet.ClusterSpec {
	spec := fleet.ClusterSpec{Name: cluster}
	for _, name := range names {
		spec.Nodes = append(spec.Nodes, fleet.NodeSpec{Name: cluster + "-" + name})
	}
	return spec
}

func newWorld(t *testing.T) *world {
	t.Helper()
	log.SetLogger(logr.Discard())
	definitions := os.Getenv("FLOTILLA_CAPI_CRDS")
	if definitions == "" {
		t.Fatal("FLOTILLA_CAPI_CRDS names no folder with the definitions of Cluster API: run make capi")
	}
	f := fleet.ForTest(t, fleet.Config{Members: []fleet.ClusterSpec{
		{Name: "west", Nodes: fleet.Nodes("west", "eu", []string{"c"}, 1)}, bare("east", "0", "1"), bare("south", "0"),
	}})
	scheme, err := capi.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	for _, add := range []func(*runtime.Scheme) error{apps.AddToScheme, appsv1.AddToScheme, authorizationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{t: t, fleet: f, scheme: scheme, at: map[string]client.Client{}}
	for _, c := range f.Clusters() {
		if w.at[c.Name], err = client.New(c.RESTConfig(), client.Options{Scheme: scheme}); err != nil {
			t.Fatal(err)
		}
	}
	w.hub = w.at[fleet.HubName]
	for _, step := range []func() error{
		func() error { return f.Hub().InstallCRDs(t.Context(), crds.FS) },
		func() error { return f.Hub().ApplyCRDs(t.Context(), os.DirFS(definitions)) },
		func() error { return f.Member("west").InstallCRDs(t.Context(), crds.FS) },
		func() error { return f.RunHub(t.Context(), f.Bin()) },
		func() error { return f.RunApprover(t.Context(), f.Bin()) },
		func() error { return f.Join(t.Context(), f.Bin(), f.Member("west")) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	w.create(w.hub, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: site}})
	w.create(w.hub, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop",
		Labels: map[string]string{topology.LabelFederated: "true"}}})
	w.startProgram()
	return w
}

// startProgram runs flotilla-capi as a user with its own rights, and no others.
func (w *world) startProgram() {
	w.t.Helper()
	kubeconfig, err := w.fleet.Hub().Identity(program)
	if err != nil {
		w.t.Fatal(err)
	}
	who := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: program}}
	named, inside := metav1.ObjectMeta{Name: program},
		metav1.ObjectMeta{Namespace: topology.SystemNamespace, Name: program}
	for _, object := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: named, Rules: append(capi.Rules(), capi.ManagementRules()...)},
		&rbacv1.ClusterRoleBinding{ObjectMeta: named, Subjects: who,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: program}},
		&rbacv1.Role{ObjectMeta: inside, Rules: capi.NamespaceRules()},
		&rbacv1.RoleBinding{ObjectMeta: inside, Subjects: who,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: program}},
	} {
		w.create(w.hub, object)
	}
	w.allowed(append(append(capi.Rules(), capi.ManagementRules()...), capi.NamespaceRules()...))
	objects, err := filepath.Abs(filepath.Join("..", "charts", "testdata", "agent.golden.yaml"))
	if err != nil {
		w.t.Fatal(err)
	}
	w.run(program, program, "--kubeconfig="+kubeconfig, "--agent-manifests="+objects, "--leader-elect=true",
		"--drain-timeout=1h")
}

// allowed waits until the hub's API server lets the program do what rules say in flotilla-system: it learns of roles a
// little later than they are written.
func (w *world) allowed(rules []rbacv1.PolicyRule) {
	w.t.Helper()
	w.eventually("the rights of the program", func(ctx context.Context) string {
		for _, rule := range rules {
			resource, sub, _ := strings.Cut(rule.Resources[0], "/")
			asks := &authorizationv1.ResourceAttributes{Namespace: topology.SystemNamespace, Verb: rule.Verbs[0],
				Group: rule.APIGroups[0], Resource: resource, Subresource: sub}
			if len(rule.ResourceNames) > 0 {
				asks.Name = rule.ResourceNames[0]
			}
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: program,
				ResourceAttributes: asks}}
			if err := w.hub.Create(ctx, review); err != nil {
				return err.Error()
			}
			if !review.Status.Allowed {
				return fmt.Sprintf("it may not %s %s", asks.Verb, rule.Resources[0])
			}
		}
		return ""
	})
}

// run starts a program of ours, and waits until it is ready.
func (w *world) run(name, program string, args ...string) {
	w.t.Helper()
	ports, err := w.fleet.FreePorts(2)
	if err != nil {
		w.t.Fatal(err)
	}
	args = append(args, fmt.Sprintf("--metrics-bind-address=127.0.0.1:%d", ports[0]),
		fmt.Sprintf("--health-probe-bind-address=127.0.0.1:%d", ports[1]))
	wanted := fleet.Program{Name: name, Path: filepath.Join(w.fleet.Bin(), program), Args: args}
	w.eventually(name+" is ready", func(ctx context.Context) string {
		// As a kubelet does, it starts again what has ended: rights and definitions are served a moment after they were made.
		if err := w.fleet.Run(wanted); err != nil {
			return err.Error()
		}
		if err := w.fleet.WaitReady(ctx, name); err != nil {
			return err.Error()
		}
		return ""
	})
}

// kubelet starts the agent of a cluster once its Deployment and the Secret that its pods wait for are there, as its
// ServiceAccount and with the arguments of its Deployment.
func (w *world) kubelet(cluster string) {
	w.t.Helper()
	d := &appsv1.Deployment{}
	w.eventually("the agent's objects are in "+cluster, func(ctx context.Context) string {
		if err := w.at[cluster].Get(ctx, client.ObjectKey{Namespace: topology.SystemNamespace, Name: "flotilla-agent"},
			d); err != nil {
			return err.Error() + "; " + w.told(cluster)
		}
		return problem(w.at[cluster].Get(ctx, client.ObjectKey{Namespace: topology.SystemNamespace,
			Name: topology.JoinSecret}, &corev1.Secret{}))
	})
	token := &authenticationv1.TokenRequest{}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: topology.SystemNamespace,
		Name: d.Spec.Template.Spec.ServiceAccountName}}
	if err := w.at[cluster].SubResource("token").Create(w.t.Context(), account, token); err != nil {
		w.t.Fatal(err)
	}
	// It is in the fleet's folder: by that the program is known when the fleet is cleared away.
	path := filepath.Join(w.fleet.Dir, "kubeconfigs", cluster+"-agent.yaml")
	if err := os.WriteFile(path, w.kubeconfig(cluster, &clientcmdapi.AuthInfo{Token: token.Status.Token}),
		0o600); err != nil {
		w.t.Fatal(err)
	}
	args := append(slices.Clone(d.Spec.Template.Spec.Containers[0].Args), "--kubeconfig="+path, "--webhook-bind-address="+
		w.fleet.Member(cluster).WebhookAddress())
	w.run(fleet.AgentName(cluster), fleet.AgentProgram, args...)
}

// kubeconfig returns one of a cluster for a user.
func (w *world) kubeconfig(cluster string, user *clientcmdapi.AuthInfo) []byte {
	w.t.Helper()
	cfg := w.fleet.Member(cluster).RESTConfig()
	data, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{cluster: {Server: cfg.Host, CertificateAuthorityData: cfg.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"admin": user},
		Contexts:       map[string]*clientcmdapi.Context{cluster: {Cluster: cluster, AuthInfo: "admin"}},
		CurrentContext: cluster,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return data
}

// admin makes an administrator of a cluster who is known by a token, and returns a kubeconfig with it.
func (w *world) admin(cluster, name string) []byte {
	w.t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}}
	w.create(w.at[cluster], account)
	w.create(w.at[cluster], &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole",
			Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "kube-system", Name: name}},
	})
	token := &authenticationv1.TokenRequest{}
	if err := w.at[cluster].SubResource("token").Create(w.t.Context(), account, token); err != nil {
		w.t.Fatal(err)
	}
	return w.kubeconfig(cluster, &clientcmdapi.AuthInfo{Token: token.Status.Token})
}

// secret writes the Secret with the kubeconfig of a Cluster, and lets the program look.
func (w *world) secret(cluster string, data []byte) {
	w.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: site, Name: cluster + "-kubeconfig"}}
	if _, err := controllerutil.CreateOrUpdate(w.t.Context(), w.hub, secret, func() error {
		secret.Data = map[string][]byte{"value": data}
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	w.nudge(cluster)
}

// nudge lets the program look at a Cluster now: it tries again within a minute, and the test is in a hurry.
func (w *world) nudge(cluster string) {
	w.t.Helper()
	c := w.cluster(cluster)
	base := c.DeepCopy()
	metav1.SetMetaDataAnnotation(&c.ObjectMeta, "e2e.flotilla.dev/look", time.Now().String())
	if err := w.hub.Patch(w.t.Context(), c, client.MergeFrom(base)); err != nil {
		w.t.Fatal(err)
	}
}

// label sets the label of a Cluster that is to join, or takes it away.
func (w *world) label(cluster string, value *string) {
	w.t.Helper()
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"labels": map[string]any{topology.LabelJoin: value}}})
	if err != nil {
		w.t.Fatal(err)
	}
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: site, Name: cluster}}
	if err := w.hub.Patch(w.t.Context(), c, client.RawPatch(types.MergePatchType, text)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) cluster(name string) *clusterv1.Cluster {
	w.t.Helper()
	c := &clusterv1.Cluster{}
	if err := w.hub.Get(w.t.Context(), client.ObjectKey{Namespace: site, Name: name}, c); err != nil {
		w.t.Fatal(err)
	}
	return c
}

// addCluster makes a Cluster with a Machine for each node, in the failure domains, which is to join.
func (w *world) addCluster(name string, labels map[string]string, domains ...string) {
	w.t.Helper()
	labels[topology.LabelJoin] = "true"
	c := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: site, Name: name, Labels: labels},
		Spec:       clusterv1.ClusterSpec{ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "127.0.0.1", Port: 6443}},
	}
	w.create(w.hub, c)
	base := c.DeepCopy()
	for _, domain := range domains {
		c.Status.FailureDomains = append(c.Status.FailureDomains, clusterv1.FailureDomain{Name: domain})
	}
	if len(domains) > 0 {
		if err := w.hub.Status().Patch(w.t.Context(), c, client.MergeFrom(base)); err != nil {
			w.t.Fatal(err)
		}
	}
	nodes := &corev1.NodeList{}
	if err := w.at[name].List(w.t.Context(), nodes); err != nil {
		w.t.Fatal(err)
	}
	for i := range nodes.Items {
		m := &clusterv1.Machine{
			ObjectMeta: metav1.ObjectMeta{Namespace: site, Name: nodes.Items[i].Name,
				Labels: map[string]string{clusterv1.ClusterNameLabel: name}, Finalizers: []string{machineFinalizer}},
			Spec: clusterv1.MachineSpec{
				ClusterName: name, Bootstrap: clusterv1.Bootstrap{DataSecretName: new("bootstrap")},
				InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io",
					Kind: "E2EMachine", Name: nodes.Items[i].Name},
			},
		}
		if i < len(domains) {
			m.Spec.FailureDomain = domains[i]
		}
		w.create(w.hub, m)
		base := m.DeepCopy()
		m.Status.NodeRef.Name = m.Name
		if err := w.hub.Status().Patch(w.t.Context(), m, client.MergeFrom(base)); err != nil {
			w.t.Fatal(err)
		}
	}
}

// addPool makes a MachinePool of a Cluster, with a node of it.
func (w *world) addPool(cluster, node string) *clusterv1.MachinePool {
	w.t.Helper()
	p := &clusterv1.MachinePool{
		ObjectMeta: metav1.ObjectMeta{Namespace: site, Name: cluster + "-pool",
			Labels: map[string]string{clusterv1.ClusterNameLabel: cluster}},
		Spec: clusterv1.MachinePoolSpec{ClusterName: cluster,
			Template: clusterv1.MachineTemplateSpec{Spec: clusterv1.MachineSpec{
				ClusterName: cluster, Bootstrap: clusterv1.Bootstrap{DataSecretName: new("bootstrap")},
				InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io",
					Kind: "E2EMachinePool", Name: cluster},
			}}},
	}
	w.create(w.hub, p)
	base := p.DeepCopy()
	p.Status.NodeRefs = []corev1.ObjectReference{{Name: node}}
	if err := w.hub.Status().Patch(w.t.Context(), p, client.MergeFrom(base)); err != nil {
		w.t.Fatal(err)
	}
	return p
}

// machines returns those of a Cluster that are left, after it let those go that are deleted and have no hook, as
// Cluster API does.
func (w *world) machines(ctx context.Context, cluster string) []clusterv1.Machine {
	w.t.Helper()
	list := &clusterv1.MachineList{}
	if err := w.hub.List(ctx, list, client.InNamespace(site),
		client.MatchingLabels{clusterv1.ClusterNameLabel: cluster}); err != nil {
		w.t.Fatal(err)
	}
	return slices.DeleteFunc(list.Items, func(m clusterv1.Machine) bool {
		for key := range m.Annotations {
			if strings.HasPrefix(key, clusterv1.PreTerminateDeleteHookAnnotationPrefix) {
				return false
			}
		}
		if m.DeletionTimestamp == nil {
			return false
		}
		base := m.DeepCopy()
		m.Finalizers = nil
		if err := w.hub.Patch(ctx, &m, client.MergeFrom(base)); client.IgnoreNotFound(err) != nil {
			w.t.Fatal(err)
		}
		return true
	})
}

// told returns what the condition Joined of a Cluster says.
func (w *world) told(cluster string) string {
	w.t.Helper()
	condition := meta.FindStatusCondition(w.cluster(cluster).Status.Conditions, topology.ClusterJoined)
	if condition == nil {
		return "no condition"
	}
	return fmt.Sprintf("%s %s: %s", condition.Status, condition.Reason, condition.Message)
}

// expectTold waits until the condition Joined says all of it.
func (w *world) expectTold(cluster string, says ...string) {
	w.t.Helper()
	w.eventually("the condition of Cluster "+cluster, func(context.Context) string {
		told := w.told(cluster)
		for _, want := range says {
			if !strings.Contains(told, want) {
				return fmt.Sprintf("%q does not say %q", told, want)
			}
		}
		return ""
	})
}

// pods returns how many pods of the workload a cluster has that are not being removed, -1 where it does not answer.
func (w *world) pods(ctx context.Context, cluster string) int {
	pods, n := &corev1.PodList{}, 0
	if err := w.at[cluster].List(ctx, pods, client.InNamespace("shop")); err != nil {
		return -1
	}
	for i := range pods.Items {
		if pods.Items[i].DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// serving returns how many pods of the workload clusters have that are Ready and not being removed, false where one
// does not answer. The cluster that gives pods away is the first: one that stands in is counted beside it rather than
// not at all.
func (w *world) serving(ctx context.Context, clusters ...string) (int, bool) {
	n := 0
	for _, cluster := range clusters {
		pods := &corev1.PodList{}
		if err := w.at[cluster].List(ctx, pods, client.InNamespace("shop")); err != nil {
			return 0, false
		}
		for i := range pods.Items {
			p := &pods.Items[i]
			if p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions,
				func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue }) {
				n++
			}
		}
	}
	return n, true
}

// expectPods waits until clusters have as many pods of the workload.
func (w *world) expectPods(want map[string]int) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("pods are %v", want), func(ctx context.Context) string {
		for cluster, n := range want {
			if have := w.pods(ctx, cluster); have != n {
				return fmt.Sprintf("%s has %d", cluster, have)
			}
		}
		return ""
	})
}

// member returns a MemberCluster, or what is in the way.
func (w *world) member(ctx context.Context, name string) (*topology.MemberCluster, error) {
	m := &topology.MemberCluster{}
	return m, w.hub.Get(ctx, client.ObjectKey{Name: name}, m)
}

func (w *world) create(c client.Client, object client.Object) {
	w.t.Helper()
	if err := c.Create(w.t.Context(), object); err != nil {
		w.t.Fatal(err)
	}
}

// apply makes the policy and the workload.
func (w *world) apply() {
	w.t.Helper()
	for i, manifest := range strings.Split(manifests, "---\n") {
		object := []client.Object{&topology.FederationPolicy{}, &apps.CloneSet{}}[i]
		if err := yaml.UnmarshalStrict([]byte(manifest), object); err != nil {
			w.t.Fatal(err)
		}
		w.create(w.hub, object)
	}
}

func (w *world) eventually(what string, problem func(ctx context.Context) string) {
	w.t.Helper()
	fleet.Eventually(w.t, patience, what, problem, func() string {
		return "; the end of the program's log:\n" + w.fleet.LogTail(program, 20)
	})
}

// problem is an error as Eventually wants it.
func problem(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}
