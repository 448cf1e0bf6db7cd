package decision

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/capacity"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/topology/lending"
	"github.com/flotilla-dev/flotilla/topology/ordinals"
)

func statefulSet(replicas int32, change ...func(*apps.StatefulSet)) *apps.StatefulSet {
	set := &apps.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "db"}}
	set.Spec.Replicas = &replicas
	set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	set.Spec.Template.PodTemplateSpec = podTemplate()
	for _, c := range change {
		c(set)
	}
	return set
}

func statefulSetKind() kinds.Kind { return kinds.Workloads()[apps.StatefulSetKind.GroupKind()] }

// identities is the facts of a StatefulSet.
func identities(t *testing.T, set *apps.StatefulSet) Facts {
	t.Helper()
	w, rejection := statefulSetKind().Read(set)
	if rejection != nil {
		t.Fatalf("rejected: %+v", rejection)
	}
	return Facts{
		Kind: statefulSetKind(), Workload: w, Object: set,
		Failover: topology.Failover{Mode: topology.FailoverFence, After: "5m"},
	}
}

// orderOf returns the ordinals of a member by its manifest.
func orderOf(t *testing.T, set *apps.StatefulSet, spec *topology.WorkloadPlacementSpec, cluster string) []int32 {
	t.Helper()
	var cells []topology.Cell
	for _, c := range spec.Cells {
		if c.Cluster == cluster {
			cells = append(cells, c)
		}
	}
	if len(cells) == 0 {
		return nil
	}
	manifest, err := statefulSetKind().Render(set, &kinds.Order{Cells: cells, Ordinals: spec.Ordinals})
	if err != nil {
		t.Fatal(err)
	}
	out := manifest.Spec.(*apps.StatefulSetSpec)
	start := ptr.Deref(out.Ordinals, apps.StatefulSetOrdinals{}).Start
	have, err := ordinals.NewSet(start, *out.Replicas, out.ReserveOrdinals)
	if err != nil {
		t.Fatal(err)
	}
	var list []int32
	for _, o := range have.All() {
		list = append(list, o)
	}
	return list
}

// showOrdinals prints the ordinals of each member as "east:0,1 west:1000".
func showOrdinals(t *testing.T, set *apps.StatefulSet, spec *topology.WorkloadPlacementSpec) string {
	t.Helper()
	var parts []string
	seen := map[string]bool{}
	for _, c := range spec.Cells {
		if seen[c.Cluster] {
			continue
		}
		seen[c.Cluster] = true
		text := strings.Trim(strings.ReplaceAll(fmt.Sprint(orderOf(t, set, spec, c.Cluster)), " ", ","), "[]")
		parts = append(parts, c.Cluster+":"+text)
	}
	return strings.Join(parts, " ")
}

func startAt(n int32) func(*apps.StatefulSet) {
	return func(set *apps.StatefulSet) { set.Spec.Ordinals = &apps.StatefulSetOrdinals{Start: n} }
}

