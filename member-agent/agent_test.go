package memberagent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/apis/crds"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	memberagent "github.com/flotilla-dev/flotilla/member-agent"
	"github.com/flotilla-dev/flotilla/member-agent/apply"
)

const (
	// hubID is what the Works of these tests say: there is no hub process, the tests write the Works.
	hubID   = "hub-1"
	cluster = "east"
	works   = work.NamespacePrefix + cluster
	// patience is for the slowest machine; nothing is measured against it.
	patience = 3 * time.Minute
)

// bed is a hub and a member, with clients for both.
type bed struct {
	fleet       *fleet.Fleet
	hub, member client.Client
	clusterID   string
}

func newBed(t *testing.T) *bed {
	t.Helper()
	f := fleet.ForTest(t, fleet.Config{
		Audit:   true,
		Members: []fleet.ClusterSpec{{Name: cluster, Nodes: fleet.Nodes(cluster, "eu", []string{"a", "b"}, 1)}},
	})
	b := &bed{fleet: f}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apps.AddToScheme, topology.AddToScheme, work.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range f.Clusters() {
		if err := c.InstallCRDs(t.Context(), crds.FS); err != nil {
			t.Fatal(err)
		}
		got, err := client.New(c.RESTConfig(), client.Options{Scheme: scheme})
		if err != nil {
			t.Fatal(err)
		}
		if c.Name == fleet.HubName {
			b.hub = got
		} else {
			b.member = got
		}
	}
	system := &corev1.Namespace{}
	if err := b.member.Get(t.Context(), types.NamespacedName{Name: "kube-system"}, system); err != nil {
		t.Fatal(err)
	}
	b.clusterID = string(system.UID)
	b.create(t, b.hub, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: works}})
	return b
}

func (b *bed) create(t *testing.T, c client.Client, object client.Object) {
	t.Helper()
	if err := c.Create(t.Context(), object); err != nil {
		t.Fatalf("create %T %s: %v", object, object.GetName(), err)
	}
}

// join makes the MemberCluster, pinned to id.
func (b *bed) join(t *testing.T, id string) {
	t.Helper()
	b.create(t, b.hub, &topology.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: cluster, Annotations: map[string]string{topology.AnnotationHubID: hubID}},
		Spec:       topology.MemberClusterSpec{Accepted: true, ClusterID: id},
	})
}

// answer acknowledges the agent's sessions, as a hub does, until the test ends.
func (b *bed) answer(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		_ = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			m := &topology.MemberCluster{}
			if b.hub.Get(ctx, types.NamespacedName{Name: cluster}, m) == nil && m.Status.Session != m.Spec.AcknowledgedSession {
				patch := fmt.Appendf(nil, `{"spec":{"acknowledgedSession":%d}}`, m.Status.Session)
				_ = b.hub.Patch(ctx, m, client.RawPatch(types.MergePatchType, patch)) // again, if it failed
			}
			return false, nil
		})
	}()
}

// agent runs an agent until stop is called; stop returns when it has ended. The test fails if it ends by itself.
func (b *bed) agent(t *testing.T, hub *rest.Config) (stop func()) {
	t.Helper()
	return b.agentAt(t, hub, clock.RealClock{})
}

// skewed is the clock of a machine whose time is wrong by so much.
type skewed struct {
	clock.RealClock
	by time.Duration
}

func (s skewed) Now() time.Time                  { return s.RealClock.Now().Add(s.by) }
func (s skewed) Since(t time.Time) time.Duration { return s.Now().Sub(t) }

