package rollout

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

const (
	web    = `{metadata: {name: web, namespace: shop}, spec: {template: {spec: {containers: [{name: main, image: "web:1"}]}}}}`
	held   = `{metadata: {name: web, namespace: shop}, spec: {updateStrategy: {rollingUpdate: {partition: 3, paused: true}}}}`
	cart   = `{metadata: {name: web, namespace: shop}, spec: {updateStrategy: {manualUpdate: {partitions: {a: 1}}}, template: {cloneSetTemplate: {}}}}`
	deal   = `{metadata: {name: web, namespace: shop}, spec: {template: {deploymentTemplate: {}}}}`
	byHand = `{metadata: {name: web, namespace: shop}, spec: {updateStrategy: {type: OnDelete}}}`
	logs   = `{metadata: {name: web, namespace: shop}, spec: {updateStrategy: {partition: 3}}}`
	state  = `{metadata: {name: web, namespace: shop}, spec: {template: {statefulSetTemplate: {}}}}`
)

func parse(t *testing.T, kind, text string) client.Object {
	t.Helper()
	var object client.Object = &apps.CloneSet{}
	switch kind {
	case "UnitedDeployment":
		object = &apps.UnitedDeployment{}
	case "DaemonSet":
		object = &apps.DaemonSet{}
	case "SidecarSet":
		object = &apps.SidecarSet{}
	case "StatefulSet":
		object = &apps.StatefulSet{}
	}
	if err := yaml.UnmarshalStrict([]byte(text), object); err != nil {
		t.Fatal(err)
	}
	return object
}

// TestChanges runs each verb against an object, and then again: the second time there is nothing to change.
func TestChanges(t *testing.T) {
	pauses := func(o client.Object) error { return pause(o, true) }
	resumes := func(o client.Object) error { return pause(o, false) }
	cases := []struct {
		name, kind, text string
		change           func(client.Object) error
		want             string // a part of the object as YAML, or of the error
		fails            bool
	}{
		{"pause", "CloneSet", web, pauses, "paused: true", false},
		{"pause a StatefulSet", "StatefulSet", web, pauses, "paused: true", false},
		{"pause a DaemonSet", "DaemonSet", web, pauses, "paused: true", false},
		{"promote a DaemonSet", "DaemonSet", held, promote, "partition: 0", false},
		{"resume a DaemonSet", "DaemonSet", held, resumes, "partition: 3", false},
		{"restart a DaemonSet", "DaemonSet", web, func(o client.Object) error { return restart(o, time.Unix(0, 0)) },
			`restartedAt: "1970-01-01T00:00:00Z"`, false},
		{"a DaemonSet that is updated by hand", "DaemonSet", byHand, pauses, "updateStrategy.type OnDelete", true},
		{"pause a SidecarSet", "SidecarSet", logs, pauses, "paused: true", false},
		{"promote a SidecarSet", "SidecarSet", logs, promote, "partition: 0", false},
		{"promote a StatefulSet", "StatefulSet", held, promote, "partition: 0", false},
		{"resume", "CloneSet", held, resumes, "partition: 3", false},
		{"promote", "CloneSet", held, promote, "partition: 0", false},
		{"promote what holds nothing back", "CloneSet", web, promote, "updateStrategy: {}", false},
		{"pause the children", "UnitedDeployment", cart, pauses, "paused: true", false},
		{"pause Deployments", "UnitedDeployment", deal, pauses, "paused: true", false},
		{"StatefulSets have no pause", "UnitedDeployment", state, pauses, "manualUpdate.partitions", true},
		{"promote subsets", "UnitedDeployment", cart, promote, "updateStrategy: {}", false},
		{"promote StatefulSets", "UnitedDeployment", state, promote, "statefulSetTemplate", false},
		{"restart", "CloneSet", web, func(o client.Object) error { return restart(o, time.Unix(0, 0)) },
			`restartedAt: "1970-01-01T00:00:00Z"`, false},
		{"restart the children", "UnitedDeployment", deal, func(o client.Object) error { return restart(o, time.Unix(0, 0)) },
			"restartedAt", false},
		{"nothing to restart", "UnitedDeployment", `{metadata: {name: web, namespace: shop}}`,
			func(o client.Object) error { return restart(o, time.Unix(0, 0)) }, "no pod template", true},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			c := clientWith(t, parse(t, tc.kind, tc.text))
			key := wire.Key{Group: "apps.kruise.io", Kind: tc.kind, Namespace: "shop", Name: "web"}
			var out bytes.Buffer
			err := apply(t.Context(), c, &out, key, "changed", tc.change)
			if tc.fails {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Fatalf("error %v does not say %q", err, tc.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			object, err := get(t.Context(), c, key)
			if err != nil {
				t.Fatal(err)
			}
			stands, err := yaml.Marshal(object)
			if err != nil || !strings.Contains(string(stands), tc.want) {
				t.Errorf("%v, want %q in\n%s", err, tc.want, stands)
			}
			out.Reset()
			version := object.GetResourceVersion()
			if err := apply(t.Context(), c, &out, key, "changed", tc.change); err != nil ||
				!strings.Contains(out.String(), "already") {
				t.Errorf("a second time: %v, %q", err, out.String())
			}
			if object, err = get(t.Context(), c, key); err != nil || object.GetResourceVersion() != version {
				t.Errorf("a second time something was written (%v)", err)
			}
		})
	}
}

