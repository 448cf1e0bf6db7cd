package sysdump

import (
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/apis/crds"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

// TestServers runs the verb against a hub and a member, of which it has all but what is secret; another member's API
// server does not answer, a context reaches another cluster than the hub knows under its name, and a member has no
// context: each is said, and the rest is there.
func TestServers(t *testing.T) {
	f := fleet.ForTest(t, fleet.Config{Hub: fleet.ClusterSpec{NoKubelets: true},
		Members: []fleet.ClusterSpec{{Name: "east", NoKubelets: true}}})
	kubeconfig := clientcmdapi.NewConfig()
	clients := map[string]client.Client{}
	for _, c := range f.Clusters() {
		if err := c.InstallCRDs(t.Context(), crds.FS); err != nil {
			t.Fatal(err)
		}
		var err error
		if clients[c.Name], err = client.New(c.RESTConfig(), client.Options{Scheme: scheme(t)}); err != nil {
			t.Fatal(err)
		}
		one, err := clientcmd.LoadFromFile(c.Kubeconfig())
		if err != nil {
			t.Fatal(err)
		}
		at := one.Contexts[one.CurrentContext]
		kubeconfig.Clusters[c.Name], kubeconfig.AuthInfos[c.Name] = one.Clusters[at.Cluster], one.AuthInfos[at.AuthInfo]
		kubeconfig.Contexts[c.Name] = &clientcmdapi.Context{Cluster: c.Name, AuthInfo: c.Name}
	}
	kubeconfig.CurrentContext = fleet.HubName
	kubeconfig.Contexts["mirror"] = kubeconfig.Contexts["east"]
	kubeconfig.Clusters["west"] = &clientcmdapi.Cluster{Server: "https://127.0.0.1:1"} // nothing listens there
	kubeconfig.Contexts["west"] = &clientcmdapi.Context{Cluster: "west", AuthInfo: "east"}
	folder := t.TempDir()
	path, file := filepath.Join(folder, "kubeconfig"), filepath.Join(folder, "dump.tar.gz")
	if err := clientcmd.WriteToFile(*kubeconfig, path); err != nil {
		t.Fatal(err)
	}
	fill(t, clients[fleet.HubName], clients["east"])

	command, out := NewCommand(), &strings.Builder{}
	command.SetArgs([]string{"--kubeconfig", path, "-O", file})
	command.SetOut(out)
	command.SetErr(io.Discard)
	command.SilenceUsage, command.SilenceErrors = true, true
	if err := command.ExecuteContext(t.Context()); !errors.Is(err, errMissing) || strings.TrimSpace(out.String()) != file {
		t.Fatalf("it prints %q and says %v", out, err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	files := contents(t, data)
	for name, words := range map[string][]string{
		"hub/check.txt":                                 {"members", "east"},
		"hub/version.json":                              {"gitVersion"},
		"hub/clonesets.apps.kruise.io.yaml":             {"name: web", "image: web:1"},
		"hub/memberclusters.topology.flotilla.dev.yaml": {"name: east", "name: west"},
		"hub/works.work.karmada.io.yaml":                {"name: shop.keys.secret"},
		"hub/namespaces.yaml":                           {"name: shop"},
		"members/east/version.json":                     {"gitVersion"},
		"members/east/clonesets.apps.kruise.io.yaml":    {"name: web"},
		"members/east/pods.yaml":                        {"name: web-1", "name: KEY", "image: web:1"},
		"summary.txt": {"members/west: ",
			"members/mirror: the context mirror reaches another cluster", "members/far: not read", "could not be read"},
		"members/east/deployments.apps.yaml":           nil, // none is there
		"members/west/version.json":                    nil,
		"members/mirror/clonesets.apps.kruise.io.yaml": nil,
		"hub/secrets.yaml":                             nil,
		"members/east/secrets.yaml":                    nil,
		"members/east/configmaps.yaml":                 nil,
	} {
		text, ok := files["dump/"+name]
		if ok != (words != nil) {
			t.Errorf("%s is there: %t; there are %v", name, ok, slices.Sorted(maps.Keys(files)))
		}
		for _, word := range words {
			if !strings.Contains(strings.ToLower(text), strings.ToLower(word)) {
				t.Errorf("%s does not have %q:\n%s", name, word, text)
			}
		}
	}
	for name, text := range files {
		if strings.Contains(text, hidden) {
			t.Errorf("%s has what is secret:\n%s", name, text)
		}
	}
}

// fill makes what a hub and a member have, with something secret wherever there can be some.
func fill(t *testing.T, hub, east client.Client) {
	t.Helper()
	system := &corev1.Namespace{}
	if err := east.Get(t.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		t.Fatal(err)
	}
	pod := func() *corev1.Pod {
		p := podOf("shop", "web-1")
		p.Spec.Containers[0].Image, p.Spec.ServiceAccountName, p.Spec.AutomountServiceAccountToken = "web:1", "web",
			new(false)
		return p
	}
	set := func() *apps.CloneSet {
		return &apps.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: apps.CloneSetSpec{
			Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: apps.NewPodTemplate(corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}, Spec: pod().Spec}),
		}}
	}
	secret := func() *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "keys"},
			StringData: map[string]string{"key": hidden}}
	}
	settings := func() *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "settings"},
			Data: map[string]string{"key": hidden}}
	}
	namespace := func(name string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	order := &work.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-east", Name: "shop.keys.secret"}}
	order.Spec.Workload.Manifests = []work.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"keys"},"stringData":{"key":"` + hidden + `"}}`)}}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	member := func(name, id string) *topology.MemberCluster {
		return &topology.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: topology.MemberClusterSpec{Accepted: true, ClusterID: id}}
	}
	for _, o := range []client.Object{
		namespace("shop"), namespace("karmada-es-east"), set(), secret(), settings(), order,
		member("east", string(system.UID)), member("west", "id-of-west"), member("mirror", "another-id"),
		member("far", "id-of-far"),
	} {
		if err := hub.Create(t.Context(), o); err != nil {
			t.Fatalf("create %T %s on the hub: %v", o, o.GetName(), err)
		}
	}
	for _, o := range []client.Object{namespace("shop"), account, set(), secret(), settings(), pod()} {
		if err := east.Create(t.Context(), o); err != nil {
			t.Fatalf("create %T %s in east: %v", o, o.GetName(), err)
		}
	}
}
