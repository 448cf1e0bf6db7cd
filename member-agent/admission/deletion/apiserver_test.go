package deletion

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	"github.com/flotilla-dev/flotilla/apis/protection"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/apiserver"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

const (
	// member is the user of the agent.
	member    = protection.Agent
	collector = "system:serviceaccount:kube-system:generic-garbage-collector"
	spaces    = "system:serviceaccount:kube-system:namespace-controller"

	template = `{metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}`
	workload = `spec: {replicas: 2, selector: {matchLabels: {a: b}}, template: ` + template + `}`
)

// manifests has an object of each kind that the policy protects, those of the group "scaled" with two replicas.
func manifests() map[string][]string {
	united := `spec: {replicas: 2, selector: {matchLabels: {a: b}}, topology: {subsets: [{name: s}]},
  template: {deploymentTemplate: {metadata: {labels: {a: b}}, spec: {selector: {matchLabels: {a: b}}, template: ` +
		template + `}}}}`
	return map[string][]string{
		"scaled": {
			"apiVersion: apps/v1\nkind: Deployment\n" + workload,
			"apiVersion: apps/v1\nkind: ReplicaSet\n" + workload,
			"apiVersion: apps/v1\nkind: StatefulSet\n" + workload,
			"apiVersion: apps.kruise.io/v1beta1\nkind: CloneSet\n" + workload,
			"apiVersion: apps.kruise.io/v1beta1\nkind: StatefulSet\n" + workload,
			"apiVersion: apps.kruise.io/v1beta1\nkind: UnitedDeployment\n" + united,
		},
		"others": {
			"apiVersion: v1\nkind: Service\nspec: {ports: [{port: 80}]}",
			"apiVersion: networking.k8s.io/v1\nkind: Ingress\nspec: {defaultBackend: {service: {name: s, port: {number: 80}}}}",
		},
	}
}

type world struct {
	*testing.T
	client.Client
	config *rest.Config
}

// newWorld starts an API server with the policy and the webhook of a guard.
func newWorld(t *testing.T) *world {
	t.Helper()
	config := apiserver.ForTest(t, "clonesets.apps.kruise.io", "statefulsets.apps.kruise.io",
		"uniteddeployments.apps.kruise.io")
	w := &world{T: t, config: config, Client: clientOf(t, config, "")}
	objects, err := protection.Objects(member)
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		w.must(w.Create(t.Context(), object))
	}
	reader, err := metadata.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	guard := New(reader, append(Pods(), Content{Name: "accounts",
		Resource: corev1.SchemeGroupVersion.WithResource("serviceaccounts")}))
	server := httptest.NewTLSServer(&webhook.Admission{Handler: admission.HandlerFunc(guard.Handle)})
	t.Cleanup(server.Close)
	hook := Webhook()
	hook.ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: new(server.URL),
		CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})}
	live := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: Configuration},
		Webhooks:   []admissionregistrationv1.ValidatingWebhook{hook},
	}
	w.must(w.Create(t.Context(), live))
	hook.ClientConfig = live.Webhooks[0].ClientConfig
	if got, want := fmt.Sprint(live.Webhooks[0]), fmt.Sprint(hook); len(got) != len(want) {
		t.Errorf("the API server adds defaults: %s, want %s", got, want)
	}
	return w
}

