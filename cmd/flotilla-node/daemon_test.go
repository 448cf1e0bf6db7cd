package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/apiserver"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/cri"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/fakecri"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/rights"
)

const system = "flotilla-system"

// asDaemon gives the daemon of node a its rights, as the chart and the agent do, and returns a configuration with the
// token of its pod.
func asDaemon(t *testing.T, admin client.Client, config *rest.Config) *rest.Config {
	t.Helper()
	own := metav1.ObjectMeta{Namespace: system, Name: nodedaemon.Program}
	pulls := metav1.ObjectMeta{Namespace: system, Name: rights.PullsRole}
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Name: own.Name, Namespace: system}}
	objects := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system}}, &corev1.ServiceAccount{ObjectMeta: own},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: own.Name}, Rules: rights.Rules()},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: own.Name}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: own.Name}},
		&rbacv1.Role{ObjectMeta: pulls, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""},
			Resources: []string{"secrets"}, Verbs: []string{"get"}, ResourceNames: []string{"pull-1"}}}},
		&rbacv1.RoleBinding{ObjectMeta: pulls, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: rights.PullsRole}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
		&corev1.Pod{ObjectMeta: own, Spec: corev1.PodSpec{NodeName: "a", ServiceAccountName: own.Name,
			Containers: []corev1.Container{{Name: "main", Image: "flotilla-node"}}}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "pull-1"},
			Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{
				corev1.DockerConfigJsonKey: []byte(`{"auths":{"r.example":{"username":"u","password":"p"}}}`)}},
	}
	policy, err := rights.Policy()
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range policy {
		objects = append(objects, object)
	}
	for _, object := range objects {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatalf("create %T %s: %v", object, object.GetName(), err)
		}
	}
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: own.Name}}}
	answer, err := core.CoreV1().ServiceAccounts(system).CreateToken(t.Context(), own.Name, request,
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	daemon := rest.AnonymousClientConfig(config)
	daemon.BearerToken = answer.Status.Token
	return daemon
}

// nodeImage asks for images with the one credential that there is.
func nodeImage(node string, images ...string) *v1beta1.NodeImage {
	object := &v1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: node},
		Spec: v1beta1.NodeImageSpec{Images: map[string]v1beta1.ImageSpec{}}}
	for _, image := range images {
		object.Spec.Images[image] = v1beta1.ImageSpec{
			PullSecrets: []v1beta1.PullSecretReference{{Namespace: system, Name: "pull-1"}},
			Tags: []v1beta1.ImageTagSpec{{Tag: "1", PullPolicy: &v1beta1.ImageTagPullPolicy{
				BackoffLimit: new(int32(0)), TTLSecondsAfterFinished: new(int32(3600))},
				OwnerReferences: []v1beta1.JobReference{{APIVersion: "apps.kruise.io/v1beta1", Kind: "ImagePullJob",
					Namespace: "default", Name: "job", UID: "1"}}}}}
	}
	return object
}

// TestDaemonOnARealAPIServer runs the program with the rights of its chart and the token of its pod.
func TestDaemonOnARealAPIServer(t *testing.T) {
	config := apiserver.ForTest(t, "nodeimages.apps.kruise.io", "nodepodprobes.apps.kruise.io",
		"containerrecreaterequests.apps.kruise.io")
	admin, err := client.New(config, client.Options{Scheme: apiserver.Scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	daemon := asDaemon(t, admin, config)
	for _, node := range []string{"a", "b"} {
		if err := admin.Create(t.Context(), nodeImage(node, "r.example/web", "r.example/none")); err != nil {
			t.Fatal(err)
		}
	}
	folder, err := os.MkdirTemp("", "node")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	runDaemon(t, daemon, folder)
	status := func() v1beta1.NodeImageStatus {
		object := &v1beta1.NodeImage{}
		if err := admin.Get(t.Context(), client.ObjectKey{Name: "a"}, object); err != nil {
			t.Fatal(err)
		}
		return object.Status
	}
	ready := func(reason string) {
		t.Helper()
		apiserver.Eventually(t, time.Minute, "the condition", func() string {
			if c := meta.FindStatusCondition(status().Conditions, "Ready"); c == nil || c.Reason != reason {
				return fmt.Sprintf("%+v, want %s", c, reason)
			}
			return ""
		})
	}
	ready(cri.ReasonNoSocket)
	runtime := fakecri.New(filepath.Join(folder, "containerd", "containerd.sock"))
	runtime.Push("r.example/web:1", fakecri.RegistryImage{ID: "sha256:a", Username: "u", Password: "p"})
	if err := runtime.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(runtime.Stop)
	ready(nodedaemon.ReasonConnected)
	apiserver.Eventually(t, time.Minute, "the pulls", func() string {
		if s := status(); s.Succeeded != 1 || s.Failed != 1 || s.Desired != 2 {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	apiserver.Eventually(t, time.Minute, "the event", func() string {
		events := &corev1.EventList{}
		if err := admin.List(t.Context(), events, client.InNamespace("default")); err != nil {
			t.Fatal(err)
		}
		for i := range events.Items {
			if e := &events.Items[i]; e.Reason == "PullImageFailed" && e.InvolvedObject.Name == "job" {
				return ""
			}
		}
		return fmt.Sprintf("none of %d events is on the job", len(events.Items))
	})
	other := &v1beta1.NodeImage{}
	if err := admin.Get(t.Context(), client.ObjectKey{Name: "b"}, other); err != nil || other.Status.Desired != 0 {
		t.Errorf("node b reports %+v (%v)", other.Status, err)
	}
}

// runDaemon runs the program until the test ends.
func runDaemon(t *testing.T, config *rest.Config, folder string) {
	t.Helper()
	f := &flags{node: "a", runtime: cri.Options{Directory: folder}, metricsAddress: "0", healthAddress: "0",
		pullWorkers: 2}
	mgr, err := newManager(f, config, logr.Discard(), parts(f, logr.Discard()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
