package newkind

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/apiserver"
	"github.com/flotilla-dev/flotilla/hub"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	memberagent "github.com/flotilla-dev/flotilla/member-agent"
)

// deadline bounds every wait; the machine may be busy.
const deadline = 2 * time.Minute

// world is a hub with two members, each on an API server of its own.
type world struct {
	t   *testing.T
	hub client.Client
	// seen is what the hub's cache has.
	seen    client.Reader
	members map[string]client.Client
}

func newWorld(t *testing.T, nodes map[string]int) *world {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	w := &world{t: t, members: map[string]client.Client{}}
	config := w.server()
	w.hub = w.client(config)
	w.run(config, hub.Scheme, func(ctx context.Context, mgr ctrl.Manager) error {
		table := kinds.All(kinds.HubRunsBuiltIns)
		for _, kind := range []kinds.Kind{rackKind(), beaconKind()} {
			table[kind.GVK.GroupKind()] = kind
		}
		w.seen = mgr.GetClient()
		return hub.Setup(ctx, mgr, hub.Options{Kinds: table})
	})
	for name, n := range nodes {
		own := w.server("works.work.karmada.io")
		w.members[name] = w.client(own)
		for i := range n {
			w.create(w.members[name], &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i)}})
		}
		w.create(w.hub, &topology.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: topology.MemberClusterSpec{Accepted: true}})
		w.run(own, memberScheme, func(ctx context.Context, mgr ctrl.Manager) error {
			return memberagent.Setup(ctx, mgr, memberagent.Options{
				Hub: rest.CopyConfig(config), ClusterName: name, Namespace: topology.SystemNamespace, Version: "v0.0.0-test",
				Workers: 2, Clock: clock.RealClock{}, Kinds: []memberagent.Kind{rackMember(), beaconMember()},
			})
		})
	}
	for name := range nodes {
		w.eventually("the hub sees that "+name+" is Ready", func() error {
			member := &topology.MemberCluster{}
			if err := w.seen.Get(t.Context(), client.ObjectKey{Name: name}, member); err != nil {
				return err
			}
			for _, condition := range []string{topology.MemberAccepted, topology.MemberReady} {
				if !meta.IsStatusConditionTrue(member.Status.Conditions, condition) {
					return fmt.Errorf("its status is %+v", member.Status)
				}
			}
			return nil
		})
	}
	return w
}

func memberScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, memberagent.AddToScheme(scheme)
}

// server starts an API server with the definitions of the two kinds and these of ours, all of them without names.
func (w *world) server(ours ...string) *rest.Config {
	w.t.Helper()
	config := apiserver.ForTest(w.t, ours...)
	if err := apiserver.InstallOthers(config, definitions()); err != nil {
		w.t.Fatal(err)
	}
	return config
}

func (w *world) client(config *rest.Config) client.Client {
	w.t.Helper()
	scheme, err := hub.Scheme()
	if err == nil {
		err = addToScheme(scheme)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// run starts a manager that ends with the test.
func (w *world) run(
	own *rest.Config, types func() (*runtime.Scheme, error), setup func(context.Context, ctrl.Manager) error,
) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context())) // until Cleanup
	scheme, err := types()
	if err == nil {
		err = addToScheme(scheme)
	}
	var mgr ctrl.Manager
	if err == nil {
		mgr, err = ctrl.NewManager(own, ctrl.Options{
			Scheme: scheme, Logger: logr.Discard(), Metrics: server.Options{BindAddress: "0"},
			Controller: config.Controller{SkipNameValidation: new(true), CacheSyncTimeout: memberagent.CacheSyncTimeout},
		})
	}
	if err == nil {
		err = setup(ctx, mgr)
	}
	if err != nil {
		cancel()
		w.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	})
}

func (w *world) create(c client.Client, object client.Object) {
	w.t.Helper()
	if err := c.Create(w.t.Context(), object); err != nil {
		w.t.Fatalf("create %T %s: %v", object, object.GetName(), err)
	}
}

// change changes the object on the hub until nobody else wrote in between.
func change[T client.Object](w *world, object T, do func(T)) {
	w.t.Helper()
	w.eventually("change "+object.GetName(), func() error {
		if err := w.hub.Get(w.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		do(object)
		return w.hub.Update(w.t.Context(), object)
	})
}

func (w *world) eventually(what string, check func() error) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), deadline)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			w.t.Fatalf("%s: %v", what, err)
		case <-ticker.C:
		}
	}
}

// counts are desired, existing, available and updated pods.
type counts [4]int32

func (s *Status) counts() counts { return counts{s.Desired, s.Replicas, s.Available, s.Updated} }

// sums waits until the object on the hub is Ready with these counts, for its newest generation.
func sums[T client.Object](w *world, object T, parts func(T) (*Spec, *Status), want counts) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("%s has %v", object.GetName(), want), func() error {
		if err := w.hub.Get(w.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		_, status := parts(object)
		ready := condition(status, "Ready").Status == metav1.ConditionTrue
		if status.counts() != want || status.ObservedGeneration != object.GetGeneration() || !ready {
			return fmt.Errorf("its status is %+v", status)
		}
		return nil
	})
}

