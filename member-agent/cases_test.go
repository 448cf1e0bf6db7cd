package memberagent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/audit"
	"github.com/flotilla-dev/flotilla/member-agent/ownership"
)

// owned is an object of a kind as it was first, and as the hub orders it later: with less.
type owned struct {
	kind          string
	full, reduced func(name string) tree
}

func objectOf(t *testing.T, object tree) *unstructured.Unstructured {
	t.Helper()
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	return u
}

func labelled(object tree, labels tree) tree {
	metadata, _ := object["metadata"].(tree)
	metadata["labels"] = labels
	return object
}

// pods returns the pod spec of case 1, whole or reduced.
func podSpec(full bool) tree {
	container := tree{"name": "c", "image": "nginx:1.27"}
	if !full {
		return tree{"containers": []any{container}}
	}
	container["volumeMounts"] = []any{tree{"name": "v", "mountPath": "/v"}}
	return tree{
		"nodeSelector":   tree{"kubernetes.io/os": "linux"},
		"tolerations":    []any{tree{"key": "x", "operator": "Exists"}},
		"initContainers": []any{tree{"name": "i", "image": "busybox:1"}},
		"volumes":        []any{tree{"name": "v", "emptyDir": tree{}}},
		"containers":     []any{container},
	}
}

func workloadOf(apiVersion, kind, name string, replicas int, pods tree) tree {
	return tree{
		"apiVersion": apiVersion, "kind": kind, "metadata": tree{"namespace": "shop", "name": name,
			"labels": tree{"app": name}},
		"spec": tree{
			"replicas": replicas, "selector": tree{"matchLabels": tree{"app": name}},
			"template": tree{"metadata": tree{"labels": tree{"app": name}}, "spec": pods},
		},
	}
}

func ownedKinds() []owned {
	workload := func(apiVersion, kind string, full bool) func(string) tree {
		return func(name string) tree { return workloadOf(apiVersion, kind, name, 2, podSpec(full)) }
	}
	data := func(kind, field string, data tree, labels tree) func(string) tree {
		return func(name string) tree {
			return labelled(tree{"apiVersion": "v1", "kind": kind, "metadata": tree{"namespace": "shop", "name": name},
				field: data}, labels)
		}
	}
	service := func(ports ...any) func(string) tree {
		return func(name string) tree {
			return tree{"apiVersion": "v1", "kind": "Service", "metadata": tree{"namespace": "shop", "name": name},
				"spec": tree{"selector": tree{"app": name}, "ports": ports, "type": "NodePort"}}
		}
	}
	http, admin := tree{"name": "http", "port": 80}, tree{"name": "admin", "port": 81, "targetPort": 8081}
	return []owned{
		{"CloneSet", workload("apps.kruise.io/v1beta1", "CloneSet", true),
			workload("apps.kruise.io/v1beta1", "CloneSet", false)},
		{"Deployment", workload("apps/v1", "Deployment", true), workload("apps/v1", "Deployment", false)},
		{"ConfigMap", data("ConfigMap", "data", tree{"a": "1", "b": "2"}, tree{"team": "x", "tier": "y"}),
			data("ConfigMap", "data", tree{"a": "1"}, tree{"team": "x"})},
		{"Secret", data("Secret", "data", tree{"a": "MQ==", "b": "Mg=="}, nil),
			data("Secret", "data", tree{"a": "MQ=="}, nil)},
		{"Service", service(http, admin), service(http)},
	}
}

