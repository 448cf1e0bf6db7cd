package hub_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub"
	"github.com/flotilla-dev/flotilla/hub/forecast"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/snapshot"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// Variables of the environment. The first two are between a test and the process that plans for it: the file of the
// snapshot, and the file of the plan.
const (
	snapshotVariable = "FLOTILLA_TEST_SNAPSHOT"
	planVariable     = "FLOTILLA_TEST_PLAN"
	// seedVariable gives other changes than those of every run.
	seedVariable = "FLOTILLA_TEST_SEED"
)

// planned is what a process foresees of a workload: its next decision, nil for none.
type planned struct {
	Next   *topology.WorkloadPlacementSpec
	Remove bool
}

// planFromFile is the process that [TestPlanEqualsWhatTheHubDoes] starts: it plans from a file, without a hub.
func planFromFile(ctx context.Context) error {
	text, err := os.ReadFile(os.Getenv(snapshotVariable))
	if err != nil {
		return err
	}
	scheme, err := hub.Scheme()
	if err != nil {
		return err
	}
	reader, err := snapshot.NewReader(scheme, "")
	if err != nil {
		return err
	}
	objects, notes, err := reader.Read("snapshot", text)
	if err != nil || len(notes) > 0 {
		return fmt.Errorf("the reader refuses or leaves out something: %w %v", err, notes)
	}
	s := snapshot.New(scheme)
	if err := errors.Join(s.Put(objects...), store.Index(ctx, s)); err != nil {
		return err
	}
	id, err := store.HubID(ctx, s)
	if err != nil {
		return err
	}
	plans := map[string]planned{}
	for _, object := range objects {
		kind := object.GetObjectKind().GroupVersionKind().GroupKind()
		if _, ok := kinds.Workloads()[kind]; !ok {
			continue
		}
		key := wire.KeyFor(kind, object)
		outcome, err := forecast.New(s, id).Of(ctx, key)
		if err != nil {
			return err
		}
		plans[key.String()] = planned{outcome.Next, outcome.Remove}
	}
	data, err := json.Marshal(plans)
	if err != nil {
		return err
	}
	return os.WriteFile(os.Getenv(planVariable), data, 0o600)
}

// TestPlanEqualsWhatTheHubDoes changes workloads, policies and members at random while the hub is down, records a
// snapshot, lets another process plan from it, and holds that the hub then decides exactly that.
func TestPlanEqualsWhatTheHubDoes(t *testing.T) {
	t.Parallel() // most of its time is waiting
	const rounds = 4
	seed := uint64(1)
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		must(t, err)
	}
	f := newFleet(t, threeMembers)
	w := &world{fleet: f, random: rand.New(rand.NewPCG(seed, 0))}
	decided := 0
	f.quiet() // a hub that is stopped while it writes may be heard after that
	for round := range rounds {
		f.stopHub()
		for _, a := range f.agents {
			a.hush(true) // what members report is part of the snapshot, and stays until the hub has decided
		}
		w.change()
		plans := w.plan(filepath.Join(t.TempDir(), fmt.Sprint(round)))
		before := w.placements()
		f.startHub()
		for key, want := range plans {
			if want.Next == nil {
				want.Next = before[key] // what cannot be decided stays
			} else if before[key] == nil || !equality.Semantic.DeepEqual(before[key], want.Next) {
				decided++
			}
			f.eventually(fmt.Sprintf("round %d, seed %d: %s as planned", round, seed, key), func() error {
				return w.is(key, want)
			})
		}
		f.quiet()
		for key, want := range plans {
			if want.Next == nil && !want.Remove {
				want.Next = before[key]
			}
			if err := w.is(key, want); err != nil {
				t.Errorf("round %d, seed %d: %s does not stay as planned: %v", round, seed, key, err)
			}
		}
		for _, a := range f.agents {
			a.hush(false)
		}
		f.quiet()
	}
	if decided < rounds {
		t.Errorf("only %d decisions were made", decided)
	}
}

// world changes a fleet at random.
type world struct {
	*fleet
	random *rand.Rand
	names  int
}

// change makes some changes of all kinds, and a workload more.
func (w *world) change() {
	w.t.Helper()
	policies := &topology.FederationPolicyList{}
	must(w.t, w.client.List(w.ctx, policies, client.InNamespace(w.namespace)))
	if len(policies.Items) == 0 {
		w.policy("all")
	}
	for i := range policies.Items {
		if p := &policies.Items[i]; w.random.IntN(2) == 0 {
			w.changePolicy(&p.Spec)
			must(w.t, w.client.Update(w.ctx, p))
		}
	}
	members := &topology.MemberClusterList{}
	must(w.t, w.client.List(w.ctx, members))
	for i := range members.Items {
		if m := &members.Items[i]; w.agents[m.Name] != nil && w.random.IntN(3) == 0 {
			w.changeMember(m)
		}
	}
	cloneSets, uds := &apps.CloneSetList{}, &apps.UnitedDeploymentList{}
	must(w.t, w.client.List(w.ctx, cloneSets, client.InNamespace(w.namespace)))
	must(w.t, w.client.List(w.ctx, uds, client.InNamespace(w.namespace)))
	for i := range cloneSets.Items {
		if w.random.IntN(2) == 0 {
			w.changeCloneSet(&cloneSets.Items[i].Spec)
			must(w.t, w.client.Update(w.ctx, &cloneSets.Items[i]))
		}
	}
	for i := range uds.Items {
		if w.random.IntN(2) == 0 {
			uds.Items[i].Spec.Replicas = w.replicas()
			must(w.t, w.client.Update(w.ctx, &uds.Items[i]))
		}
	}
	w.names++
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace,
		Name: fmt.Sprintf("settings-%d", w.names)}}
	must(w.t, w.client.Create(w.ctx, settings))
	w.cloneSet(fmt.Sprintf("cs-%d", w.names), *w.replicas())
	zones := []string{"a", "b", "c", "d"}
	w.random.Shuffle(len(zones), func(i, j int) { zones[i], zones[j] = zones[j], zones[i] })
	ud := w.unitedDeployment(fmt.Sprintf("ud-%d", w.names), *w.replicas(), zones[:1+w.random.IntN(3)]...)
	if len(ud.Spec.Topology.Subsets) > 1 && w.random.IntN(2) == 0 {
		ud.Spec.Topology.Subsets[0].MaxReplicas = new(intstr.FromInt32(int32(w.random.IntN(4))))
		must(w.t, w.client.Update(w.ctx, ud))
	}
}

