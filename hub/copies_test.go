package hub_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

func copyEntry(kind string) topology.WorkloadSelector {
	return topology.WorkloadSelector{APIVersion: "v1", Kind: kind}
}

// works returns the manifests of an object's Works by member.
func (f *fleet) works(kind, name string) map[string]map[string]any {
	f.t.Helper()
	out := map[string]map[string]any{}
	for _, member := range slices.Sorted(maps.Keys(f.agents)) {
		w := &work.Work{}
		err := f.client.Get(f.ctx, keyOf(kind, f.namespace, name).Work(member), w)
		if apierrors.IsNotFound(err) {
			continue
		}
		must(f.t, err)
		var manifest map[string]any
		must(f.t, json.Unmarshal(w.Spec.Workload.Manifests[0].Raw, &manifest))
		out[member] = manifest
	}
	return out
}

// in waits until the object has Works for exactly these members, and returns their manifests.
func (f *fleet) in(kind, name, members string) map[string]map[string]any {
	f.t.Helper()
	var have map[string]map[string]any
	f.eventually(fmt.Sprintf("%s %s in %q", kind, name, members), func() error {
		have = f.works(kind, name)
		if got := strings.Join(slices.Sorted(maps.Keys(have)), " "); got != members {
			return fmt.Errorf("it is in %q", got)
		}
		return nil
	})
	return have
}

func (f *fleet) configMap(name, value string) *corev1.ConfigMap {
	f.t.Helper()
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name},
		Data: map[string]string{"key": value}}
	must(f.t, f.client.Create(f.ctx, m))
	return m
}

func (f *fleet) patchObject(o client.Object, patch string) {
	f.t.Helper()
	must(f.t, f.client.Patch(f.ctx, o, client.RawPatch("application/merge-patch+json", []byte(patch))))
}

func TestCopies(t *testing.T) {
	t.Parallel() // most of its time is waiting
	f := newFleet(t, threeMembers)
	p := f.policy("all", func(s *topology.FederationPolicySpec) {
		s.Workloads = []topology.WorkloadSelector{copyEntry("ConfigMap"), copyEntry("Service")}
	})
	long := strings.Repeat("long-", 50) + "er" // 252 characters, and "configmap-" before it
	f.configMap(long, "one")
	settings := f.configMap("settings", "one")
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "web", Annotations: map[string]string{"team": "shop"}},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Selector: map[string]string{"app": "web"},
			Ports: []corev1.ServicePort{{Port: 80}}},
	}
	must(t, f.client.Create(f.ctx, service))
	for member, manifest := range f.in("Service", "web", "east south west") {
		text := fmt.Sprint(manifest)
		for _, own := range []string{"clusterIP", "nodePort", "ipFamilies", "status", "uid", "topology.flotilla.dev"} {
			if strings.Contains(text, own) {
				t.Errorf("the Service of %s has %s, which is a cluster's own: %s", member, own, text)
			}
		}
		if !strings.Contains(text, "team:shop") || !strings.Contains(text, "NodePort") {
			t.Errorf("the Service of %s lacks what the user wrote: %s", member, text)
		}
	}
	f.in("ConfigMap", "settings", "east south west")
	f.in("ConfigMap", long, "east south west")
	placement, err := f.placement("ConfigMap", "settings")
	must(t, err)
	if placement.Spec.Clusters != "east south west" || placement.Spec.Cells[0].Reason.Code != "Copy" {
		t.Errorf("placement %+v", placement.Spec)
	}
	if _, err := f.placement("ConfigMap", "kube-root-ca.crt"); !apierrors.IsNotFound(err) {
		t.Errorf("the ConfigMap that every cluster makes itself is placed: %v", err)
	}

	// What it holds changes: one write for each member, and no new order.
	f.rest()
	f.patchObject(settings, `{"data":{"key":"two"}}`)
	f.eventually("the change is in every Work", func() error {
		for member, manifest := range f.works("ConfigMap", "settings") {
			if text := fmt.Sprint(manifest["data"]); text != "map[key:two]" {
				return fmt.Errorf("%s has %s", member, text)
			}
		}
		return nil
	})
	wrote, _ := f.about(f.quiet())
	wrote = slices.DeleteFunc(wrote, func(w string) bool { return !strings.Contains(w, "/works") })
	if len(wrote) != 3 {
		t.Errorf("the hub wrote %v", wrote)
	}
	f.stopHub()
	f.startHub()
	f.writes.take()
	if wrote, _ := f.about(f.quiet()); len(wrote) > 0 {
		t.Errorf("a restarted hub wrote %v", wrote)
	}

	base := p.DeepCopy()
	p.Spec.Clusters.Names = []string{"east", "south"}
	must(t, f.client.Patch(f.ctx, p, client.MergeFrom(base)))
	f.in("ConfigMap", "settings", "east south")

	// A placement that somebody deletes by hand touches nothing; deleting the object removes it everywhere.
	before := &work.Work{}
	must(t, f.client.Get(f.ctx, wire.Key{Kind: "ConfigMap", Namespace: f.namespace, Name: "settings"}.Work("east"),
		before))
	must(t, f.client.Delete(f.ctx, placement))
	f.eventually("a new placement", func() error {
		again, err := f.placement("ConfigMap", "settings")
		if err == nil && again.UID == placement.UID {
			err = fmt.Errorf("still the old one")
		}
		return err
	})
	f.quiet()
	after := &work.Work{}
	must(t, f.client.Get(f.ctx, client.ObjectKeyFromObject(before), after))
	if after.UID != before.UID {
		t.Error("the Work was replaced")
	}
	f.patchObject(service, `{"metadata":{"annotations":{"topology.flotilla.dev/withdraw":"true"}}}`)
	f.in("Service", "web", "")
	must(t, f.client.Delete(f.ctx, settings))
	f.in("ConfigMap", "settings", "")
	f.eventually("the placement is gone", func() error {
		if _, err := f.placement("ConfigMap", "settings"); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there (%w)", err)
		}
		return nil
	})
}

