package store

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

func key(group, kind string) wire.Key {
	return wire.Key{Group: group, Kind: kind, Namespace: "shop", Name: "db"}
}

func placementOf(name, apiVersion string) *topology.WorkloadPlacement {
	p := &topology.WorkloadPlacement{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	p.Spec.Workload = topology.WorkloadReference{APIVersion: apiVersion, Kind: "StatefulSet", Name: "db"}
	return p
}

// TestFindPlacement: a placement keeps the name that an earlier hub gave it, and two kinds of one name do not meet.
func TestFindPlacement(t *testing.T) {
	native, kruise := key("apps", "StatefulSet"), key("apps.kruise.io", "StatefulSet")
	for _, test := range []struct {
		why    string
		key    wire.Key
		stored []client.Object
		found  bool
		name   string
	}{
		{"a new one", native, nil, false, "statefulset.apps-db"},
		{"a new one of the suite", kruise, nil, false, "statefulset-db"},
		{"one of an earlier hub", native, []client.Object{placementOf("statefulset-db", "apps/v1")}, true, "statefulset-db"},
		{"the other group has the name", kruise, []client.Object{placementOf("statefulset-db", "apps/v1")}, false,
			"statefulset.apps.kruise.io-db"},
		{
			"both side by side", kruise,
			[]client.Object{placementOf("statefulset-db", "apps/v1"),
				placementOf("statefulset.apps.kruise.io-db", "apps.kruise.io/v1beta1")},
			true, "statefulset.apps.kruise.io-db",
		},
		{"both of this hub", native, []client.Object{placementOf("statefulset-db", "apps.kruise.io/v1beta1"),
			placementOf("statefulset.apps-db", "apps/v1")}, true, "statefulset.apps-db"},
	} {
		t.Run(test.why, func(t *testing.T) {
			p, name, err := FindPlacement(t.Context(), fake.NewClientBuilder().WithScheme(schemeFor(t)).WithObjects(test.stored...).Build(), test.key)
			if err != nil {
				t.Fatal(err)
			}
			if (p != nil) != test.found || name.Name != test.name || p != nil && p.Name != name.Name {
				t.Errorf("found %t as %s, want %t as %s", p != nil, name.Name, test.found, test.name)
			}
		})
	}
}

// TestFindPlacementThatSomebodyEdited: it is found by its name, so that the hub's decision comes back into it.
func TestFindPlacementThatSomebodyEdited(t *testing.T) {
	p := placementOf("statefulset-db", "apps.kruise.io/v1beta1")
	p.Annotations = map[string]string{topology.AnnotationDecision: wire.DigestOf(&p.Spec)}
	p.Spec.Workload.APIVersion = "apps/v1"
	found, _, err := FindPlacement(t.Context(), fake.NewClientBuilder().WithScheme(schemeFor(t)).WithObjects(p).Build(),
		key("apps.kruise.io", "StatefulSet"))
	if err != nil || found == nil {
		t.Errorf("found %v, %v", found, err)
	}
}

// TestSetNames: a Work keeps its name, and a new one does not take that of another kind.
func TestSetNames(t *testing.T) {
	workOf := func(k wire.Key, name string, more map[string]string) *work.Work {
		w := &work.Work{ObjectMeta: metav1.ObjectMeta{
			Namespace: wire.MemberNamespace("east"), Name: name,
			Annotations: map[string]string{topology.AnnotationWorkload: k.String()},
		}}
		for name, value := range more {
			w.Annotations[name] = value
		}
		return w
	}
	native, kruise := key("apps", "StatefulSet"), key("apps.kruise.io", "StatefulSet")
	check := map[string]string{topology.AnnotationCheck: "smoke", topology.AnnotationJob: "db-smoke"}
	for _, test := range []struct {
		why  string
		key  wire.Key
		have []*work.Work // of the workload
		then []*work.Work // of others
		want *work.Work
		name string
	}{
		{"a new one", native, nil, nil, workOf(native, "shop.db.statefulset.apps", nil), "shop.db.statefulset.apps"},
		{"one of an earlier hub", native, []*work.Work{workOf(native, "shop.db.statefulset", nil)}, nil,
			workOf(native, "shop.db.statefulset.apps", nil), "shop.db.statefulset"},
		{
			"the name is taken", kruise, nil, []*work.Work{workOf(native, "shop.db.statefulset", nil)},
			workOf(kruise, "shop.db.statefulset", nil), "shop.db.statefulset.apps.kruise.io",
		},
		{
			"the Job of a check has its own name", kruise, []*work.Work{workOf(kruise, "shop.db.statefulset", nil),
				workOf(kruise, "shop.db-smoke.job", check)}, nil,
			workOf(kruise, "shop.db-smoke.job.batch", check), "shop.db-smoke.job",
		},
	} {
		t.Run(test.why, func(t *testing.T) {
			builder := fake.NewClientBuilder().WithScheme(schemeFor(t))
			var have []work.Work
			for _, w := range test.have {
				builder, have = builder.WithObjects(w), append(have, *w)
			}
			for _, w := range test.then {
				builder = builder.WithObjects(w)
			}
			if err := SetNames(t.Context(), builder.Build(), test.key, []*work.Work{test.want}, have); err != nil {
				t.Fatal(err)
			}
			if test.want.Name != test.name {
				t.Errorf("name %s, want %s", test.want.Name, test.name)
			}
		})
	}
}

func schemeFor(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{topology.AddToScheme, work.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}