func condition(status *Status, name string) Condition {
	for _, c := range status.Conditions {
		if c.Type == name {
			return c
		}
	}
	return Condition{}
}

// inMembers returns the specs and statuses of the object in the members that have it.
func inMembers[T client.Object](
	w *world, object T, parts func(T) (*Spec, *Status),
) (map[string]Spec, map[string]Status) {
	w.t.Helper()
	specs, statuses := map[string]Spec{}, map[string]Status{}
	for name, member := range w.members {
		live := object.DeepCopyObject().(T)
		err := member.Get(w.t.Context(), client.ObjectKeyFromObject(object), live)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			w.t.Fatal(err)
		}
		spec, status := parts(live)
		specs[name], statuses[name] = *spec, *status
	}
	return specs, statuses
}

func TestNewKindsNeedOneEntryAndOneController(t *testing.T) {
	w := newWorld(t, map[string]int{"east": 3, "west": 2})
	w.create(w.hub, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "shop", Labels: map[string]string{topology.LabelFederated: "true"}}})
	dark := &Beacon{ObjectMeta: metav1.ObjectMeta{Name: "dark"}, Spec: Spec{Revision: "one"}}
	w.create(w.hub, dark)
	policy := &topology.ClusterFederationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "all"}}
	for _, kind := range []string{"Rack", "Beacon"} {
		policy.Spec.Workloads = append(policy.Spec.Workloads,
			topology.WorkloadSelector{APIVersion: groupVersion.String(), Kind: kind})
	}
	w.create(w.hub, policy)
	rack := &Rack{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec:       Spec{Replicas: new(int32(6)), Revision: "one"},
	}
	beacon := &Beacon{
		ObjectMeta: metav1.ObjectMeta{Name: "lamp", Labels: map[string]string{topology.LabelFederated: "true"}},
		Spec:       Spec{Revision: "one", MaxUnavailable: new(intstr.FromString("40%"))},
	}
	w.create(w.hub, rack)
	w.create(w.hub, beacon)

	// The replicas of the divided one, and the nodes of the other.
	sums(w, rack, rackParts, counts{6, 6, 6, 6})
	sums(w, beacon, beaconParts, counts{5, 5, 5, 5})
	if specs, _ := inMembers(w, rack, rackParts); len(specs) != 2 {
		t.Errorf("the members have %+v", specs)
	} else if east, west := *specs["east"].Replicas, *specs["west"].Replicas; east != 3 || west != 3 {
		t.Errorf("east has %d replicas, west %d", east, west)
	}

	// Limits hold over all members: together they keep as many pods as the partition says.
	change(w, rack, func(r *Rack) { r.Spec.Revision, r.Spec.Partition = "two", 4 })
	change(w, beacon, func(b *Beacon) { b.Spec.Revision, b.Spec.Partition = "two", 2 })
	sums(w, rack, rackParts, counts{6, 6, 6, 2})
	sums(w, beacon, beaconParts, counts{5, 5, 5, 3})
	specs, statuses := inMembers(w, beacon, beaconParts)
	var partition, unavailable, updated int32
	for name, spec := range specs {
		partition, unavailable = partition+spec.Partition, unavailable+spec.MaxUnavailable.IntVal
		updated += statuses[name].Updated
	}
	if partition != 2 || unavailable > 2 || updated != 3 {
		t.Errorf("together the members keep %d pods of the previous revision, may lose %d, have %d updated: %+v", partition,
			unavailable, updated, specs)
	}

	// A member that gets a node has one pod more; nobody asked the hub.
	w.create(w.members["west"], &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-9"}})
	sums(w, beacon, beaconParts, counts{6, 6, 6, 4})

	// A member that is not selected any more loses the object, and its pods count no more.
	change(w, policy, func(p *topology.ClusterFederationPolicy) { p.Spec.Clusters.Names = []string{"east"} })
	w.eventually("lamp is in east alone", func() error {
		if specs, _ := inMembers(w, beacon, beaconParts); len(specs) != 1 || specs["east"].Revision != "two" {
			return fmt.Errorf("the members have %+v", specs)
		}
		return nil
	})
	sums(w, beacon, beaconParts, counts{3, 3, 3, 2})

	// Without the label a cluster-scoped object is local, and this hub runs none.
	w.eventually("dark is told that it has no label", func() error {
		if err := w.hub.Get(t.Context(), client.ObjectKeyFromObject(dark), dark); err != nil {
			return err
		}
		if is := condition(&dark.Status, "Federated"); is.Status != metav1.ConditionFalse || is.Reason != "NotLabelled" {
			return fmt.Errorf("it says %+v", dark.Status)
		}
		return nil
	})
	if specs, _ := inMembers(w, dark, beaconParts); len(specs) > 0 {
		t.Errorf("it is in members: %v", specs)
	}

	for _, object := range []client.Object{rack, beacon} {
		if err := w.hub.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	w.eventually("both are gone from the members", func() error {
		racks, _ := inMembers(w, rack, rackParts)
		beacons, _ := inMembers(w, beacon, beaconParts)
		if len(racks)+len(beacons) > 0 {
			return fmt.Errorf("there are %v and %v", racks, beacons)
		}
		return nil
	})
}