func TestSecretsStayWithoutOptIn(t *testing.T) {
	t.Parallel() // most of its time is waiting
	f := newFleet(t, threeMembers)
	p := f.policy("all", func(s *topology.FederationPolicySpec) {
		s.Workloads = []topology.WorkloadSelector{copyEntry("Secret"), {Kind: "CloneSet"}}
	})
	f.eventually("the policy tells", func() error {
		return f.policyIs("all", "SecretsNotCarried", "spec.dependencies.secrets: Carry")
	})
	token := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "token",
		Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}}, Type: corev1.SecretTypeServiceAccountToken}
	must(t, f.client.Create(f.ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace,
		Name: "default"}}))
	must(t, f.client.Create(f.ctx, token))
	for _, name := range []string{"registry", "tls"} {
		must(t, f.client.Create(f.ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name},
			StringData: map[string]string{"a": "b"}}))
	}
	cs := f.cloneSet("web", 3)
	f.patchObject(cs, `{"spec":{"template":{"spec":{"imagePullSecrets":[{"name":"registry"}]}}}}`)
	f.cloneSetIs("web", "the workload tells of the Secret", func(cs *apps.CloneSet) bool {
		return ready(cs) && conditionIs(cs, "Federated", corev1.ConditionTrue, "SecretsNotCarried", "names Secret registry")
	})
	f.in("Secret", "registry", "")
	base := p.DeepCopy()
	p.Spec.Dependencies.Secrets = topology.SecretsCarry
	must(t, f.client.Patch(f.ctx, p, client.MergeFrom(base)))
	f.in("Secret", "registry", "east south west")
	f.in("Secret", "tls", "east south west")
	f.cloneSetIs("web", "nothing to tell", func(cs *apps.CloneSet) bool {
		return ready(cs) && conditionIs(cs, "Federated", corev1.ConditionTrue, "Placed", "")
	})

	// The token of a ServiceAccount is of use in no other cluster: it never goes, selected or named.
	f.patchObject(cs, `{"spec":{"template":{"spec":{"imagePullSecrets":[{"name":"registry"},{"name":"token"}]}}}}`)
	f.cloneSetIs("web", "the workload tells of the token", func(cs *apps.CloneSet) bool {
		return ready(cs) && conditionIs(cs, "Federated", corev1.ConditionTrue, "SecretsNotCarried",
			"Secret token, the token of a ServiceAccount")
	})
	f.quiet()
	f.in("Secret", "token", "")
	f.in("Secret", "registry", "east south west")
}

// needs makes a template name a ConfigMap, a claim and a ServiceAccount.
const needs = `{"spec":{"template":{"spec":{"serviceAccountName":"runner","volumes":[
	{"name":"settings","configMap":{"name":"settings"}},{"name":"data","persistentVolumeClaim":{"claimName":"data"}}]}}}}`

