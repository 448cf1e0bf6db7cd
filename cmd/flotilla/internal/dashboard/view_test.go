package dashboard

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/tree"
	"github.com/flotilla-dev/flotilla/e2e/wording"
)

// read decodes a part of a view.
func read[T any](t *testing.T, view parts, name string) (value T) {
	t.Helper()
	if err := json.Unmarshal(view[name], &value); err != nil {
		t.Fatalf("read %s: %v (%s)", name, err, view[name])
	}
	return value
}

// TestNeeds: the most urgent matter comes first, each with its sentence and the commands that end it.
func TestNeeds(t *testing.T) {
	f := fleetOf(example())
	type row struct{ subject, kind, command string }
	var got []row
	for _, need := range f.needs {
		if wrong := wording.Wrong(need.Sentence); wrong != "" || need.Sentence == "" {
			t.Errorf("%s: %q: %s", need.Subject, need.Sentence, wrong)
		}
		got = append(got, row{need.Subject, need.Kind, strings.Join(need.Commands, "; ")})
	}
	want := []row{
		{"CloneSet shop/search", "Wave failed", "flotilla rollout retry cloneset/search -n shop --context hub; " +
			"flotilla rollout approve cloneset/search -n shop --context hub; " +
			"flotilla rollout undo cloneset/search -n shop --context hub"},
		{"StatefulSet data/db", "Approval", "flotilla rollout approve statefulset/db -n data --context hub"},
		{"CloneSet shop/api", "Approval", "flotilla rollout approve cloneset/api -n shop --context hub"},
		{"DaemonSet shop/log-shipper", "Stalled", "flotilla why daemonset/log-shipper -n shop --context hub"},
		{"Member north", "NotReady", "flotilla get clusters north --context hub"},
		{"CloneSet shop/cart", "ImagePullBackOff", "flotilla logs -C west cloneset/cart -n shop --context hub; " +
			"flotilla why cloneset/cart -n shop --context hub"},
		{"CloneSet shop/mail", "Paused", "flotilla rollout resume cloneset/mail -n shop --context hub"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(row{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if who := f.needs[1].Who; who != "You may not patch a StatefulSet in namespace data: ask a person who may." {
		t.Errorf("who may approve db: %q", who)
	}
	if who := f.needs[2].Who; who != "You may do it: you may patch a CloneSet in namespace shop." {
		t.Errorf("who may approve api: %q", who)
	}
}

// TestUnplaced: replicas without a cell are a need with the reason of the placement; those that move are not.
func TestUnplaced(t *testing.T) {
	in := example()
	in.tree.Workloads = in.tree.Workloads[len(in.tree.Workloads)-1:]
	p := topology.WorkloadPlacement{ObjectMeta: metav1.ObjectMeta{Namespace: "batch", Name: "cloneset-job-13"}}
	p.Spec.Workload = topology.WorkloadReference{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Name: "job-13"}
	p.Spec.Unplaced = []topology.Unplaced{{Replicas: 2, Reason: topology.Reason{Code: "Moving"}},
		{Replicas: 4, Reason: topology.Reason{Code: "Full"}}}
	p.Spec.Cells = []topology.Cell{{Cluster: "ohio", Zone: "a", Reason: topology.Reason{Code: "Strange"}}}
	in.placements, in.members = []topology.WorkloadPlacement{p}, nil
	f := fleetOf(in)
	if len(f.needs) != 1 || !strings.HasPrefix(f.needs[0].Sentence, "4 of 6 replicas have no place: ") {
		t.Errorf("needs are %+v", f.needs)
	}
	view := viewOf(f, query{Open: "CloneSet/batch/job-13"})
	row := read[partRow](t, view, "o/c/no region/a/ohio")
	if !strings.Contains(row.Note, "Strange") {
		t.Errorf("the reason of a number is %q", row.Note)
	}
}

// TestViewFilters: the server filters and pages, and goes back to the last page where there are fewer.
func TestViewFilters(t *testing.T) {
	f := fleetOf(example())
	for _, tc := range []struct {
		name  string
		query query
		total int
		rows  []string
	}{
		{"by namespace", query{Namespace: "data"}, 1, []string{"w/StatefulSet/data/db"}},
		{"by a part of the name", query{Text: "sea"}, 1, []string{"w/CloneSet/shop/search"}},
		{"by an image", query{Text: "api:1.27"}, 1, []string{"w/CloneSet/shop/api"}},
		{"by a reason", query{Text: "typo"}, 1, []string{"w/CloneSet/shop/cart"}},
		{"not well, as a member is lost", query{NotWell: true, Text: "united"}, 1,
			[]string{"w/UnitedDeployment/shop/web"}},
		{"not well", query{NotWell: true, Text: "clone", Namespace: "shop"}, 4, []string{"w/CloneSet/shop/api",
			"w/CloneSet/shop/cart", "w/CloneSet/shop/mail", "w/CloneSet/shop/search"}},
		{"a page behind the last", query{Page: 1000}, 21, []string{"w/CloneSet/batch/job-13"}},
		{"nothing", query{Text: "no such"}, 0, []string{}},
	} {
		got := read[list](t, viewOf(f, tc.query), "list")
		if got.Total != tc.total || !cmp.Equal(got.Rows, tc.rows) {
			t.Errorf("%s: %d, %v", tc.name, got.Total, got.Rows)
		}
	}
	view := viewOf(f, query{Text: "typo"})
	if needs := read[list](t, view, "needs"); needs.Total != 1 {
		t.Errorf("%d needs pass the filter", needs.Total)
	}
	if h := read[head](t, view, "head"); h.Needs != len(f.needs) {
		t.Errorf("of %d needs the head counts %d", len(f.needs), h.Needs)
	}
}

// TestPods: the sum of pods leaves out kinds that own none.
func TestPods(t *testing.T) {
	in := example()
	in.tree.Workloads = []tree.Workload{workload("CloneSet", "shop", "api", "", pods(5, 4, 5)),
		workload("SidecarSet", "", "log", "", pods(90, 30, 90)),
		workload("ResourceDistribution", "", "pull-secret", "", pods(7, 7, 7))}
	if h := read[head](t, viewOf(fleetOf(in), query{}), "head"); h.Desired != 5 || h.PodsReady != 4 {
		t.Errorf("%d of %d pods are Ready", h.PodsReady, h.Desired)
	}
}

// TestOpen: a workload in full has its regions, zones and clusters, and names what is gone.
func TestOpen(t *testing.T) {
	f := fleetOf(example())
	view := viewOf(f, query{Open: "CloneSet/shop/api"})
	open := read[openView](t, view, "open")
	want := []string{"o/r/ap", "o/z/ap/", "o/c/ap//tokyo", "o/r/eu", "o/z/eu/", "o/c/eu//east", "o/r/us", "o/z/us/",
		"o/c/us//ohio"}
	if diff := cmp.Diff(want, open.Rows); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if open.Wave == nil || open.Wave.Of != 3 || len(open.Needs) != 1 || len(open.Facts) != 2 {
		t.Errorf("it is %+v", open)
	}
	row := read[partRow](t, view, "o/r/us")
	if diff := cmp.Diff([]any{30.0, 30.0, 30.0, 0.0}, row.Numbers); diff != "" {
		t.Errorf("the numbers of a region: -want +got:\n%s", diff)
	}
	if gone := read[openView](t, viewOf(f, query{Open: "CloneSet/shop/gone"}), "open"); !gone.Gone {
		t.Errorf("it is %+v", gone)
	}
}

// TestWithoutWorks: without the right to read Works numbers are those of the workloads, and unknown by cluster.
func TestWithoutWorks(t *testing.T) {
	in := example()
	ready := int64(88)
	in.noWorks, in.own = true, map[string]ownNumbers{"CloneSet/shop/api": {ready: &ready}}
	view := viewOf(fleetOf(in), query{Open: "CloneSet/shop/api", Text: "shop/api"})
	row := read[workloadRow](t, view, "w/CloneSet/shop/api")
	if diff := cmp.Diff([]any{90.0, 90.0, 88.0, nil}, row.Numbers); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if open := read[openView](t, view, "open"); len(open.Facts) != 0 {
		t.Errorf("images are counted: %q", open.Facts)
	}
	if diff := cmp.Diff([]any{30.0, 30.0, nil, nil}, read[partRow](t, view, "o/c/us//ohio").Numbers); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestFreshness: a member is late after twice the interval of renewals, and a lost one says since when.
func TestFreshness(t *testing.T) {
	in := example()
	for name, ago := range map[string]int{"east": 5, "west": 25, "north": 90} {
		at := metav1.NewMicroTime(started().Add(-secondsOf(ago)))
		in.leases = append(in.leases, coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-" + name, Name: name},
			Spec:       coordinationv1.LeaseSpec{RenewTime: &at},
		})
	}
	view := viewOf(fleetOf(in), query{})
	for name, want := range map[string]square{
		"east": {"east", "Ready", "east · Ready · last contact less than 20 s ago · region eu · zone a · 3 of 3 nodes ready"},
		"west": {"west", "Late",
			"west · Late · no contact since 2026-11-28 09:29:35 UTC · region eu · zone b · 3 of 3 nodes ready"},
		"north": {"north", "NotReady", "north · NotReady · no contact since 2026-11-28 09:28:30 UTC · region eu · zone c · " +
			"3 of 3 nodes ready · the agent has not renewed its Lease for 40s: look at its log, and at the network between it " +
			"and the hub"},
	} {
		if diff := cmp.Diff(want, read[square](t, view, "m/"+name)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

// TestLargeView: whatever the fleet, a view is small, and members above 200 are counted by region and zones.
func TestLargeView(t *testing.T) {
	f := fleetOf(large(1000, 200))
	const most = 30 << 10
	size := func(view parts) (n int) {
		for name, data := range view {
			n += len(name) + len(data)
		}
		return n
	}
	view := viewOf(f, query{Open: "CloneSet/team-07/service-0007"})
	if n := size(view); n > most {
		t.Errorf("a view has %d bytes", n)
	}
	s := read[strip](t, view, "strip")
	if !s.Grouped || len(s.Rows) != 30 {
		t.Errorf("the strip is %+v", s)
	}
	first := read[group](t, view, s.Rows[0])
	one := read[strip](t, viewOf(f, query{Group: first.Name}), "strip")
	if one.Grouped || len(one.Rows) != first.Total || first.Bad == 0 {
		t.Errorf("the group %+v is %+v", first, one)
	}
	long := strings.Repeat("x", 100_000)
	in := example()
	for i := range in.tree.Workloads {
		in.tree.Workloads[i].Problem, in.tree.Workloads[i].Waiting = long, long
	}
	if n := size(viewOf(fleetOf(in), query{})); n > 2*most {
		t.Errorf("a view of long messages has %d bytes", n)
	}
}

// TestHostileTexts: names that no API server accepts give no command, and texts lose what draws nothing or turns others
// around.
func TestHostileTexts(t *testing.T) {
	for _, name := range []string{"a;reboot", "$(reboot)", "-rf", "a b", "", "a\nb", "ä"} {
		w := &tree.Workload{Kind: "CloneSet", Namespace: "shop", Name: name}
		if got := commandFor(w, "why", ""); got != "" {
			t.Errorf("%q gives the command %q", name, got)
		}
	}
	if got := clip("a\u202eb\x1b[31m\nc\u200d"); got != "ab[31m c" {
		t.Errorf("the text is %q", got)
	}
	if got := whole("flotilla why a", "flotilla why "+strings.Repeat("a", 500)); len(got) != 1 {
		t.Errorf("the commands are %q", got)
	}
	in := example()
	in.members[0].Status.Region, in.members[0].Spec.Region = strings.Repeat("x", 100_000)+"\u202e", ""
	in.members[0].Status.Zones[0].Name = strings.Repeat("z", 100_000)
	for name, data := range viewOf(fleetOf(in), query{Open: "CloneSet/shop/api"}) {
		if len(name)+len(data) > 8<<10 || strings.Contains(name, "\u202e") {
			t.Errorf("a part has a name of %d bytes and %d bytes", len(name), len(data))
		}
	}
	if got := clip(strings.Repeat("ä", 500)); len([]rune(got)) != mostText {
		t.Errorf("the text has %d characters", len([]rune(got)))
	}
}

// TestQueries: parameters that make no sense count as absent.
func TestQueries(t *testing.T) {
	got := readQuery(url.Values{"page": {"-3"}, "needs": {"x"}, "part": {"2"}, "only": {"all"}, "q": {"API"}})
	if diff := cmp.Diff(query{Text: "api", OpenPage: 2}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestDifferences: a change has what differs, and applied to the earlier view gives the later one.
func TestDifferences(t *testing.T) {
	in := example()
	before := viewOf(fleetOf(in), query{})
	if _, some := differences(before, viewOf(fleetOf(in), query{})); some {
		t.Error("the same fleet differs from itself")
	}
	in.tree.Workloads[0].Wave = nil
	after := viewOf(fleetOf(in), query{})
	e, some := differences(before, after)
	if !some || len(e.Set) > 4 || len(e.Drop) != 1 {
		t.Errorf("the change sets %d parts and drops %v", len(e.Set), e.Drop)
	}
	for name, data := range e.Set {
		before[name] = data
	}
	for _, name := range e.Drop {
		delete(before, name)
	}
	if diff := cmp.Diff(after, before); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