// testCase1 takes objects over that other field managers made in every way, and then orders less: what the order lost
// goes.
func (b *bed) testCase1(t *testing.T) {
	mark := func(object tree) *unstructured.Unstructured {
		u := objectOf(t, object)
		labels := u.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[topology.LabelHub] = hubID
		u.SetLabels(labels)
		return u
	}
	writers := map[string]func(object tree) error{
		"posted": func(object tree) error {
			return b.member.Create(t.Context(), mark(object), client.FieldOwner("kubectl-client-side-apply"))
		},
		"applied": func(object tree) error {
			return b.member.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(mark(object)),
				client.FieldOwner("flux"))
		},
		"earlier-agent": func(object tree) error {
			return b.member.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(mark(object)),
				client.FieldOwner("flotilla-agent"))
		},
		"twice": func(object tree) error {
			if err := b.member.Create(t.Context(), mark(object), client.FieldOwner("helm")); err != nil {
				return err
			}
			return b.member.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(mark(object)),
				client.FieldOwner("argocd"), client.ForceOwnership)
		},
		"agent-posted": func(tree) error { return nil },
	}
	for _, kind := range ownedKinds() {
		for writer, write := range writers {
			t.Run(kind.kind+" "+writer, func(t *testing.T) {
				name := strings.ToLower(kind.kind) + "-" + writer
				if err := write(kind.full(name)); err != nil {
					t.Fatal(err)
				}
				w := order(t, 1, kind.full(name))
				b.create(t, b.hub, w)
				b.condition(t, w, work.ReasonApplied)
				b.same(t, kind.full(name))
				b.reorder(t, w, 2, kind.reduced(name))
				b.same(t, kind.reduced(name))
				b.condition(t, w, work.ReasonApplied)
			})
		}
	}
	t.Run("adopted", func(t *testing.T) {
		const name = "legacy"
		b.create(t, b.member, objectOf(t, workloadOf("apps.kruise.io/v1beta1", "CloneSet", name, 2, podSpec(true))))
		w := order(t, 1, workloadOf("apps.kruise.io/v1beta1", "CloneSet", name, 2, podSpec(true)))
		w.Annotations[topology.AnnotationAdopt] = "2"
		b.create(t, b.hub, w)
		b.condition(t, w, work.ReasonApplied)
		b.reorder(t, w, 2, workloadOf("apps.kruise.io/v1beta1", "CloneSet", name, 2, podSpec(false)))
		b.same(t, workloadOf("apps.kruise.io/v1beta1", "CloneSet", name, 2, podSpec(false)))
	})
	t.Run("adoption of an orphan with other content is refused", func(t *testing.T) {
		orphan := func(name, value string) *unstructured.Unstructured {
			return objectOf(t, labelled(configMap(name, value), tree{topology.LabelHub: hubID}))
		}
		adopts := func(name string) *work.Work {
			w := order(t, 1, configMap(name, "1"))
			w.Annotations[topology.AnnotationAdopt] = "0"
			b.create(t, b.hub, w)
			return w
		}
		b.create(t, b.member, orphan("orphan-otherwise", "2"))
		b.condition(t, adopts("orphan-otherwise"), work.ReasonConflict)
		b.value(t, "orphan-otherwise", "2")
		b.create(t, b.member, orphan("orphan-equal", "1"))
		w := adopts("orphan-equal")
		b.condition(t, w, work.ReasonApplied)
		b.reorder(t, w, 2, configMap("orphan-equal", "3")) // adopted once, it is like every other object
		b.value(t, "orphan-equal", "3")

		set := workloadOf("apps.kruise.io/v1beta1", "CloneSet", "orphan-set", 0, podSpec(false))
		b.create(t, b.member, objectOf(t, labelled(set, tree{topology.LabelHub: hubID})))
		w = order(t, 1, workloadOf("apps.kruise.io/v1beta1", "CloneSet", "orphan-set", 1, podSpec(false)))
		w.Annotations[topology.AnnotationAdopt] = "1"
		b.create(t, b.hub, w)
		b.condition(t, w, work.ReasonAdopting)
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"0"}}}`,
			topology.AnnotationAdopt))
		if err := b.hub.Patch(t.Context(), w, patch); err != nil {
			t.Fatal(err)
		}
		b.condition(t, w, work.ReasonApplied)
	})
	t.Run("adoption of other content is refused", func(t *testing.T) {
		for name, data := range map[string]map[string]string{"more": {"key": "1", "other": "2"}, "less": {},
			"otherwise": {"key": "2"}} {
			b.create(t, b.member, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Data: data})
			w := order(t, 1, configMap(name, "1"))
			w.Annotations[topology.AnnotationAdopt] = "0"
			b.create(t, b.hub, w)
			b.condition(t, w, work.ReasonConflict)
		}
		b.create(t, b.member, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "equal"},
			Data: map[string]string{"key": "1"}})
		w := order(t, 1, configMap("equal", "1"))
		w.Annotations[topology.AnnotationAdopt] = "0"
		b.create(t, b.hub, w)
		b.condition(t, w, work.ReasonApplied)
	})
}

// same waits until the member's object has the content of the order and nothing else, and the labels that the order has
// of its two.
func (b *bed) same(t *testing.T, want tree) {
	t.Helper()
	desired := objectOf(t, want)
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(desired.GroupVersionKind())
	eventually(t, desired.GetKind()+" "+desired.GetName()+" is as ordered", func(ctx context.Context) string {
		if err := b.member.Get(ctx, client.ObjectKeyFromObject(desired), live); err != nil {
			return err.Error()
		}
		for _, key := range []string{"team", "tier"} {
			if live.GetLabels()[key] != desired.GetLabels()[key] {
				return fmt.Sprintf("labels %v", live.GetLabels())
			}
		}
		changes, err := ownership.Changes(desired, live, desired)
		if err != nil {
			return err.Error()
		}
		return ownership.Sentence(changes)
	})
}

// testCase2 lets others write into what belongs to the hub: it is put right, no pod is replaced for it, and what
// belongs to others stays.
func (b *bed) testCase2(t *testing.T) {
	const name = "hardened"
	set := workloadOf("apps.kruise.io/v1beta1", "CloneSet", name, 2, podSpec(false))
	w := order(t, 1, set)
	b.create(t, b.hub, w)
	b.uses(t, w, 1, use("", 2))
	before := b.podUIDs(t, name)
	patch := `{"metadata": {"labels": {"theirs": "stays"}}, "spec": {"minReadySeconds": 1, "template": {"spec": {
		"hostPID": true, "initContainers": [{"name": "evil", "image": "evil:1"}]}}}}`
	live := objectOf(t, set)
	if err := b.member.Patch(t.Context(), live, client.RawPatch(types.MergePatchType, []byte(patch)),
		client.FieldOwner("someone")); err != nil {
		t.Fatal(err)
	}
	b.same(t, set)
	// The controller has acted on what stands now: one pod more, and the two of before.
	b.reorder(t, w, 2, workloadOf("apps.kruise.io/v1beta1", "CloneSet", name, 3, podSpec(false)))
	b.uses(t, w, 2, use("", 3))
	after := b.podUIDs(t, name)
	for _, uid := range before {
		if !slices.Contains(after, uid) {
			t.Errorf("pod %s was replaced for a change that was not ordered", uid)
		}
	}
	if err := b.member.Get(t.Context(), client.ObjectKeyFromObject(live), live); err != nil {
		t.Fatal(err)
	}
	if live.GetLabels()["theirs"] != "stays" {
		t.Errorf("labels %v: those of others stay", live.GetLabels())
	}

	for _, kind := range ownedKinds() {
		t.Run(kind.kind, func(t *testing.T) {
			name := "added-to-" + strings.ToLower(kind.kind)
			w := order(t, 1, kind.reduced(name))
			b.create(t, b.hub, w)
			b.same(t, kind.reduced(name))
			more := objectOf(t, kind.full(name))
			more.SetLabels(nil)
			data, err := json.Marshal(more)
			if err != nil {
				t.Fatal(err)
			}
			if err := b.member.Patch(t.Context(), objectOf(t, kind.full(name)), client.RawPatch(types.MergePatchType, data),
				client.FieldOwner("someone")); err != nil {
				t.Fatal(err)
			}
			b.same(t, kind.reduced(name))
		})
	}
}

func (b *bed) podUIDs(t *testing.T, app string) []types.UID {
	t.Helper()
	pods := &corev1.PodList{}
	if err := b.member.List(t.Context(), pods, client.InNamespace("shop"), client.MatchingLabels{"app": app}); err != nil {
		t.Fatal(err)
	}
	var uids []types.UID
	for i := range pods.Items {
		if pods.Items[i].DeletionTimestamp == nil {
			uids = append(uids, pods.Items[i].UID)
		}
	}
	return uids
}

// testCase2Admission has an admission of the member that changes objects on each write, and one that refuses
// corrections.
func (b *bed) testCase2Admission(t *testing.T) {
	b.stamp(t, "apps.kruise.io", "clonesets", `[
		JSONPatch{op: "add", path: "/spec/template/metadata/annotations",
			value: {"stamp": string(object.metadata.?generation.orValue(0))}},
		JSONPatch{op: "replace", path: "/spec/template/spec/containers/0/image", value: "mirror.example/nginx:1.27"}]`)
	b.stamp(t, "", "configmaps", `[JSONPatch{op: "add", path: "/data/stamp", value: "theirs"}]`)
	probe := workloadOf("apps.kruise.io/v1beta1", "CloneSet", "stamped", 1, podSpec(false))
	stamps := [][]string{{"spec", "template", "metadata", "annotations", "stamp"}, {"data", "stamp"}}
	for i, object := range []tree{probe, configMap("stamped-config", "1")} {
		eventually(t, "the policy is in force", func(ctx context.Context) string {
			u := objectOf(t, object)
			if err := b.member.Create(ctx, u, client.DryRunAll); err != nil {
				return err.Error()
			}
			_, found, _ := unstructured.NestedString(u.Object, stamps[i]...)
			return missing(found, u.Object)
		})
	}
	w := order(t, 1, probe)
	b.create(t, b.hub, w)
	got := b.condition(t, w, work.ReasonApplied)
	message := meta.FindStatusCondition(got.Status.Conditions, work.ConditionApplied).Message
	for _, part := range []string{"spec.template.spec.containers[c].image", "mirror.example/nginx:1.27",
		"(ordered: \"nginx:1.27\")", "spec.template.metadata.annotations.stamp"} {
		if !strings.Contains(message, part) {
			t.Errorf("message %q does not name %s", message, part)
		}
	}
	b.uses(t, w, 1, use("", 1))
	settings := order(t, 1, configMap("stamped-config", "1"))
	b.create(t, b.hub, settings)
	b.condition(t, settings, work.ReasonApplied)
	labels := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"theirs":"1"}}}`))
	if err := b.member.Patch(t.Context(), objectOf(t, configMap("stamped-config", "1")), labels,
		client.FieldOwner("someone")); err != nil {
		t.Fatal(err)
	}

	b.admit(t, &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "keep"},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: rules("", "configmaps"), FailurePolicy: new(admissionv1.Fail),
			MatchConditions: []admissionv1.MatchCondition{{Name: "kept",
				Expression: `object.metadata.name == "kept" && oldObject != null`}},
			Validations: []admissionv1.Validation{{Expression: `!("theirs" in oldObject.data) || "theirs" in object.data`,
				Message: "theirs stays"}},
		},
	}, &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "keep"},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "keep",
			ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
	})
	eventually(t, "the policy is in force", func(ctx context.Context) string {
		u := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kept"},
			Data: map[string]string{"theirs": "1"}}
		_ = b.member.Create(ctx, u) // it may be there
		u.Data = nil
		return missing(b.member.Update(ctx, u, client.DryRunAll) != nil, "not yet")
	})
	kept := order(t, 1, configMap("kept", "ordered"))
	b.create(t, b.hub, kept)
	b.value(t, "kept", "ordered")
	u := objectOf(t, configMap("kept", "ordered"))
	if err := b.member.Patch(t.Context(), u, client.RawPatch(types.MergePatchType, []byte(`{"data": {"theirs": "1"}}`)),
		client.FieldOwner("operator-x")); err != nil {
		t.Fatal(err)
	}
	got = b.condition(t, kept, work.ReasonOverwritten)
	message = meta.FindStatusCondition(got.Status.Conditions, work.ConditionApplied).Message
	for _, part := range []string{"data.theirs", `"1"`, "operator-x", "theirs stays"} {
		if !strings.Contains(message, part) {
			t.Errorf("message %q does not name %s", message, part)
		}
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "keep"}}
	if err := b.member.Delete(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	b.condition(t, kept, work.ReasonApplied)
	b.same(t, configMap("kept", "ordered"))

	writes, err := audit.ReadFile(b.fleet.Member(cluster).AuditLog(), audit.Writes(), audit.ByPrograms("flotilla-agent"),
		func(e *audit.Event) bool {
			return (e.Name == "stamped" || e.Name == "stamped-config") && e.Subresource == ""
		})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range writes {
		if e.Verb != "create" {
			t.Errorf("the agent wrote %s again (%s), which was accepted", e.Resource, e.Verb)
		}
	}
}