func TestDependencies(t *testing.T) {
	t.Parallel() // most of its time is waiting
	f := newFleet(t, threeMembers)
	f.policy("all", func(s *topology.FederationPolicySpec) {
		s.Dependencies.Extra = []topology.DependencyReference{{Kind: "Service", Name: "web"}}
	})
	f.configMap("settings", "one")
	must(t, f.client.Create(f.ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace,
		Name: "runner"}}))
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeName: "of-the-hub",
		}}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	must(t, f.client.Create(f.ctx, claim))
	one, two := f.cloneSet("one", 6), f.cloneSet("two", 1)
	f.patchObject(one, needs)
	f.patchObject(two, needs)

	f.in("ConfigMap", "settings", "east south west")
	f.in("ServiceAccount", "runner", "east south west")
	for member, manifest := range f.in("PersistentVolumeClaim", "data", "east south west") {
		if strings.Contains(fmt.Sprint(manifest), "of-the-hub") {
			t.Errorf("the claim of %s names the hub's volume", member)
		}
		w := &work.Work{}
		must(t, f.client.Get(f.ctx, wire.Key{Kind: "PersistentVolumeClaim", Namespace: f.namespace,
			Name: "data"}.Work(member), w))
		if w.Spec.PreserveResourcesOnDeletion == nil || !*w.Spec.PreserveResourcesOnDeletion {
			t.Error("the claim would be deleted with the workload")
		}
	}
	cs := f.cloneSetIs("one", "what is missing is told, and the workload placed all the same",
		func(cs *apps.CloneSet) bool {
			return ready(cs) && conditionIs(cs, "Federated", corev1.ConditionTrue, "DependencyMissing",
				"Service web does not exist")
		})
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "web"},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	must(t, f.client.Create(f.ctx, service))
	f.in("Service", "web", "east south west")
	f.cloneSetIs("one", "nothing is missing", func(cs *apps.CloneSet) bool {
		return ready(cs) && conditionIs(cs, "Federated", corev1.ConditionTrue, "Placed", "")
	})
	f.eventually("the workload's Work names what it waits for", func() error {
		w := &work.Work{}
		if err := f.client.Get(f.ctx, wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: f.namespace,
			Name: "one"}.Work("east"), w); err != nil {
			return err
		}
		want := fmt.Sprintf("%[1]s.settings.configmap,%[1]s.data.persistentvolumeclaim,%[1]s.web.service,%[1]s.runner.serviceaccount", f.namespace)
		if got := w.Annotations[topology.AnnotationDependsOn]; got != want {
			return fmt.Errorf("it names %q, want %q", got, want)
		}
		return nil
	})

	f.rest()
	f.stopHub()
	f.startHub()
	f.writes.take()
	if wrote, _ := f.about(f.quiet()); len(wrote) > 0 {
		t.Errorf("a restarted hub wrote %v", wrote)
	}

	// One of two workloads goes: only where the other one is the objects stay.
	p, err := f.placement("CloneSet", "two")
	must(t, err)
	stays := ""
	for cluster, n := range cellsOf(p) {
		if n > 0 {
			stays = cluster
		}
	}
	must(t, f.client.Delete(f.ctx, cs))
	f.in("ConfigMap", "settings", stays)
	f.in("PersistentVolumeClaim", "data", stays)
	must(t, f.client.Delete(f.ctx, two))
	f.in("ConfigMap", "settings", "")
	f.in("ServiceAccount", "runner", "")
}