func clientWith(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := apps.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(objects...).Build()
}

func set(generation, observed int64, conditions ...apps.CloneSetCondition) *apps.CloneSet {
	return &apps.CloneSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Generation: generation},
		Spec:       apps.CloneSetSpec{Replicas: new(int32(9))},
		Status: apps.CloneSetStatus{ObservedGeneration: observed, Replicas: 9, UpdatedReplicas: 4, ReadyReplicas: 8,
			Conditions: conditions},
	}
}

func is(kind apps.CloneSetConditionType, status corev1.ConditionStatus, reason string) apps.CloneSetCondition {
	return apps.CloneSetCondition{Type: kind, Status: status, Reason: reason, Message: "as told"}
}

func TestStatusOf(t *testing.T) {
	ready, stalled, progressing := apps.CloneSetConditionType(apps.ConditionReady),
		apps.CloneSetConditionType(apps.ConditionStalled), apps.CloneSetConditionType(apps.ConditionProgressing)
	cases := []struct {
		name   string
		object client.Object
		phase  Phase
		reason string
	}{
		{"nobody has looked at it", set(1, 0), Progressing, ""},
		{"the status is of an older spec", set(2, 1, is(ready, corev1.ConditionTrue, "AllAvailable")), Progressing, ""},
		{"under way", set(1, 1, is(ready, corev1.ConditionFalse, "Updating")), Progressing, "Updating"},
		{"paused", set(1, 1, is(ready, corev1.ConditionFalse, "Paused")), Progressing, "Paused"},
		{"done", set(1, 1, is(ready, corev1.ConditionTrue, "AllAvailable")), Done, "AllAvailable"},
		{"done as far as the partition goes", set(1, 1, is(ready, corev1.ConditionTrue, "AllAvailable"),
			is(progressing, corev1.ConditionTrue, "ProgressPartitionAvailable")), Done, "AllAvailable"},
		{"stalled", set(1, 1, is(ready, corev1.ConditionFalse, "NoPolicy"), is(stalled, corev1.ConditionTrue, "NoPolicy")),
			Failed, "NoPolicy"},
		{"past its deadline", set(1, 1, is(ready, corev1.ConditionFalse, "Updating"),
			is(progressing, corev1.ConditionFalse, "ProgressDeadlineExceeded")), Failed, "ProgressDeadlineExceeded"},
		{"a UnitedDeployment", &apps.UnitedDeployment{Status: apps.UnitedDeploymentStatus{Conditions: []apps.UnitedDeploymentCondition{
			{Type: apps.UnitedDeploymentConditionType(apps.ConditionReady), Status: corev1.ConditionTrue,
				Reason: "AllAvailable"}}}}, Done, "AllAvailable"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			if s := StatusOf(tc.object); s.Phase != tc.phase || s.Reason != tc.reason {
				t.Errorf("%+v, want %s with reason %q", s, tc.phase, tc.reason)
			}
		})
	}
}

// TestFollow: what status prints, and how it ends, which becomes the exit code.
func TestFollow(t *testing.T) {
	ready := apps.CloneSetConditionType(apps.ConditionReady)
	key := wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "shop", Name: "web"}
	under := set(1, 1, is(ready, corev1.ConditionFalse, "Updating"))
	var out bytes.Buffer
	if err := follow(t.Context(), clientWith(t, under), clock.RealClock{}, &out, "text", key, false); err != nil ||
		!strings.Contains(out.String(), "Progressing; 4 of 9 pods are updated, 8 are ready (Updating: as told)") {
		t.Errorf("under way: %v, %q", err, out.String())
	}
	over, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := follow(over, clientWith(t, under.DeepCopy()), clock.RealClock{}, &out, "text", key, true); !errors.Is(err,
		context.DeadlineExceeded) {
		t.Errorf("after the timeout: %v", err)
	}
	failed := set(1, 1, is(apps.CloneSetConditionType(apps.ConditionStalled), corev1.ConditionTrue, "NoPolicy"))
	out.Reset()
	now := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	looks := 0
	settling := interceptor.NewClient(clientWith(t, failed).(client.WithWatch), interceptor.Funcs{Get: func(
		ctx context.Context, c client.WithWatch, at client.ObjectKey, o client.Object, options ...client.GetOption,
	) error {
		if looks++; looks == 2 {
			now.SetTime(now.Now().Add(settles))
		}
		return c.Get(ctx, at, o, options...)
	}})
	if err := follow(t.Context(), settling, now, &out, "text", key, true); err == nil || looks != 2 ||
		strings.Count(out.String(), "Failed") != 1 || !strings.Contains(err.Error(), "failed (NoPolicy)") {
		t.Errorf("failed: %v", err)
	}
	out.Reset()
	done := set(1, 1, is(ready, corev1.ConditionTrue, "AllAvailable"))
	if err := follow(t.Context(), clientWith(t, done), clock.RealClock{}, &out, "json", key, true); err != nil ||
		!strings.Contains(out.String(), `"phase": "Done"`) {
		t.Errorf("done: %v, %q", err, out.String())
	}
	if err := follow(t.Context(), clientWith(t), clock.RealClock{}, &out, "text", key, true); err == nil ||
		!strings.Contains(err.Error(), "CloneSet shop/web") {
		t.Errorf("none there: %v", err)
	}
}

