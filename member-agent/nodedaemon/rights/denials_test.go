package rights_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/apiserver"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/rights"
)

const (
	system  = "flotilla-system"
	account = "flotilla-node"
)

// definitions returns those of the kinds that daemons serve, wherever the repository has them.
func definitions(t *testing.T) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, name := range []string{"nodeimages", "nodepodprobes", "containerrecreaterequests"} {
		var data []byte
		for _, folder := range []string{".", "unserved"} {
			path := filepath.Join("..", "..", "..", "apis", "crds", folder, "apps.kruise.io_"+name+".yaml")
			if read, err := os.ReadFile(path); err == nil {
				data = read
			}
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(data, crd); err != nil || crd.Name == "" {
			t.Fatalf("no definition of %s: %v", name, err)
		}
		// Nothing converts here.
		crd.Spec.Conversion = nil
		all = append(all, crd)
	}
	return all
}

// world is an API server with two nodes, their daemons, and what those report of.
type world struct {
	*testing.T
	config *rest.Config
	scheme *runtime.Scheme
	admin  client.Client
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, config: apiserver.ForTest(t, "clonesets.apps.kruise.io"), scheme: apiserver.Scheme(t)}
	if err := v1alpha1.AddToScheme(w.scheme); err != nil {
		t.Fatal(err)
	}
	if err := apiserver.InstallOthers(w.config, definitions(t)); err != nil {
		t.Fatal(err)
	}
	admin, err := client.New(w.config, client.Options{Scheme: w.scheme})
	if err != nil {
		t.Fatal(err)
	}
	w.admin = admin
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system}})
	w.grant()
	for _, node := range []string{"a", "b"} {
		w.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}},
			&v1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: node}},
			&v1alpha1.NodePodProbe{ObjectMeta: metav1.ObjectMeta{Name: node}},
			w.pod(system, "daemon-"+node, node), w.pod("default", "web-"+node, node),
			&v1beta1.ContainerRecreateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "crr-" + node,
				Labels: map[string]string{v1beta1.LabelCRRNodeName: node}},
				Spec: v1beta1.ContainerRecreateRequestSpec{PodName: "web-" + node,
					Containers: []v1beta1.ContainerRecreateRequestContainer{{Name: "main"}}}},
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "pull-" + node}})
	}
	w.create(w.pod("default", "web-unbound", ""), &v1beta1.ContainerRecreateRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "crr-unlabelled"},
		Spec: v1beta1.ContainerRecreateRequestSpec{PodName: "web-a",
			Containers: []v1beta1.ContainerRecreateRequestContainer{{Name: "main"}}}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pull-a"}})
	return w
}

func (w *world) create(objects ...client.Object) {
	w.Helper()
	for _, object := range objects {
		if err := w.admin.Create(w.Context(), object); err != nil {
			w.Fatalf("create %T %s: %v", object, object.GetName(), err)
		}
	}
}

func (*world) pod(namespace, name, node string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
		Labels: map[string]string{"app": name}, Annotations: map[string]string{"owner": "team"}},
		Spec: corev1.PodSpec{NodeName: node, ServiceAccountName: map[bool]string{true: account}[namespace == system],
			Containers: []corev1.Container{{Name: "main", Image: "web:1"}}}}
}

// grant gives the daemons their rights, as the chart does, and the Secret pull-a, as the agent does.
func (w *world) grant() {
	w.Helper()
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Name: account, Namespace: system}}
	meta := metav1.ObjectMeta{Namespace: system, Name: rights.PullsRole}
	w.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: account}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: account}, Rules: rights.Rules()},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: account}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: account}},
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""},
			Resources: []string{"secrets"}, Verbs: []string{"get"}, ResourceNames: []string{"pull-a"}}}},
		&rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: rights.PullsRole}})
	policy, err := rights.Policy()
	if err != nil {
		w.Fatal(err)
	}
	for _, object := range policy {
		w.create(object)
	}
}

// daemon returns a client with the token that the kubelet of the pod mounts into it; no pod: with a token of the
// ServiceAccount alone.
func (w *world) daemon(pod string) client.Client {
	w.Helper()
	core, err := kubernetes.NewForConfig(w.config)
	if err != nil {
		w.Fatal(err)
	}
	request := &authenticationv1.TokenRequest{}
	if pod != "" {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod}
	}
	answer, err := core.CoreV1().ServiceAccounts(system).CreateToken(w.Context(), account, request,
		metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	config := rest.AnonymousClientConfig(w.config)
	config.BearerToken = answer.Status.Token
	c, err := client.New(config, client.Options{Scheme: w.scheme})
	if err != nil {
		w.Fatal(err)
	}
	return c
}

// named returns an object of the type and that name; one with a namespace is in default.
func named[T client.Object](object T, namespace, name string) T {
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

// write is a write of a daemon.
type write struct {
	name   string
	does   func(ctx context.Context, c client.Client) error
	denied string // a part of the message; "" for allowed
}

// status patches the status of an object.
func status(object client.Object, patch string) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		o := object.DeepCopyObject().(client.Object)
		return c.Status().Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(patch)))
	}
}