// TestOrphansKeepWhatTheyNeed orphans a workload, and an object that is placed for itself: what nobody else has stays
// in the members, what others need too stays the hub's, and what is placed again is the hub's again.
func TestOrphansKeepWhatTheyNeed(t *testing.T) {
	t.Parallel() // most of its time is waiting
	f := newFleet(t, map[string][]string{"east": {"a"}, "west": {"a"}})
	f.policy("all")
	f.policy("copies", func(s *topology.FederationPolicySpec) {
		s.Workloads = []topology.WorkloadSelector{{APIVersion: "v1", Kind: "ConfigMap", Name: "placed"}}
	})
	for _, name := range []string{"alone", "shared", "placed"} {
		f.configMap(name, "one")
	}
	uses := func(names ...string) string {
		var volumes []string
		for _, name := range names {
			volumes = append(volumes, fmt.Sprintf(`{"name":%[1]q,"configMap":{"name":%[1]q}}`, name))
		}
		return `{"spec":{"template":{"spec":{"volumes":[` + strings.Join(volumes, ",") + `]}}}}`
	}
	one, two := f.cloneSet("one", 2), f.cloneSet("two", 2)
	f.patchObject(one, uses("alone", "shared", "placed"))
	f.patchObject(two, uses("shared"))
	for _, name := range []string{"alone", "shared", "placed"} {
		f.in("ConfigMap", name, "east west")
	}
	f.cloneSetIs("one", "Ready", ready)
	f.cloneSetIs("two", "Ready", ready)
	f.quiet()
	stays := func(name string) map[string]bool {
		out := map[string]bool{}
		for _, member := range []string{"east", "west"} {
			w := &work.Work{}
			must(t, f.client.Get(f.ctx, wire.Key{Kind: "ConfigMap", Namespace: f.namespace, Name: name}.Work(member), w))
			if w.DeletionTimestamp == nil {
				out[member] = w.Spec.PreserveResourcesOnDeletion != nil && *w.Spec.PreserveResourcesOnDeletion
			}
		}
		return out
	}
	are := func(what, name string, preserved bool) {
		t.Helper()
		f.eventually(what, func() error {
			if have := stays(name); have["east"] != preserved || have["west"] != preserved || len(have) != 2 {
				return fmt.Errorf("preserved %v", have)
			}
			return nil
		})
	}
	for _, a := range f.agents {
		a.hush(true)
	}
	f.patchObject(one, `{"metadata":{"annotations":{"topology.flotilla.dev/withdraw":"orphan"}}}`)
	are("what it alone needs is to stay", "alone", true)
	f.quiet()
	are("and goes on being so", "alone", true)
	are("what another one needs is the hub's", "shared", false)
	are("what is placed for itself is the hub's", "placed", false)

	f.patchObject(one, `{"metadata":{"annotations":{"topology.flotilla.dev/withdraw":null}}}`)
	are("placed again, it goes with the workload", "alone", false)
	for _, a := range f.agents {
		a.hush(false)
	}
	f.cloneSetIs("one", "Ready again", ready)
	f.quiet()
	are("still", "alone", false)

	// An object that is placed for itself.
	for _, a := range f.agents {
		a.hush(true)
	}
	f.patchObject(one, uses("alone")) // a list of volumes is replaced whole
	f.eventually("no Work names it", func() error {
		p, err := f.placement("CloneSet", "one")
		if err == nil && len(p.Spec.Dependencies) != 1 {
			err = fmt.Errorf("it goes with %v", p.Spec.Dependencies)
		}
		return err
	})
	for _, a := range f.agents {
		a.hush(false)
	}
	f.cloneSetIs("one", "Ready with less", ready)
	f.quiet()
	for _, a := range f.agents {
		a.hush(true)
	}
	placed := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "placed"}}
	f.patchObject(placed, `{"metadata":{"annotations":{"topology.flotilla.dev/withdraw":"orphan"}}}`)
	f.eventually("its Works go, and the objects stay", func() error {
		for _, member := range []string{"east", "west"} {
			w := &work.Work{}
			if err := f.client.Get(f.ctx, wire.Key{Kind: "ConfigMap", Namespace: f.namespace, Name: "placed"}.Work(member),
				w); err != nil {
				return err
			}
			if w.DeletionTimestamp == nil || w.Spec.PreserveResourcesOnDeletion == nil || !*w.Spec.PreserveResourcesOnDeletion {
				return fmt.Errorf("%s: deleted at %v, preserve %v", member, w.DeletionTimestamp, w.Spec.PreserveResourcesOnDeletion)
			}
		}
		return nil
	})
	for _, a := range f.agents {
		a.hush(false)
	}
	f.in("ConfigMap", "placed", "")
}

func TestDependencyInConflict(t *testing.T) {
	t.Parallel() // most of its time is waiting
	f := newFleet(t, map[string][]string{"east": {"a"}})
	f.policy("all")
	f.configMap("settings", "one")
	cs := f.cloneSet("web", 1)
	f.patchObject(cs, `{"spec":{"template":{"spec":{"volumes":[{"name":"settings","configMap":{"name":"settings"}}]}}}}`)
	f.in("ConfigMap", "settings", "east")
	f.cloneSetIs("web", "Ready", ready)
	name := wire.Key{Kind: "ConfigMap", Namespace: f.namespace, Name: "settings"}.Work("east")
	f.eventually("the member tells of a conflict", func() error {
		w := &work.Work{}
		if err := f.client.Get(f.ctx, name, w); err != nil {
			return err
		}
		if w.Status.Report == nil {
			return errors.New("the agent has not reported yet, and would take the conflict back") // once for each order
		}
		base := w.DeepCopy()
		meta.SetStatusCondition(&w.Status.Conditions, metav1.Condition{
			Type: work.ConditionApplied, Status: metav1.ConditionFalse, Reason: work.ReasonConflict,
			Message: "ConfigMap settings stands in the member", ObservedGeneration: w.Generation,
		})
		return f.client.Status().Patch(f.ctx, w, client.MergeFrom(base))
	})
	f.cloneSetIs("web", "the workload tells of it", func(cs *apps.CloneSet) bool {
		return conditionIs(cs, "Stalled", corev1.ConditionTrue, "Conflict", "east: ConfigMap settings stands")
	})
}

func TestKindsThatTheHubRuns(t *testing.T) {
	t.Parallel() // most of its time is waiting
	f := newFleet(t, map[string][]string{"east": {"a"}})
	f.policy("native", func(s *topology.FederationPolicySpec) {
		s.Workloads = []topology.WorkloadSelector{{APIVersion: "apps/v1", Kind: "Deployment"},
			{APIVersion: "batch/v1", Kind: "Job"}}
	})
	f.eventually("the policy tells", func() error {
		return f.policyIs("native", "RunsOnHub", "Deployment (apps), Job (batch)")
	})
}