// TestChangesAmongOtherWrites holds that what others write between reading and writing costs a change nothing, and is
// kept; and that a change that never finds an undisturbed moment says so.
func TestChangesAmongOtherWrites(t *testing.T) {
	for _, tc := range []struct {
		name     string
		meddling int // how many times somebody else writes first
		fails    bool
	}{{"once", 1, false}, {"until the last attempt", attempts - 1, false}, {"each time", attempts, true}} {
		t.Run(tc.name, func(t *testing.T) {
			inner := clientWith(t, parse(t, "CloneSet", held)).(client.WithWatch)
			written := 0
			c := interceptor.NewClient(inner, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch,
				o client.Object, p client.Patch, options ...client.PatchOption) error {
				if written < tc.meddling {
					written++
					other := &apps.CloneSet{}
					if err := c.Get(ctx, client.ObjectKeyFromObject(o), other); err != nil {
						return err
					}
					other.Spec.Replicas = new(int32(written))
					if err := c.Update(ctx, other); err != nil {
						return err
					}
				}
				return c.Patch(ctx, o, p, options...)
			}})
			key := wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "shop", Name: "web"}
			var out bytes.Buffer
			err := apply(t.Context(), c, &out, key, "resumed", func(o client.Object) error { return pause(o, false) })
			if tc.fails != (err != nil) || tc.fails != (out.Len() == 0) {
				t.Fatalf("error %v, says %q", err, out.String())
			}
			stands := &apps.CloneSet{}
			if err := inner.Get(t.Context(), key.Workload(), stands); err != nil {
				t.Fatal(err)
			}
			if got := *stands.Spec.Replicas; got != int32(tc.meddling) {
				t.Errorf("replicas %d, want the %d that others wrote last", got, tc.meddling)
			}
			if paused := stands.Spec.UpdateStrategy.RollingUpdate.Paused; paused != tc.fails {
				t.Errorf("paused %v after %v", paused, err)
			}
		})
	}
}

// TestNotFederated: what nobody places ends with the reason, once it is certain that no controller of the cluster looks
// at it.
func TestNotFederated(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{apps.AddToScheme, topology.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	made := metav1.Unix(1000, 0)
	key := wire.Key{Group: "apps.kruise.io", Kind: "CloneSet", Namespace: "shop", Name: "web"}
	for why, tc := range map[string]struct {
		member, federated bool
		observed          int64
		age               time.Duration
		says              string // the status
		fails             string // the error
	}{
		"nobody looks at it": {true, false, 0, time.Hour,
			"Failed; 4 of 9 pods are updated, 8 are ready (NamespaceNotFederated: namespace shop is not federated",
			"failed (NamespaceNotFederated)"},
		"made just now": {true, false, 0, time.Second,
			"Progressing; 4 of 9 pods are updated, 8 are ready (namespace shop is not federated", ""},
		"a controller has looked":    {true, false, 1, time.Hour, "the hub has not looked at the last change yet", ""},
		"the namespace is the hub's": {true, true, 0, time.Hour, "the hub has not looked at the last change yet", ""},
		"a cluster that is no hub":   {false, false, 0, time.Hour, "the hub has not looked at the last change yet", ""},
		"a hub, and nothing is known": {true, false, 0, 29 * time.Second,
			"set the label topology.flotilla.dev/federated=true on the namespace", ""},
	} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
		if tc.federated {
			namespace.Labels = map[string]string{topology.LabelFederated: "true"}
		}
		object := set(2, tc.observed)
		object.CreationTimestamp = made
		objects := []client.Object{namespace, object}
		if tc.member {
			objects = append(objects, &topology.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}})
		}
		c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
		var out bytes.Buffer
		err := follow(t.Context(), c, clocktesting.NewFakePassiveClock(made.Add(tc.age)), &out, "text", key, false)
		if (err == nil) != (tc.fails == "") || err != nil && !strings.Contains(err.Error(), tc.fails) ||
			!strings.Contains(out.String(), tc.says) {
			t.Errorf("%s: %v, %q, want %q and %q", why, err, out.String(), tc.says, tc.fails)
		}
	}
}