// writes are those of the daemon of node a.
func writes() []write {
	const other, none = "writes objects of its own node alone", "cannot"
	image := func(name string) client.Object { return named(&v1beta1.NodeImage{}, "", name) }
	probe := func(name string) client.Object { return named(&v1alpha1.NodePodProbe{}, "", name) }
	request := func(name string) client.Object {
		return named(&v1beta1.ContainerRecreateRequest{}, "default", name)
	}
	pod := func(name string) client.Object { return named(&corev1.Pod{}, "default", name) }
	const meta = `{"metadata":{"annotations":{"apps.kruise.io/runtime-containers-meta":"x"}}}`
	return []write{
		{"its NodeImage", status(image("a"), `{"status":{"desired":7}}`), ""},
		{"another NodeImage", status(image("b"), `{"status":{"desired":7}}`), other},
		{"its NodePodProbe", status(probe("a"),
			`{"status":{"podProbeStatuses":[{"name":"p","namespace":"n","uid":"u"}]}}`), ""},
		{"another NodePodProbe", status(probe("b"),
			`{"status":{"podProbeStatuses":[{"name":"p","namespace":"n","uid":"u"}]}}`), other},
		{"its request", status(request("crr-a"), `{"status":{"message":"x"}}`), ""},
		{"another request", status(request("crr-b"), `{"status":{"message":"x"}}`), other},
		{"a request without a node", status(request("crr-unlabelled"), `{"status":{"message":"x"}}`), other},
		{"its pod", status(pod("web-a"), `{"status":{"message":"x"}}`), ""},
		{"another pod", status(pod("web-b"), `{"status":{"message":"x"}}`), other},
		{"a pod without a node", status(pod("web-unbound"), `{"status":{"message":"x"}}`), other},
		{"the containers' metadata of its pod", status(pod("web-a"), meta), ""},
		{"the containers' metadata of another pod", status(pod("web-b"), meta), other},
		{"a label of its pod", status(pod("web-a"), `{"metadata":{"labels":{"app":"x"}}}`), "no labels"},
		{"an annotation of its pod", status(pod("web-a"), `{"metadata":{"annotations":{"a":"x"}}}`), "no labels"},
		{"the end of an annotation", status(pod("web-a"), `{"metadata":{"annotations":{"owner":null}}}`), "no labels"},
		{"a finalizer of its pod", status(pod("web-a"), `{"metadata":{"finalizers":["a/b"]}}`), "no labels"},
		{"the spec of its NodeImage", func(ctx context.Context, c client.Client) error {
			return c.Patch(ctx, image("a"), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`)))
		}, none},
		{"a NodeImage", func(ctx context.Context, c client.Client) error { return c.Create(ctx, image("c")) }, none},
		{"the deletion of its pod", func(ctx context.Context, c client.Client) error {
			return c.Delete(ctx, pod("web-a"))
		}, none},
		{"a Secret", func(ctx context.Context, c client.Client) error {
			return c.Create(ctx, named(&corev1.Secret{}, system, "pull-c"))
		}, none},
	}
}

func reads() []write {
	get := func(namespace, name string) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error {
			return c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &corev1.Secret{})
		}
	}
	return []write{
		{"a Secret of running pulls", get(system, "pull-a"), ""},
		{"a Secret that no pull names", get(system, "pull-b"), "cannot"},
		{"a Secret of that name elsewhere", get("default", "pull-a"), "cannot"},
		{"all Secrets", func(ctx context.Context, c client.Client) error {
			return c.List(ctx, &corev1.SecretList{}, client.InNamespace(system))
		}, "cannot"},
	}
}

// TestDaemonsWriteForTheirOwnNodeAlone holds the rights and the policy of the chart on a real API server, with tokens
// as kubelets mount them.
func TestDaemonsWriteForTheirOwnNodeAlone(t *testing.T) {
	w := newWorld(t)
	daemon := w.daemon("daemon-a")
	// The API server takes a policy up a little later.
	apiserver.Eventually(t, 2*time.Minute, "the policy", func() string {
		o := named(&v1beta1.NodeImage{}, "", "b")
		err := daemon.Status().Patch(t.Context(), o, client.RawPatch(types.MergePatchType, []byte(`{"status":{"failed":1}}`)))
		if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "own node") {
			return ""
		}
		return fmt.Sprint(err)
	})
	for _, row := range append(writes(), reads()...) {
		t.Run(row.name, func(t *testing.T) {
			err := row.does(t.Context(), daemon)
			switch {
			case row.denied == "" && err != nil:
				t.Errorf("it is denied: %v", err)
			case row.denied != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), row.denied)):
				t.Errorf("%v, want it denied with %q", err, row.denied)
			}
		})
	}
	t.Run("a token without a node", func(t *testing.T) {
		for _, row := range writes() {
			if err := row.does(t.Context(), w.daemon("")); !apierrors.IsForbidden(err) {
				t.Errorf("%s: %v, want it denied", row.name, err)
			}
		}
	})
	t.Run("others write as before", func(t *testing.T) {
		for _, row := range writes() {
			if strings.Contains(row.name, "another") {
				if err := row.does(t.Context(), w.admin); err != nil {
					t.Errorf("%s: %v", row.name, err)
				}
			}
		}
	})
}