func TestOrdinalStories(t *testing.T) {
	type stage struct {
		reason, members, reports string
		set                      *apps.StatefulSet
		want                     string
	}
	reserve := func(set *apps.StatefulSet) {
		set.Spec.ReserveOrdinals = []intstr.IntOrString{intstr.FromInt32(0), intstr.FromString("1000-1001")}
	}
	for name, stages := range map[string][]stage{
		"scale": {
			{"placed", "east west", "", statefulSet(4), "east:0,1 west:1000,1001"},
			{"more", "east west", "east:2 west:2", statefulSet(5), "east:0,1 west:1000,1001,1002"},
			{"a member joins", "east north west", "east:2 west:3", statefulSet(6),
				"east:0,1 north:2000 west:1000,1001,1002"},
			{"fewer: the highest of each member go", "east north west", "east:2 north:1 west:3", statefulSet(3),
				"east:0 north:2000 west:1000"},
			{"nothing", "east north west", "east:1 north:1 west:1", statefulSet(0), "east: north: west:"},
			{"the same again", "east north west", "east:0 north:0 west:0", statefulSet(3), "east:0 north:2000 west:1000"},
		},
		"a lost member": {
			{"placed", "east south west", "", statefulSet(6), "east:0,1 south:1000,1001 west:2000,2001"},
			{"it is silent", "east south west!", "east:2 south:2 west:2", statefulSet(6),
				"east:0,1 south:1000,1001 west:2000,2001"},
			{"it is fenced: its names go on elsewhere", "east south west*", "east:2 south:2 west:2", statefulSet(6),
				"east:0,1,2000 south:1000,1001,2001 west:"},
			{"it is back, and has nothing", "east south west", "east:3 south:3 west:2", statefulSet(6),
				"east:0,1,2000 south:1000,1001,2001 west:"},
			{"it gets new ordinals", "east south west", "east:3 south:3 west:0", statefulSet(8),
				"east:0,1,2000 south:1000,1001,2001 west:3000,3001"},
		},
		"a lost member that nobody replaces": {
			{"placed", "west", "", statefulSet(2), "west:0,1"},
			{"it is fenced", "west*", "west:2", statefulSet(2), "west:0,1"},
			{"another joins", "south west*", "west:2", statefulSet(2), "south:0,1 west:"},
		},
		"a drain moves pods, and no ordinal": {
			{"placed", "east west", "", statefulSet(2), "east:0 west:1000"},
			{"one goes", "east west~", "east:1 west:1", statefulSet(2), "east:0 west:"},
			{"it is gone", "east west~", "east:1 west:0", statefulSet(2), "east:0,1 west:"},
			{"the drain ends", "east west", "east:2 west:0", statefulSet(3), "east:0,1 west:1000"},
		},
		"reserved ordinals": {
			{"placed", "east west", "", statefulSet(4, reserve), "east:1,2 west:1002,1003"},
			{"free again", "east west", "east:2 west:2", statefulSet(4), "east:0,1 west:1000,1001"},
		},
		"start": {
			{"placed", "east west", "", statefulSet(2, startAt(5)), "east:5 west:1005"},
			{"it stays while pods run", "east west", "east:1 west:1", statefulSet(2, startAt(1005)), "east:5 west:1005"},
			{"also on their way out", "east west", "east:1 west:1", statefulSet(0, startAt(1005)), "east: west:"},
			{"not yet", "east west", "east:0 west:1", statefulSet(2, startAt(1005)), "east:5 west:1005"},
			{"away", "east west", "east:1 west:1", statefulSet(0, startAt(1005)), "east: west:"},
			{"none is left", "east west", "east:0 west:0", statefulSet(2, startAt(1005)), "east:1005 west:2005"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var last *topology.WorkloadPlacementSpec
			for _, s := range stages {
				f := identities(t, s.set)
				f.Last, f.Members, f.Reports = last, flags(s.members), told(last, s.reports)
				d := planOf(t, f)
				if got := showOrdinals(t, s.set, &d.Spec); got != s.want {
					t.Fatalf("%s:\ngot  %s\nwant %s", s.reason, got, s.want)
				}
				f.Last = &d.Spec
				if again := planOf(t, f); !cmp.Equal(again.Spec, d.Spec) {
					t.Fatalf("%s: a decision from its own result changes:\n%s", s.reason, cmp.Diff(d.Spec, again.Spec))
				}
				last = &d.Spec
			}
		})
	}
}

// planOf is [plan] for a kind that the facts name.
func planOf(t *testing.T, f Facts) Decision {
	t.Helper()
	f.Object = nil
	return plan(t, f)
}

func TestZonesDoNotDivideOrdinals(t *testing.T) {
	f := identities(t, statefulSet(4))
	f.Members, f.Spread.By = members("east/a,b west/a,b"), topology.SpreadByZone
	d := planOf(t, f)
	if got := show(d.Spec.Cells); got != "east:2 west:2" || len(d.Notes) != 1 {
		t.Errorf("%s, %+v", got, d.Notes)
	}
}

func TestReplaceIsCarriedOutAsFence(t *testing.T) {
	w := open(3)
	replace := topology.Failover{Mode: topology.FailoverReplace}
	if f, remark := FailoverOf(&w, replace); f.Mode != topology.FailoverReplace || remark != "" {
		t.Errorf("%+v %q without ordinals", f, remark)
	}
	w.Ordinals = &kinds.Ordinals{}
	if f, remark := FailoverOf(&w, replace); f.Mode != topology.FailoverFence || remark == "" {
		t.Errorf("%+v %q with ordinals", f, remark)
	}
}

func TestAdoptionOfOneNameInTwoMembersIsRejected(t *testing.T) {
	f := identities(t, statefulSet(3))
	f.Members, f.Adopt = flags("east west"), true
	f.Found = map[string]Found{"east": {}, "west": {"": 3}}
	d := planOf(t, f)
	if got := showOrdinals(t, statefulSet(3), &d.Spec); got != "west:0,1,2" {
		t.Errorf("adopted pods are %s", got)
	}
	f.Found["east"] = Found{"": 1}
	if _, rejection := Plan(f); rejection == nil || rejection.Reason != AdoptionRefused {
		t.Errorf("%+v", rejection)
	}
}

