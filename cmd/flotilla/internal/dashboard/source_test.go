package dashboard

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/apiserver"
	"github.com/flotilla-dev/flotilla/hub"
)

// TestSource holds, on an API server, what a user sees who has rights in one namespace, what changes when others are
// granted, and that the command serves it.
func TestSource(t *testing.T) {
	ctrllog.SetLogger(logr.Discard()) // as the program does
	cfg := apiserver.ForTest(t)
	scheme, err := hub.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	if err := rbacv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	admin, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	create := func(objects ...client.Object) {
		t.Helper()
		for _, o := range objects {
			if err := admin.Create(t.Context(), o); err != nil {
				t.Fatalf("create %T %s: %v", o, o.GetName(), err)
			}
		}
	}
	read := []string{"list", "watch"}
	may := func(name, group string, verbs []string, resources ...string) *rbacv1.ClusterRole {
		return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name},
			Rules: []rbacv1.PolicyRule{{APIGroups: []string{group}, Resources: resources, Verbs: verbs}}}
	}
	dev := []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "dev"}}
	role := func(name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
	}
	for _, name := range []string{"shop", "secret"} {
		create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name,
			Labels: map[string]string{topology.LabelFederated: "true"}}}, cloneSet(name, "api"))
	}
	now := metav1.NowMicro()
	create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "karmada-es-east"}},
		&topology.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}},
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-east", Name: "east"},
			Spec: coordinationv1.LeaseSpec{RenewTime: &now}},
		may("workloads", "*", read, "*"), may("namespaces", "", read, "namespaces"),
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "dev"}, Subjects: dev,
			RoleRef: role("workloads")},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "dev"}, Subjects: dev,
			RoleRef: role("namespaces")})

	as := rest.CopyConfig(cfg)
	as.Impersonate.UserName = "dev"
	b := newBoard("hub")
	s, err := newSource(as, scheme, b, "hub", scope{own: "default"})
	if err != nil {
		t.Fatal(err)
	}
	s.lookEvery, s.askEvery = 200*time.Millisecond, 500*time.Millisecond
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.run(ctx)
	}()
	defer func() {
		end()
		<-ended
	}()
	shows := func(what string, holds func(*Fleet) bool) {
		t.Helper()
		limit := time.After(time.Minute)
		for {
			f, changed := b.newest()
			if holds(f) {
				return
			}
			select {
			case <-changed:
			case <-limit:
				t.Fatalf("the fleet does not show %s: %s %+v, %d workloads, %d members", what, f.Failing, f.Unread,
					len(f.Workloads), len(f.Members))
			}
		}
	}
	unread := func(f *Fleet, what string) bool {
		return slices.ContainsFunc(f.Unread, func(u Unread) bool { return u.What == what })
	}
	keys := func(f *Fleet) (all []string) {
		for i := range f.Workloads {
			all = append(all, f.Workloads[i].key)
		}
		return all
	}
	shows("one namespace of two", func(f *Fleet) bool {
		return slices.Equal(keys(f), []string{"CloneSet/shop/api"}) && unread(f, "namespace secret") &&
			unread(f, "works.work.karmada.io") && unread(f, "memberclusters.topology.flotilla.dev") && f.unknown &&
			!unread(f, "namespace shop") && len(f.Workloads[0].needs) > 0
	})
	create(cloneSet("shop", "cart"))
	shows("a new workload", func(f *Fleet) bool {
		return slices.Equal(keys(f), []string{"CloneSet/shop/api", "CloneSet/shop/cart"})
	})
	create(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "dev-all"}, Subjects: dev,
		RoleRef: role("workloads")},
		may("identity", "", []string{"get"}, "namespaces"),
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "dev-id"}, Subjects: dev,
			RoleRef: role("identity")})
	shows("everything, once it may be read", func(f *Fleet) bool {
		return len(f.Workloads) == 3 && len(f.Unread) == 0 && len(f.Members) == 1 && !f.Members[0].Contact.IsZero() &&
			f.Members[0].State == "NotAccepted" && !f.unknown
	})
	command(t, cfg)
}

func cloneSet(namespace, name string) *apps.CloneSet {
	set := &apps.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	set.Spec.Template = apps.NewPodTemplate(corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "nginx:1.27"}}},
	})
	return set
}

// command runs the verb with a kubeconfig, reads a stream at the address that it prints, and ends it.
func command(t *testing.T, cfg *rest.Config) {
	t.Helper()
	raw := clientcmdapi.NewConfig()
	raw.Clusters["hub"] = &clientcmdapi.Cluster{Server: cfg.Host, CertificateAuthorityData: cfg.CAData}
	raw.AuthInfos["hub"] = &clientcmdapi.AuthInfo{ClientCertificateData: cfg.CertData, ClientKeyData: cfg.KeyData}
	raw.Contexts["hub"] = &clientcmdapi.Context{Cluster: "hub", AuthInfo: "hub"}
	raw.CurrentContext = "hub"
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*raw, kubeconfig); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, in := io.Pipe()
	verb := NewCommand()
	var said bytes.Buffer
	verb.SetArgs([]string{"--kubeconfig", kubeconfig, "-n", "shop"})
	verb.SetOut(in)
	verb.SetErr(&said)
	ended := make(chan error, 1)
	go func() { ended <- verb.ExecuteContext(ctx) }()
	line := make([]byte, 200)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	address, token, found := strings.Cut(strings.TrimSpace(string(line[:n])), "/#token=")
	if !found || !strings.HasPrefix(address, "http://127.0.0.1:") {
		t.Fatalf("it prints %q", line[:n])
	}
	next := events(t, ask(t, &server{token: token}, address+"/events", nil)) //nolint:bodyclose // ask closes it
	for e := next(); !strings.Contains(e.data, `"w/CloneSet/shop/cart"`); e = next() {
	}
	refused := ask(t, &server{token: "x"}, address+"/events", nil) //nolint:bodyclose // ask closes it
	if refused.StatusCode != http.StatusUnauthorized {
		t.Errorf("another token is answered with %s", refused.Status)
	}
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the command does not end")
	}
	if !strings.Contains(said.String(), "Ctrl-C") {
		t.Errorf("it says %q", said.String())
	}
}
