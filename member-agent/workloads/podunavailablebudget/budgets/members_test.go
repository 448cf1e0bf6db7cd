package budgets

import (
	"errors"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
)

// keeperOf returns a Keeper of a cluster with these objects.
func keeperOf(t *testing.T, objects ...client.Object) *Keeper {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), apps.AddToScheme(scheme),
		v1beta1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	listed := &known{cache: lists{from: c}}
	listed.listed.Store(true)
	return &Keeper{client: c, live: c, known: listed, budgets: map[types.NamespacedName]*budget{}}
}

func web(labels map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "shop", Name: "web", Labels: labels}
}

func ownedPod(name, apiVersion, kind, owner string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name,
		Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}}}
	if owner != "" {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: owner,
			Controller: new(true)}}
	}
	return pod
}

// TestTotal has a Deployment of 3 and a CloneSet of 2 whose templates are selected, and a StatefulSet that is not.
func TestTotal(t *testing.T) {
	selected := map[string]string{"app": "web"}
	deployment := &appsv1.Deployment{ObjectMeta: web(nil)}
	deployment.Spec.Replicas, deployment.Spec.Template.Labels = new(int32(3)), selected
	cloneSet := &apps.CloneSet{ObjectMeta: web(nil)}
	cloneSet.Spec.Replicas, cloneSet.Spec.Template.Labels = new(int32(2)), selected
	other := &appsv1.StatefulSet{ObjectMeta: web(nil)}
	other.Spec.Replicas = new(int32(7))
	// Two ReplicaSets whose Deployment was deleted without them.
	left, older := &appsv1.ReplicaSet{ObjectMeta: web(nil)}, &appsv1.ReplicaSet{ObjectMeta: web(nil)}
	left.Name, left.Spec.Replicas, older.Name, older.Spec.Replicas = "api-abc", new(int32(4)), "api-old", new(int32(1))
	k := keeperOf(t, deployment, cloneSet, other, left, older)
	of := func(name, deployment, hash string) *corev1.Pod {
		pod := ownedPod(name, "apps/v1", "ReplicaSet", deployment+"-"+hash)
		pod.Labels[labelTemplateHash] = hash
		return pod
	}
	orphans := []*corev1.Pod{of("a", "api", "abc"), of("b", "api", "abc"), of("c", "api", "old")}
	target := func(kind, name string) func(*v1beta1.PodUnavailableBudget) {
		return func(pub *v1beta1.PodUnavailableBudget) {
			pub.Spec.Selector = nil
			pub.Spec.TargetReference = &v1beta1.TargetReference{APIVersion: "apps/v1", Kind: kind, Name: name}
		}
	}
	clone := ownedPod("web-a", "apps.kruise.io/v1alpha1", "CloneSet", "web")
	old := ownedPod("web-0", "apps/v1", "StatefulSet", "web")
	ended := ownedPod("done", "", "", "")
	ended.Status.Phase = corev1.PodSucceeded
	for name, row := range map[string]struct {
		pods   []*corev1.Pod
		change func(*v1beta1.PodUnavailableBudget)
		want   Total
	}{
		"workloads without pods":     {nil, nil, Total{Pods: 5}},
		"a pod of one of them":       {[]*corev1.Pod{clone}, nil, Total{Pods: 5}},
		"a pod of a Deployment":      {[]*corev1.Pod{of("x", "web", "abc")}, nil, Total{Pods: 5}},
		"a pod of a former template": {[]*corev1.Pod{clone, old}, nil, Total{Pods: 12}},
		"pods without a workload":    {[]*corev1.Pod{ownedPod("one", "", "", ""), ended}, nil, Total{Pods: 6}},
		"a pod of a workload that ended": {[]*corev1.Pod{ownedPod("x", "apps/v1", "StatefulSet", "gone")}, nil,
			Total{Pods: 5}},
		"a pod of a Deployment that is gone with its ReplicaSet": {[]*corev1.Pod{of("x", "gone", "abc")}, nil,
			Total{Pods: 5, Unwatched: true}},
		"ReplicaSets that a Deployment left behind": {orphans, nil, Total{Pods: 10, Unwatched: true}},
		"a target":                       {nil, target("Deployment", "web"), Total{Pods: 3}},
		"a target that is gone":          {nil, target("StatefulSet", "gone"), Total{}},
		"a target that left ReplicaSets": {orphans, target("Deployment", "api"), Total{Pods: 5, Unwatched: true}},
		"a ReplicaSet as the target":     {orphans[:2], target("ReplicaSet", "api-abc"), Total{Pods: 4, Unwatched: true}},
		"protectTotalReplicas": {orphans, func(pub *v1beta1.PodUnavailableBudget) {
			pub.Spec.ProtectTotalReplicas = new(int32(4))
		}, Total{Pods: 4}},
	} {
		pub := &v1beta1.PodUnavailableBudget{ObjectMeta: web(nil)}
		pub.Spec.Selector = &metav1.LabelSelector{MatchLabels: selected}
		if row.change != nil {
			row.change(pub)
		}
		if got, err := k.Total(t.Context(), pub, row.pods); got != row.want || err != nil {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, row.want)
		}
	}
}