func TestOrdinalsUsedUp(t *testing.T) {
	f := identities(t, statefulSet(3))
	f.Members = flags("east west")
	d := planOf(t, f)
	f.Last = &d.Spec
	f.Last.Ordinals.Next = 1<<31 - 1000
	f.Workload = identities(t, statefulSet(2500)).Workload
	d = planOf(t, f)
	want := "east:1000 west:1000 OrdinalsUsedUp:250 OrdinalsUsedUp:250"
	if got := showMoves(&d.Spec); got != want || !d.Notes[0].Stalled {
		t.Errorf("%s, %+v", got, d.Notes)
	}
}

// TestUpdatesGoFromTheHighestOrdinal: a member with lower ordinals waits for those of higher ones.
func TestUpdatesGoFromTheHighestOrdinal(t *testing.T) {
	set := statefulSet(6)
	f := identities(t, set)
	f.Members = flags("east south west")
	reports := func(updated ...int32) {
		f.Reports = map[string]capacity.Report{}
		for i, name := range []string{"east", "south", "west"} {
			f.Reports[name] = capacity.Report{Sequence: f.Last.Sequence, Applied: true, Use: map[string]work.SubsetUse{"": {
				Desired: 2, Total: 2, Ready: 2, Available: 2, Updated: updated[i], UpdatedReady: updated[i],
				UpdatedAvailable: updated[i],
			}}}
		}
	}
	decide := func(want string) {
		t.Helper()
		d := planOf(t, f)
		var granted []string
		for _, c := range d.Spec.Cells {
			granted = append(granted, fmt.Sprintf("%s:%d/%d", c.Cluster, c.Granted.Updated, c.Granted.Unavailable))
		}
		if got := strings.Join(granted, " "); got != want {
			t.Fatalf("granted %s, want %s", got, want)
		}
		f.Last = &d.Spec
	}
	decide("east:2/0 south:2/1 west:2/0")
	reports(2, 2, 2)
	decide("east:2/0 south:2/1 west:2/0")
	f.Workload.Revision = "two"
	decide("east:0/0 south:0/0 west:2/0") // south has not confirmed that it gave its one up
	reports(0, 0, 0)
	decide("east:0/0 south:0/0 west:2/1")
	reports(0, 0, 1)
	decide("east:0/0 south:0/0 west:2/1")
	reports(0, 0, 2)
	decide("east:0/0 south:2/0 west:2/0")
	reports(0, 0, 2)
	decide("east:0/0 south:2/1 west:2/0")
	reports(0, 2, 2)
	decide("east:2/0 south:2/0 west:2/0")
}

// TestUnavailablePodsAreUpdatedWhateverTheirOrdinal: pods of south use up the limit until they are updated, and with it
// what west waits for.
func TestUnavailablePodsAreUpdatedWhateverTheirOrdinal(t *testing.T) {
	f := identities(t, statefulSet(6))
	f.Members = flags("east south west")
	d := planOf(t, f)
	for _, revision := range []string{"one", "two"} {
		f.Last, f.Workload.Revision = &d.Spec, revision
		f.Reports = told(f.Last, "east:2 south:0/2 west:0/2")
		d = planOf(t, f)
	}
	var granted []string
	for _, c := range d.Spec.Cells {
		granted = append(granted, fmt.Sprintf("%s:%d/%d", c.Cluster, c.Granted.Updated, c.Reserved.Unavailable))
	}
	if got := strings.Join(granted, " "); got != "east:0/0 south:2/1 west:2/0" {
		t.Errorf("granted %s", got)
	}
}

func TestUnorderedUpdatesGoEverywhere(t *testing.T) {
	f := identities(t, statefulSet(6))
	f.Members = flags("east south west")
	f.Workload.Ordinals.Unordered = true
	d := planOf(t, f)
	f.Last, f.Workload.Revision = &d.Spec, "two"
	d = planOf(t, f)
	for _, c := range d.Spec.Cells {
		if c.Granted.Updated != 2 {
			t.Errorf("%+v", c)
		}
	}
}

// TestNoTwoPodsHaveOneName is I8: in a fleet in which anything is lost and comes back, no ordinal runs in two members
// at any time, and each member has an ordinal for each of its replicas.
func TestNoTwoPodsHaveOneName(t *testing.T) {
	for seed := range uint64(150) {
		w := &identityWorld{t: t, r: rand.New(rand.NewPCG(seed, 1)), pods: map[string][]int32{},
			orders: map[string]identityOrder{}, down: map[string]bool{}, fenced: map[string]bool{}}
		for step := range 40 {
			w.step()
			if err := w.check(); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
		}
	}
}

// identityWorld are members that carry out orders late, and are lost now and then.
type identityWorld struct {
	t        *testing.T
	r        *rand.Rand
	replicas int32
	reserved []intstr.IntOrString
	last     *topology.WorkloadPlacementSpec
	// pods are the ordinals that run, orders what a member acts on.
	pods         map[string][]int32
	orders       map[string]identityOrder
	down, fenced map[string]bool
	tainted      string
}