func (w *world) replicas() *int32 { return new(int32(w.random.IntN(30))) }

func (w *world) changePolicy(spec *topology.FederationPolicySpec) {
	spec.Spread.By = []topology.SpreadBy{topology.SpreadByCluster, topology.SpreadByZone,
		topology.SpreadByRegion}[w.random.IntN(3)]
	spec.Clusters = topology.ClusterSelector{}
	switch w.random.IntN(4) {
	case 0:
		spec.Clusters.Names = []string{"east", "west"}
	case 1:
		spec.Clusters.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}}
	}
}

func (w *world) changeMember(m *topology.MemberCluster) {
	if m.Labels == nil {
		m.Labels = map[string]string{}
	}
	m.Labels["tier"] = []string{"gold", "silver"}[w.random.IntN(2)]
	m.Spec.Region = []string{"", "north", "middle"}[w.random.IntN(3)]
	must(w.t, w.client.Update(w.ctx, m))
	base := m.DeepCopy()
	zones := slices.Clone(threeMembers[m.Name])
	if w.random.IntN(2) == 0 {
		zones = append(zones, "d")
	}
	slices.Sort(zones)
	m.Status.Zones = nil
	for _, zone := range slices.Compact(zones) {
		m.Status.Zones = append(m.Status.Zones, topology.Zone{Name: zone, Nodes: 3, Ready: 3})
	}
	must(w.t, w.client.Status().Patch(w.ctx, m, client.MergeFrom(base)))
}

func (w *world) changeCloneSet(spec *apps.CloneSetSpec) {
	spec.Replicas = w.replicas()
	if w.random.IntN(2) == 0 {
		spec.Template.PodTemplateSpec = podTemplate(fmt.Sprintf("web:%d", w.random.IntN(100)))
	}
	if w.random.IntN(2) == 0 {
		// One that is there, or one that is not.
		name := fmt.Sprintf("settings-%d", w.random.IntN(4))
		spec.Template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}}
	}
	spec.UpdateStrategy.RollingUpdate = &apps.RollingUpdateCloneSetStrategy{
		Partition:      new(intstr.FromString(fmt.Sprintf("%d%%", w.random.IntN(101)))),
		MaxUnavailable: new(intstr.FromInt32(int32(1 + w.random.IntN(4)))),
	}
}

// plan records a snapshot and returns what another process plans from it, for the workloads of the test's namespace.
func (w *world) plan(base string) map[string]planned {
	w.t.Helper()
	s, err := snapshot.Record(w.ctx, w.client, w.client.Scheme(), w.namespace)
	must(w.t, err)
	file, err := os.Create(base + ".yaml")
	must(w.t, err)
	must(w.t, snapshot.Write(file, s))
	must(w.t, file.Close())
	self, err := os.Executable()
	must(w.t, err)
	child := exec.CommandContext(w.ctx, self, "-test.run=^$")
	child.Env = append(os.Environ(), snapshotVariable+"="+base+".yaml", planVariable+"="+base+".json")
	if out, err := child.CombinedOutput(); err != nil {
		w.t.Fatalf("plan in another process: %v\n%s", err, out)
	}
	data, err := os.ReadFile(base + ".json")
	must(w.t, err)
	plans := map[string]planned{}
	must(w.t, json.Unmarshal(data, &plans))
	return plans
}

// placements returns the decisions that stand, by workload.
func (w *world) placements() map[string]*topology.WorkloadPlacementSpec {
	w.t.Helper()
	list := &topology.WorkloadPlacementList{}
	must(w.t, w.client.List(w.ctx, list, client.InNamespace(w.namespace)))
	specs := map[string]*topology.WorkloadPlacementSpec{}
	for i := range list.Items {
		specs[wire.KeyOfPlacement(&list.Items[i]).String()] = &list.Items[i].Spec
	}
	return specs
}

// is tells how the placement of a workload differs from what was planned.
func (w *world) is(name string, want planned) error {
	key, _ := wire.ParseKey(name)
	p := &topology.WorkloadPlacement{}
	err := w.client.Get(context.WithoutCancel(w.ctx), key.Placement(), p)
	switch {
	case apierrors.IsNotFound(err):
		if want.Next == nil {
			return nil
		}
		return err
	case err != nil:
		return err
	case want.Next == nil:
		return fmt.Errorf("placed, and none was planned: %+v", p.Spec)
	}
	if diff := cmp.Diff(want.Next, &p.Spec); diff != "" && !equality.Semantic.DeepEqual(want.Next, &p.Spec) {
		return fmt.Errorf("-planned +decided:\n%s", diff)
	}
	return nil
}