// agentAt is agent with a clock of its own.
func (b *bed) agentAt(t *testing.T, hub *rest.Config, clk clock.WithTicker) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	scheme := runtime.NewScheme()
	if err := memberagent.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	memberConfig := b.fleet.Member(cluster).RESTConfig()
	memberConfig.UserAgent = "flotilla-agent/test"
	mgr, err := ctrl.NewManager(memberConfig, ctrl.Options{
		Scheme: scheme, Cache: memberagent.CacheOptions(), Logger: testr.New(t),
		Controller: config.Controller{SkipNameValidation: new(true), CacheSyncTimeout: memberagent.CacheSyncTimeout},
		Metrics:    server.Options{BindAddress: "0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	hub.UserAgent = "flotilla-agent/test"
	allowed, err := apply.Allow([]string{
		"CloneSet", "ConfigMap", "PersistentVolumeClaim", "Secret", "Service", "UnitedDeployment",
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	// Two kinds that no hub sends: these tests order them.
	allowed.Kinds[schema.GroupKind{Group: "apps", Kind: "Deployment"}] = true
	allowed.Kinds[schema.GroupKind{Group: "apps.example.com", Kind: "Boat"}] = true
	err = memberagent.Setup(ctx, mgr, memberagent.Options{
		Allowed: allowed, Hub: hub, ClusterName: cluster, Namespace: "flotilla-system", Version: "v0.0.0-test",
		Workers: 4, Clock: clk,
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := mgr.Start(ctx); err != nil {
			t.Errorf("the agent ended: %v", err)
		} else if ctx.Err() == nil {
			t.Error("the agent ended without being asked")
		}
	}()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return stop
}

// order returns a Work as delivery writes it.
func order(t *testing.T, sequence int64, object any) *work.Work {
	t.Helper()
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var named struct {
		Kind     string
		Metadata struct{ Namespace, Name string }
	}
	if err := json.Unmarshal(raw, &named); err != nil {
		t.Fatal(err)
	}
	manifest := work.Manifest{RawExtension: runtime.RawExtension{Raw: raw}}
	return &work.Work{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: works, Name: named.Metadata.Namespace + "." + named.Metadata.Name,
			Annotations: map[string]string{topology.AnnotationHubID: hubID, topology.AnnotationSequence: fmt.Sprint(sequence)},
			Finalizers:  []string{work.ExecutionFinalizer},
		},
		Spec: work.WorkSpec{Workload: work.WorkloadTemplate{Manifests: []work.Manifest{manifest}}},
	}
}

// reorder gives a standing Work a new sequence and object.
func (b *bed) reorder(t *testing.T, w *work.Work, sequence int64, object any) {
	t.Helper()
	next := order(t, sequence, object)
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"annotations": next.Annotations}, "spec": next.Spec,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.hub.Patch(t.Context(), w, client.RawPatch(types.MergePatchType, patch)); err != nil {
		t.Fatalf("change Work %s: %v", w.Name, err)
	}
}

type tree = map[string]any

func configMap(name, value string) tree {
	return tree{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": tree{"namespace": "shop", "name": name},
		"data": tree{"key": value},
	}
}

func deployment(name string, replicas int) tree {
	return tree{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": tree{"namespace": "shop", "name": name},
		"spec": tree{
			"replicas": replicas, "selector": tree{"matchLabels": tree{"app": name}},
			"template": tree{
				"metadata": tree{"labels": tree{"app": name}},
				"spec":     tree{"containers": []any{tree{"name": "main", "image": "registry.example/web:1"}}},
			},
		},
	}
}

func shop(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "shop", Name: name}
}

// eventually polls until check returns "", and fails the test with the last reason that check had before the deadline.
func eventually(t *testing.T, what string, check func(ctx context.Context) string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	var reason string
	for {
		switch now := check(ctx); {
		case now == "":
			return
		case reason == "" || ctx.Err() == nil: // a request that the deadline interrupts gives no reason
			reason = now
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %s", what, reason)
		case <-ticker.C:
		}
	}
}

// condition waits until the Work's condition Applied has the reason for the Work's present generation, and returns the
// Work.
func (b *bed) condition(t *testing.T, w *work.Work, reason string) *work.Work {
	t.Helper()
	got := &work.Work{}
	eventually(t, "Work "+w.Name+" gets "+reason, func(ctx context.Context) string {
		if err := b.hub.Get(ctx, client.ObjectKeyFromObject(w), got); err != nil {
			return err.Error()
		}
		c := meta.FindStatusCondition(got.Status.Conditions, work.ConditionApplied)
		if c == nil || c.Reason != reason || c.ObservedGeneration != got.Generation {
			return fmt.Sprintf("generation %d has condition %+v", got.Generation, c)
		}
		return ""
	})
	return got
}

// carried waits until the Work's report answers the sequence.
func (b *bed) carried(t *testing.T, w *work.Work, sequence int64) *work.Work {
	t.Helper()
	got := &work.Work{}
	eventually(t, fmt.Sprintf("Work %s reports order %d", w.Name, sequence), func(ctx context.Context) string {
		if err := b.hub.Get(ctx, client.ObjectKeyFromObject(w), got); err != nil {
			return err.Error()
		}
		if got.Status.Report == nil || got.Status.Report.Sequence != sequence {
			return fmt.Sprintf("report %+v", got.Status.Report)
		}
		return ""
	})
	return got
}

// value waits until the ConfigMap of the member holds the value.
func (b *bed) value(t *testing.T, name, want string) *corev1.ConfigMap {
	t.Helper()
	got := &corev1.ConfigMap{}
	eventually(t, "ConfigMap "+name+" holds "+want, func(ctx context.Context) string {
		if err := b.member.Get(ctx, shop(name), got); err != nil {
			return err.Error()
		}
		if got.Data["key"] != want {
			return fmt.Sprintf("data %v", got.Data)
		}
		return ""
	})
	return got
}

func (b *bed) gone(t *testing.T, c client.Client, object client.Object) {
	t.Helper()
	eventually(t, fmt.Sprintf("%T %s goes", object, object.GetName()), func(ctx context.Context) string {
		err := c.Get(ctx, client.ObjectKeyFromObject(object), object)
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprintf("error %v, finalizers %v", err, object.GetFinalizers())
	})
}