type identityOrder struct {
	sequence int64
	ordinals []int32
}

var identityMembers = strings.Fields("a b c d")

func (w *identityWorld) step() {
	name := identityMembers[w.r.IntN(len(identityMembers))]
	switch w.r.IntN(8) {
	case 0:
		w.replicas = w.r.Int32N(12)
	case 1:
		w.down[name] = true
	case 2:
		w.fence(name)
	case 3: // it is back, and reads its order before it acts
		delete(w.down, name)
		delete(w.fenced, name)
		w.obey(name)
	case 4:
		if w.tainted = name; w.r.IntN(2) == 0 {
			w.tainted = ""
		}
	case 5:
		if w.reserved = nil; w.r.IntN(2) == 0 {
			w.reserved = []intstr.IntOrString{intstr.FromInt32(w.r.Int32N(4)), intstr.FromString("1000-1002")}
		}
	}
	w.decide()
	for _, name := range identityMembers {
		if !w.down[name] && w.r.IntN(3) > 0 {
			w.obey(name)
		}
		w.work(name)
	}
}

// fence is a person who made sure that nothing runs in a member that is down.
func (w *identityWorld) fence(name string) {
	if w.down[name] {
		w.fenced[name], w.pods[name] = true, nil
		w.orders[name] = identityOrder{sequence: w.orders[name].sequence}
	}
}

func (w *identityWorld) set() *apps.StatefulSet {
	return statefulSet(w.replicas, func(set *apps.StatefulSet) { set.Spec.ReserveOrdinals = w.reserved })
}

func (w *identityWorld) decide() {
	f := identities(w.t, w.set())
	f.Last, f.Reports = w.last, map[string]capacity.Report{}
	for _, name := range identityMembers {
		m := Member{Name: name, Selected: true, Ready: !w.down[name], Lost: w.fenced[name], Silent: w.down[name]}
		if name == w.tainted {
			m.Taint = "NoExecute"
		}
		f.Members = append(f.Members, m)
		if order, ok := w.orders[name]; ok {
			n := int32(len(w.pods[name]))
			f.Reports[name] = capacity.Report{Sequence: order.sequence, Applied: true, Use: map[string]work.SubsetUse{"": {
				Desired: int32(len(order.ordinals)), Total: n, Ready: n, Available: n, Updated: n, UpdatedReady: n,
				UpdatedAvailable: n,
			}}}
		}
	}
	d := planOf(w.t, f)
	w.last = &d.Spec
}

// obey makes a member act on its newest order.
func (w *identityWorld) obey(name string) {
	if w.last == nil {
		return
	}
	for _, c := range w.last.Cells {
		if c.Cluster == name {
			w.orders[name] = identityOrder{c.Sequence, orderOf(w.t, w.set(), w.last, name)}
			return
		}
	}
}

// work deletes and creates some pods of a member, also of one that is cut off and was not fenced.
func (w *identityWorld) work(name string) {
	order := w.orders[name].ordinals
	w.pods[name] = slices.DeleteFunc(w.pods[name], func(o int32) bool {
		return !slices.Contains(order, o) && w.r.IntN(2) == 0
	})
	for _, o := range order {
		if !slices.Contains(w.pods[name], o) && w.r.IntN(2) == 0 {
			w.pods[name] = append(w.pods[name], o)
		}
	}
}

func (w *identityWorld) check() error {
	owner, sum := map[int32]string{}, w.last.Placed
	for _, name := range slices.Sorted(maps.Keys(w.pods)) {
		for _, o := range w.pods[name] {
			if owner[o] != "" {
				return fmt.Errorf("db-%d runs in %s and %s", o, owner[o], name)
			}
			owner[o] = name
		}
	}
	for _, u := range w.last.Unplaced {
		sum += u.Replicas
	}
	if sum != w.replicas {
		return fmt.Errorf("%d of %d replicas are accounted for: %s", sum, w.replicas, showMoves(w.last))
	}
	var reserved lending.Amounts
	for _, c := range w.last.Cells {
		n := int32(len(orderOf(w.t, w.set(), w.last, c.Cluster)))
		if n != c.Replicas {
			return fmt.Errorf("%s has %d replicas and %d ordinals", c.Cluster, c.Replicas, n)
		}
		reserved.Unavailable += c.Reserved.Unavailable
	}
	if reserved.Unavailable > 1 {
		return fmt.Errorf("%d pods may be unavailable, 1 is allowed", reserved.Unavailable)
	}
	return nil
}