// stamp adds a policy to the member's admission that changes the objects "stamped" and "stamped-config" of a resource
// on each write.
func (b *bed) stamp(t *testing.T, group, resource, expression string) {
	t.Helper()
	name := "stamp-" + resource
	mutation := admissionv1.Mutation{PatchType: admissionv1.PatchTypeJSONPatch,
		JSONPatch: &admissionv1.JSONPatch{Expression: expression}}
	b.admit(t, &admissionv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.MutatingAdmissionPolicySpec{
			MatchConstraints: rules(group, resource), FailurePolicy: new(admissionv1.Fail),
			MatchConditions: []admissionv1.MatchCondition{{Name: "stamped",
				Expression: `object.metadata.name in ["stamped", "stamped-config"]`}},
			ReinvocationPolicy: admissionv1.NeverReinvocationPolicy, Mutations: []admissionv1.Mutation{mutation},
		},
	}, &admissionv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name},
	})
}

func (b *bed) admit(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		b.create(t, b.member, object)
	}
}

func rules(group, resource string) *admissionv1.MatchResources {
	rule := admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
		Rule:       admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{resource}},
	}
	return &admissionv1.MatchResources{
		ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: rule}},
	}
}

// testCase5 orders objects with lists in which a key stands twice.
func (b *bed) testCase5(t *testing.T) {
	pods := func(last string) tree {
		return tree{"containers": []any{tree{
			"name": "c", "image": "nginx:1.27",
			"env":   []any{tree{"name": "OPTS", "value": "-a"}, tree{"name": "OPTS", "value": "$(OPTS) " + last}},
			"ports": []any{tree{"containerPort": 8080, "hostPort": 18180}, tree{"containerPort": 8080, "hostPort": 18181}},
		}}}
	}
	for _, kind := range []struct{ apiVersion, name string }{{"apps/v1", "Deployment"},
		{"apps.kruise.io/v1beta1", "CloneSet"}} {
		t.Run(kind.name, func(t *testing.T) {
			name := "dup-" + strings.ToLower(kind.name)
			w := order(t, 1, workloadOf(kind.apiVersion, kind.name, name, 1, pods("-b")))
			b.create(t, b.hub, w)
			b.condition(t, w, work.ReasonApplied)
			b.same(t, workloadOf(kind.apiVersion, kind.name, name, 1, pods("-b")))
			b.reorder(t, w, 2, workloadOf(kind.apiVersion, kind.name, name, 1, pods("-c")))
			b.same(t, workloadOf(kind.apiVersion, kind.name, name, 1, pods("-c")))
			b.condition(t, w, work.ReasonApplied)
		})
	}
	dns := tree{
		"apiVersion": "v1", "kind": "Service", "metadata": tree{"namespace": "shop", "name": "dns"},
		"spec": tree{"selector": tree{"app": "dup"}, "ports": []any{
			tree{"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 53},
			tree{"name": "dns-tcp", "port": 53, "protocol": "TCP", "targetPort": 53},
		}},
	}
	b.create(t, b.hub, order(t, 1, dns))
	b.same(t, dns)
}

// testCase15 scales the hub's object in the member again and again. The agent names the writer, counts the corrections,
// and pauses before the fourth one.
func (b *bed) testCase15(t *testing.T) {
	const name = "contested"
	before := corrections(t, "Deployment")
	w := order(t, 1, deployment(name, 1))
	b.create(t, b.hub, w)
	b.condition(t, w, work.ReasonApplied)
	live := objectOf(t, deployment(name, 1))
	scale := func(replicas int) {
		t.Helper()
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
		if err := b.member.SubResource("scale").Patch(t.Context(), live, patch,
			client.FieldOwner("some-autoscaler")); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		scale(4 + i)
		b.same(t, deployment(name, 1))
	}
	got := b.condition(t, w, work.ReasonOverwritten)
	message := meta.FindStatusCondition(got.Status.Conditions, work.ConditionApplied).Message
	for _, part := range []string{"Deployment shop/" + name, "spec.replicas is 6 (ordered: 1)",
		"some-autoscaler (scale)"} {
		if !strings.Contains(message, part) {
			t.Errorf("message %q does not name %s", message, part)
		}
	}
	eventually(t, "an Event names the writer", func(ctx context.Context) string {
		events := &corev1.EventList{}
		if err := b.member.List(ctx, events, client.InNamespace("shop")); err != nil {
			return err.Error()
		}
		for i := range events.Items {
			if e := &events.Items[i]; e.Reason == "Overwritten" && e.InvolvedObject.Name == name &&
				strings.Contains(e.Message, "some-autoscaler") {
				return ""
			}
		}
		return fmt.Sprintf("%d others", len(events.Items))
	})
	scale(9)
	b.same(t, deployment(name, 1))
	eventually(t, "the fourth correction comes after a pause", func(context.Context) string {
		patches, err := audit.ReadFile(b.fleet.Member(cluster).AuditLog(), audit.Writes(),
			audit.ByPrograms("flotilla-agent"), func(e *audit.Event) bool {
				return e.Resource == "deployments" && e.Name == name && e.Verb == "patch"
			})
		if err != nil {
			return err.Error()
		}
		if len(patches) != 4 {
			return fmt.Sprintf("%d patches", len(patches))
		}
		if pause := patches[3].Received.Sub(patches[2].Answered); pause < 5*time.Second {
			t.Errorf("the fourth correction comes %s after the third one", pause)
		}
		return ""
	})
	if n := corrections(t, "Deployment") - before; n < 4 {
		t.Errorf("the metric counts %g corrections", n)
	}
}

// corrections returns the value of the agent's metric for a kind.
func corrections(t *testing.T, kind string) float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "flotilla_corrections_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			if metric.GetLabel()[0].GetValue() == kind {
				return metric.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// testStale writes orders from objects that were seen before another writer changed them, with the member's API server.
func (b *bed) testStale(t *testing.T) {
	send := func(seen, desired *unstructured.Unstructured, before ...tree) error {
		previous := ownership.Previous{}
		for _, object := range before {
			previous = ownership.PreviousOf(objectOf(t, object))
		}
		patch, err := ownership.Replace(seen, desired, previous)
		if err != nil {
			t.Fatal(err)
		}
		return b.member.Patch(t.Context(), desired.DeepCopy(), client.RawPatch(types.JSONPatchType, patch))
	}
	change := func(object *unstructured.Unstructured, patch string) {
		t.Helper()
		if err := b.member.Patch(t.Context(), object.DeepCopy(),
			client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			t.Fatal(err)
		}
	}

	settings := labelled(configMap("stale", "1"), tree{"team": "x"})
	seen := objectOf(t, settings)
	b.create(t, b.member, seen)
	change(seen, `{"metadata":{"labels":{"tier":"y"}},"binaryData":{"b":"MQ=="},"immutable":false}`)
	if err := send(seen, objectOf(t, settings), labelled(configMap("stale", "1"),
		tree{"team": "x", "tier": "y"})); err != nil {
		t.Fatal(err)
	}
	b.same(t, settings)

	scaled := objectOf(t, deployment("stale", 3))
	b.create(t, b.member, scaled)
	change(scaled, `{"spec":{"replicas":7}}`)
	ordered := objectOf(t, deployment("stale", 3))
	unstructured.RemoveNestedField(ordered.Object, "spec", "replicas")
	if err := send(scaled, ordered); !apierrors.IsInvalid(err) {
		t.Errorf("error %v: what an autoscaler wrote is not taken back", err)
	}
	if err := b.member.Get(t.Context(), client.ObjectKeyFromObject(scaled), scaled); err != nil {
		t.Fatal(err)
	}
	if err := send(scaled, ordered); err != nil {
		t.Error(err)
	}
	b.same(t, deployment("stale", 7))
}

// testImmutable orders objects of which an admission of the member changed what nobody can change any more.
func (b *bed) testImmutable(t *testing.T) {
	job := func(parallelism int, pods tree) tree {
		pods["containers"], pods["restartPolicy"] = []any{tree{"name": "c", "image": "perl:5"}}, "Never"
		return tree{
			"apiVersion": "batch/v1", "kind": "Job", "metadata": tree{"namespace": "shop", "name": "queued"},
			"spec": tree{"parallelism": parallelism, "completions": 3, "template": tree{"spec": pods}},
		}
	}
	service := func(port int, class tree) tree {
		class["type"], class["ports"] = "LoadBalancer", []any{tree{"port": port}}
		return tree{"apiVersion": "v1", "kind": "Service", "metadata": tree{"namespace": "shop", "name": "classed"},
			"spec": class}
	}
	for _, tc := range []struct {
		admitted, before, now tree
		path                  []string
	}{
		{job(1, tree{"nodeSelector": tree{"pool": "batch"}}), job(1, tree{}), job(2, tree{}),
			[]string{"spec", "template", "spec", "nodeSelector"}},
		{service(80, tree{"loadBalancerClass": "cloud/nlb"}), service(80, tree{}), service(81, tree{}),
			[]string{"spec", "loadBalancerClass"}},
	} {
		live, desired := objectOf(t, tc.admitted), objectOf(t, tc.now)
		b.create(t, b.member, live)
		patch, err := ownership.Replace(live, desired, ownership.PreviousOf(objectOf(t, tc.before)))
		if err != nil {
			t.Fatal(err)
		}
		if err := b.member.Patch(t.Context(), live, client.RawPatch(types.JSONPatchType, patch)); err != nil {
			t.Fatal(err)
		}
		if _, kept, err := unstructured.NestedFieldNoCopy(live.Object, tc.path...); !kept || err != nil {
			t.Errorf("%s lost %s (%v)", live.GetKind(), strings.Join(tc.path, "."), err)
		}
		if changes, err := ownership.Changes(desired, live, desired); err != nil || len(changes) > 1 {
			t.Errorf("%s is not as ordered: %s (%v)", live.GetKind(), ownership.Sentence(changes), err)
		}
	}
}

// testDefaults asks the member's API server what it fills into objects of every kind that an order can have: none of
// that is named as changed.
func (b *bed) testDefaults(t *testing.T) {
	pods := tree{"containers": []any{tree{
		"name": "c", "image": "nginx", "ports": []any{tree{"containerPort": 80}},
		"env":            []any{tree{"name": "IP", "valueFrom": tree{"fieldRef": tree{"fieldPath": "status.podIP"}}}},
		"livenessProbe":  tree{"httpGet": tree{"port": 80}},
		"readinessProbe": tree{"grpc": tree{"port": 81}},
		"startupProbe":   tree{"tcpSocket": tree{"port": 80}},
		"lifecycle":      tree{"preStop": tree{"httpGet": tree{"port": 80}}},
	}}, "volumes": []any{tree{"name": "s", "secret": tree{"secretName": "x"}},
		tree{"name": "h", "hostPath": tree{"path": "/x"}}}, "serviceAccountName": "x"}
	job := tree{"template": tree{"spec": tree{"restartPolicy": "Never",
		"containers": []any{tree{"name": "c", "image": "perl:5"}}}}}
	set := workloadOf("apps/v1", "StatefulSet", "defaults", 2, pods)
	spec, _ := set["spec"].(tree)
	spec["serviceName"] = "x"
	spec["volumeClaimTemplates"] = []any{tree{"metadata": tree{"name": "d"}, "spec": tree{
		"accessModes": []any{"ReadWriteOnce"}, "resources": tree{"requests": tree{"storage": "1024Mi"}},
	}}}
	daemons := workloadOf("apps/v1", "DaemonSet", "defaults", 2, pods)
	delete(daemons["spec"].(tree), "replicas")
	named := tree{"namespace": "shop", "name": "defaults"}
	for _, object := range []tree{
		workloadOf("apps/v1", "Deployment", "defaults", 2, pods), workloadOf("apps/v1", "ReplicaSet", "defaults", 2, pods),
		set, daemons,
		workloadOf("apps.kruise.io/v1beta1", "CloneSet", "defaults", 2, pods),
		{"apiVersion": "batch/v1", "kind": "Job", "metadata": named, "spec": job},
		{"apiVersion": "batch/v1", "kind": "CronJob", "metadata": named,
			"spec": tree{"schedule": "@daily", "jobTemplate": tree{"spec": job}}},
		{"apiVersion": "v1", "kind": "ConfigMap", "metadata": named, "data": tree{"a": "b"}},
		{"apiVersion": "v1", "kind": "Secret", "metadata": named, "data": tree{"a": "MQ=="}},
		{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": named},
		{"apiVersion": "v1", "kind": "Service", "metadata": named,
			"spec": tree{"selector": tree{"a": "b"}, "ports": []any{tree{"port": 80}}}},
		{"apiVersion": "v1", "kind": "Service", "metadata": named, "spec": tree{
			"type": "LoadBalancer", "sessionAffinity": "ClientIP", "selector": tree{"a": "b"}, "ports": []any{tree{"port": 80}},
		}},
	} {
		desired := objectOf(t, object)
		stored := desired.DeepCopy()
		if err := b.member.Create(t.Context(), stored, client.DryRunAll); err != nil {
			t.Fatal(err)
		}
		changes, err := ownership.Changes(desired, stored, desired)
		if err != nil {
			t.Fatal(err)
		}
		if said := ownership.Sentence(changes); said != "" {
			t.Errorf("%s: %s", desired.GetKind(), said)
		}
	}
}