// clientOf returns a client with all rights under this user name; empty is the administrator.
func clientOf(t *testing.T, config *rest.Config, user string) client.Client {
	t.Helper()
	config = rest.CopyConfig(config)
	if user != "" {
		config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
	}
	c, err := client.New(config, client.Options{Scheme: apiserver.Scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// object returns the manifest as an object of this name with the label.
func (w *world) object(manifest, name, value string) *unstructured.Unstructured {
	w.Helper()
	object := &unstructured.Unstructured{}
	w.must(yaml.Unmarshal([]byte(manifest), &object.Object))
	object.SetName(name)
	object.SetNamespace("default")
	object.SetLabels(map[string]string{protection.Label: value})
	return object
}

// refused returns a problem unless the API server refuses to delete the object with 403 and this text; empty: it
// allows it.
func refused(ctx context.Context, c client.Client, object client.Object, text string) string {
	err := c.Delete(ctx, object, client.DryRunAll)
	switch {
	case text == "" && err != nil:
		return err.Error()
	case text == "":
		return ""
	case !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), text):
		return fmt.Sprintf("%v, want %s", err, text)
	}
	return ""
}

// expect checks what refused says, again while the API server may not know the policy yet.
func (w *world) expect(c client.Client, object client.Object, text string) {
	w.Helper()
	what := fmt.Sprintf("%s %s", object.GetObjectKind().GroupVersionKind().Kind, object.GetName())
	fleet.Eventually(w, time.Minute, what, func(ctx context.Context) string { return refused(ctx, c, object, text) }, nil)
}

func TestProtection(t *testing.T) {
	w := newWorld(t)
	const always = protection.Refused + "Always; remove the label before you delete the object"
	agent, user := clientOf(t, w.config, member), clientOf(t, w.config, "jane")
	others := []client.Client{clientOf(t, w.config, collector), clientOf(t, w.config, spaces)}
	for group, list := range manifests() {
		for _, manifest := range list {
			object := w.object(manifest, "always", "Always")
			w.must(w.Create(t.Context(), object))
			w.expect(user, object, always)
			w.expect(agent, object, always)
			for _, c := range others {
				w.expect(c, object, "")
			}
			object.SetLabels(map[string]string{protection.Label: "Always", topology.LabelHub: "h"})
			w.must(w.Update(t.Context(), object))
			w.expect(user, object, always)
			w.expect(agent, object, "")
			object.SetLabels(map[string]string{protection.Label: "Sometimes"})
			w.must(w.Update(t.Context(), object))
			w.expect(user, object, "")

			object = w.object(manifest, "cascading", "Cascading")
			w.must(w.Create(t.Context(), object))
			if group == "others" {
				w.expect(user, object, "")
				continue
			}
			w.expect(user, object, protection.Refused+"Cascading and replicas 2>0; scale it to 0")
			w.must(unstructured.SetNestedField(object.Object, int64(0), "spec", "replicas"))
			w.must(w.Update(t.Context(), object))
			w.expect(user, object, "")
		}
	}
	set := w.object("apiVersion: apps/v1\nkind: Deployment\n"+workload, "more", "Always")
	w.must(w.Create(t.Context(), set))
	if err := user.DeleteAllOf(t.Context(), set, client.InNamespace("default")); !apierrors.IsForbidden(err) {
		t.Errorf("a collection is deleted: %v", err)
	}
	// An object that is being deleted already only loses its finalizers.
	set.SetFinalizers([]string{"example.org/hold"})
	set.SetLabels(nil)
	w.must(w.Update(t.Context(), set))
	w.must(w.Delete(t.Context(), set))
	w.must(w.Get(t.Context(), client.ObjectKeyFromObject(set), set))
	set.SetLabels(map[string]string{protection.Label: "Always"})
	w.must(w.Update(t.Context(), set))
	w.expect(user, set, "")
}

// TestConsequences: who keeps the objects of a template passes for those that have inherited the label from it, and for
// no others.
func TestConsequences(t *testing.T) {
	w := newWorld(t)
	agent, user := clientOf(t, w.config, member), clientOf(t, w.config, "jane")
	deployments := clientOf(t, w.config, "system:serviceaccount:kube-system:deployment-controller")
	owned := func(name, apiVersion, kind string) *unstructured.Unstructured {
		object := w.object("apiVersion: apps/v1\nkind: ReplicaSet\n"+workload, name, "Always")
		object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "owner", UID: "u",
			Controller: new(true)}})
		w.must(w.Create(t.Context(), object))
		return object
	}
	const always = protection.Refused + "Always"
	set := owned("old", "apps/v1", "Deployment")
	w.expect(user, set, always)
	w.expect(agent, set, always)
	w.expect(deployments, set, "")
	child := owned("child", "apps.kruise.io/v1beta1", "UnitedDeployment")
	w.expect(user, child, always)
	w.expect(deployments, child, always)
	w.expect(agent, child, "")
	plain := w.object("apiVersion: apps/v1\nkind: ReplicaSet\n"+workload, "plain", "Always")
	w.must(w.Create(t.Context(), plain))
	for _, c := range []client.Client{user, agent, deployments} {
		w.expect(c, plain, always)
	}
}

func TestNamespacesAndDefinitions(t *testing.T) {
	w := newWorld(t)
	user := clientOf(t, w.config, "jane")
	space := func(name, value string) *corev1.Namespace {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name,
			Labels: map[string]string{protection.Label: value}}}
		w.must(w.Create(t.Context(), namespace))
		return namespace
	}
	w.expect(user, space("always", "Always"), protection.Refused+"Always")
	shop := space("shop", "Cascading")
	w.expect(user, shop, "")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	w.must(w.Create(t.Context(), pod))
	w.expect(user, shop, protection.Refused+"Cascading and active pods 1>0; delete them")
	pod.Status.Phase = corev1.PodSucceeded
	w.must(w.Status().Update(t.Context(), pod))
	w.expect(user, shop, "")
	claim := w.object("apiVersion: v1\nkind: PersistentVolumeClaim\nspec: {accessModes: [ReadWriteOnce],"+
		" resources: {requests: {storage: 1Gi}}}", "c", "")
	claim.SetNamespace("shop")
	w.must(w.Create(t.Context(), claim))
	w.expect(user, shop, "")
	claim.SetAnnotations(map[string]string{"pv.kubernetes.io/bind-completed": "yes"})
	w.must(w.Update(t.Context(), claim))
	w.expect(user, shop, protection.Refused+`Cascading and "Bound" status pvc 1>0`)
	w.must(w.Delete(t.Context(), claim))
	account := w.object("apiVersion: v1\nkind: ServiceAccount", "a", "")
	account.SetNamespace("shop")
	w.must(w.Create(t.Context(), account))
	w.expect(user, shop, protection.Refused+"Cascading and accounts 1>0")

	definition := &unstructured.Unstructured{}
	definition.SetAPIVersion("apiextensions.k8s.io/v1")
	definition.SetKind("CustomResourceDefinition")
	w.must(w.Get(t.Context(), client.ObjectKey{Name: "clonesets.apps.kruise.io"}, definition))
	label := func(value string) {
		definition.SetLabels(map[string]string{protection.Label: value})
		w.must(w.Update(t.Context(), definition))
	}
	label("Always")
	w.expect(user, definition, protection.Refused+"Always")
	label("Cascading")
	w.expect(user, definition, "")
	set := w.object(manifests()["scaled"][3], "c", "")
	w.must(w.Create(t.Context(), set))
	w.expect(user, definition, protection.Refused+"Cascading and active CRs 1>0")
}