// kinds answers what the API server says of the kinds of a group.
type kinds map[string]*metav1.APIResourceList

func (k kinds) ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error) {
	if list := k[groupVersion]; list != nil {
		return list, nil
	}
	if groupVersion == "down/v1" {
		return nil, apierrors.NewServiceUnavailable("down")
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{}, groupVersion)
}

func (kinds) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	return nil, nil, errors.New("not asked")
}

func (kinds) ServerPreferredResources() ([]*metav1.APIResourceList, error) { return nil, nil }

func (kinds) ServerPreferredNamespacedResources() ([]*metav1.APIResourceList, error) { return nil, nil }

func TestKindsWithAScale(t *testing.T) {
	scales := scalesOf(kinds{"db/v1": {APIResources: []metav1.APIResource{
		{Name: "clusters", Kind: "Cluster"}, {Name: "clusters/scale", Kind: "Scale"}, {Name: "users", Kind: "User"},
		{Name: "users/status", Kind: "User"},
	}}})
	for _, row := range []struct {
		gvk   schema.GroupVersionKind
		want  bool
		fails bool
	}{
		{schema.GroupVersionKind{Group: "db", Version: "v1", Kind: "Cluster"}, true, false},
		{schema.GroupVersionKind{Group: "db", Version: "v1", Kind: "User"}, false, false},
		{schema.GroupVersionKind{Group: "db", Version: "v1", Kind: "Gone"}, false, false},
		{schema.GroupVersionKind{Group: "other", Version: "v1", Kind: "Cluster"}, false, false},
		{schema.GroupVersionKind{Group: "down", Version: "v1", Kind: "Cluster"}, false, true},
	} {
		if got, err := scales(row.gvk); got != row.want || (err != nil) != row.fails {
			t.Errorf("%s: %t, %v", row.gvk, got, err)
		}
	}
}

func TestEveryReplicaForgetsBudgetsThatAreGone(t *testing.T) {
	k := keeperOf(t)
	known := &known{gone: k.Forget}
	for _, deleted := range []any{
		&v1beta1.PodUnavailableBudget{ObjectMeta: web(nil)},
		toolscache.DeletedFinalStateUnknown{Key: "shop/web", Obj: &v1beta1.PodUnavailableBudget{ObjectMeta: web(nil)}},
	} {
		k.budget(types.NamespacedName{Namespace: "shop", Name: "web"})
		k.budget(types.NamespacedName{Namespace: "shop", Name: "kept"})
		if known.deleted(deleted); len(k.budgets) != 1 {
			t.Errorf("%T: %d are kept", deleted, len(k.budgets))
		}
	}
	known.deleted("not an object")
}

// TestCounting: an event of a pod concerns those budgets that count it, and no others.
func TestCounting(t *testing.T) {
	selects := func(app string) func(*v1beta1.PodUnavailableBudget) {
		return func(pub *v1beta1.PodUnavailableBudget) {
			pub.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
		}
	}
	targets := func(kind, name string) func(*v1beta1.PodUnavailableBudget) {
		return func(pub *v1beta1.PodUnavailableBudget) {
			pub.Spec.TargetReference = &v1beta1.TargetReference{APIVersion: apps.GroupVersion.String(), Kind: kind,
				Name: name}
		}
	}
	budgetNamed := func(name string, change func(*v1beta1.PodUnavailableBudget)) *v1beta1.PodUnavailableBudget {
		pub := &v1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
		change(pub)
		return pub
	}
	elsewhere := budgetNamed("elsewhere", selects("web"))
	elsewhere.Namespace = "other"
	k := keeperOf(t, elsewhere, budgetNamed("web", selects("web")), budgetNamed("api", selects("api")),
		budgetNamed("cloneset", targets("CloneSet", "web")), budgetNamed("other-cloneset", targets("CloneSet", "api")),
		budgetNamed("united", targets("UnitedDeployment", "web")))
	for name, row := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"selected":      {ownedPod("web-0", "", "", ""), "united web"},
		"of a workload": {ownedPod("web-0", apps.GroupVersion.String(), "CloneSet", "web"), "cloneset united web"},
		"of another one": {changed(ownedPod("db-0", apps.GroupVersion.String(), "CloneSet", "db"),
			func(pod *corev1.Pod) { pod.Labels = nil }), "united"},
	} {
		all, err := k.Counting(t.Context(), row.pod)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, pub := range all {
			names = append(names, pub.Name)
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != row.want {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
	if _, err := (&Keeper{known: &known{}}).Counting(t.Context(), ownedPod("web-0", "", "", "")); err == nil {
		t.Error("it answers before it has listed the budgets")
	}
}
