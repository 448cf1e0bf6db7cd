package orphans

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/objects"
)

func TestOnlyObjectsThatNeedAnOrderCanBeOrphans(t *testing.T) {
	controlled, owned := []metav1.OwnerReference{{Controller: new(true)}}, []metav1.OwnerReference{{Name: "x"}}
	other := map[string]string{topology.LabelHub: "other"}
	mine := map[string]string{topology.LabelHub: "hub"}
	now := metav1.Now()
	for name, tc := range map[string]struct {
		hubID  string
		object metav1.ObjectMeta
		want   bool
	}{
		"the hub's label":                   {"hub", metav1.ObjectMeta{Labels: mine}, true},
		"no label":                          {"hub", metav1.ObjectMeta{}, false},
		"the label of another hub":          {"hub", metav1.ObjectMeta{Labels: other}, false},
		"the hub's id is not known":         {"", metav1.ObjectMeta{Labels: map[string]string{topology.LabelHub: ""}}, false},
		"it is being deleted":               {"hub", metav1.ObjectMeta{Labels: mine, DeletionTimestamp: &now}, false},
		"a child that inherited the label":  {"hub", metav1.ObjectMeta{Labels: mine, OwnerReferences: controlled}, false},
		"an owner that does not control it": {"hub", metav1.ObjectMeta{Labels: mine, OwnerReferences: owned}, true},
	} {
		if got := needsOrder(&tc.object, tc.hubID); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}

func ref(group, version, kind, namespace, name string) objects.Ref {
	return objects.Ref{
		GroupVersionKind: schema.GroupVersionKind{Group: group, Version: version, Kind: kind},
		NamespacedName:   types.NamespacedName{Namespace: namespace, Name: name},
	}
}

func workOf(name string, manifests ...string) work.Work {
	w := work.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-east", Name: name}}
	for _, manifest := range manifests {
		raw := work.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(manifest)}}
		w.Spec.Workload.Manifests = append(w.Spec.Workload.Manifests, raw)
	}
	return w
}

func TestObjectsThatAWorkNamesAreNoOrphans(t *testing.T) {
	const kruise, version, rbac = "apps.kruise.io", "v1beta1", "rbac.authorization.k8s.io"
	const kept = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"shop","name":"kept"}}`
	const role = `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"reader"}}`
	const db = `{"apiVersion":"apps.kruise.io/v1alpha1","kind":"StatefulSet","metadata":{"namespace":"shop","name":"db"}}`
	copied := workOf("shop.kept.configmap", kept)
	o := ordersOf([]work.Work{
		workOf("shop.db.statefulset", db),
		workOf("reader.clusterrole", role),
		workOf("shop.kept.configmap"),
		workOf("shop.web.cloneset", `{"kind":`),
		workOf("shop.empty.configmap", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"shop"}}`),
		workOf("node.seccomp", `null`),
	}, func(name types.NamespacedName) *work.Work {
		if name.Name == copied.Name {
			return &copied
		}
		return nil
	})
	for name, tc := range map[string]struct {
		ref  objects.Ref
		want bool
	}{
		"named in another version":                     {ref(kruise, version, "StatefulSet", "shop", "db"), true},
		"a kind of the same name in another group":     {ref("apps", "v1", "StatefulSet", "shop", "db"), false},
		"another name":                                 {ref(kruise, version, "StatefulSet", "shop", "db-2"), false},
		"another namespace":                            {ref(kruise, version, "StatefulSet", "shop-2", "db"), false},
		"no namespace":                                 {ref(rbac, "v1", "ClusterRole", "", "reader"), true},
		"the Work lost its manifest, the copy has it":  {ref("", "v1", "ConfigMap", "shop", "kept"), true},
		"the Work cannot be read and may name it":      {ref("apps.kruise.io", "v1beta1", "CloneSet", "shop", "web"), true},
		"the manifest has no name, the Work's fits":    {ref("", "v1", "ConfigMap", "shop", "empty"), true},
		"the start of the name of an unreadable Work":  {ref("apps.kruise.io", "v1beta1", "CloneSet", "shop", "we"), false},
		"an unreadable Work without a namespace":       {ref("node.k8s.io", "v1", "RuntimeClass", "", "node"), true},
		"nothing orders it":                            {ref("", "v1", "Secret", "shop", "token"), false},
		"an unreadable Work of a longer name, dotted":  {ref("", "v1", "ConfigMap", "shop", "web.cloneset"), true},
		"the namespace alone is that of an unreadable": {ref("", "v1", "ConfigMap", "shop", "other"), false},
	} {
		k := keyOf(tc.ref)
		if got := o.has(k); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}

func TestOrphansAreReportedAfterThePauseAndOnlyThen(t *testing.T) {
	start := time.Unix(1000, 0)
	a, b := ref("", "v1", "ConfigMap", "shop", "a"), ref("", "v1", "ConfigMap", "shop", "b")
	c, newer := ref("apps.kruise.io", "v1beta1", "CloneSet", "shop", "c"), ref("", "v2", "ConfigMap", "shop", "b")
	since := map[key]time.Time{}
	for i, step := range []struct {
		at      time.Duration
		found   []objects.Ref
		settled []objects.Ref
		again   time.Duration
	}{
		{0, []objects.Ref{b, a}, nil, 10 * time.Second},
		// The order of a came.
		{4 * time.Second, []objects.Ref{b, c}, nil, 10 * time.Second},
		// It went again.
		{10 * time.Second, []objects.Ref{b, c, a}, []objects.Ref{b}, 10 * time.Second},
		{20 * time.Second, []objects.Ref{b, a, c}, []objects.Ref{c, a, b}, 0},
		{21 * time.Second, []objects.Ref{b}, []objects.Ref{b}, 0},
		// It is read in another version.
		{22 * time.Second, []objects.Ref{newer}, []objects.Ref{newer}, 0},
		{23 * time.Second, nil, nil, 0},
	} {
		settled, again := settle(step.found, since, start.Add(step.at), 10*time.Second)
		if !slices.Equal(settled, step.settled) || again != step.again {
			t.Errorf("step %d: %v, again in %s; want %v, %s", i, settled, again, step.settled, step.again)
		}
		if len(since) != len(step.found) {
			t.Errorf("step %d: %d objects are remembered, %d found", i, len(since), len(step.found))
		}
	}
}
