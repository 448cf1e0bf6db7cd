package decision

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/capacity"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/topology/lending"
)

// limitRow is what a user asks of a CloneSet of 100 pods, and what it is to mean.
type limitRow struct {
	asks                       string
	partition, breaks, surge   string // "" for what is not set
	what                       func(lending.Amounts) int32
	one                        int32 // in one cluster
	copied3, copied7, copied20 int32 // where the same manifest runs in each of so many clusters
}

// limitRows are part 3.3 of the specification of federations. The numbers of one cluster and of copies in three are
// stated there.
func limitRows() []limitRow {
	updated := func(a lending.Amounts) int32 { return a.Updated }
	down := func(a lending.Amounts) int32 { return a.Unavailable }
	added := func(a lending.Amounts) int32 { return a.Surge }
	return []limitRow{
		{"`partition: 20%`: updated", "20%", "", "", updated, 80, 79, 79, 80},
		{"`partition: 50%`: updated", "50%", "", "", updated, 50, 49, 49, 40},
		{"`partition: 90%`: updated", "90%", "", "", updated, 10, 9, 7, 20},
		{"`partition: 99%`: updated", "99%", "", "", updated, 1, 3, 7, 20},
		{"`partition: 20`: updated", "20", "", "", updated, 80, 40, 0, 0},
		{"`partition: 33`: updated", "33", "", "", updated, 67, 1, 0, 0},
		{"`partition: 34`: updated", "34", "", "", updated, 66, 0, 0, 0},
		{"`partition: 90`: updated", "90", "", "", updated, 10, 0, 0, 0},
		{"`maxUnavailable: 20%`: down at once", "", "20%", "", down, 20, 21, 21, 20},
		{"`maxUnavailable: 20%` with `maxSurge: 10`: down at once", "", "20%", "10", down, 20, 18, 16, 20},
		{"`maxUnavailable: 1`: down at once", "", "1", "", down, 1, 3, 7, 20},
		{"`maxSurge: 10`: above replicas at once", "", "0", "10", added, 10, 30, 70, 100},
	}
}

func (r *limitRow) strategy() *apps.RollingUpdateCloneSetStrategy {
	s := &apps.RollingUpdateCloneSetStrategy{}
	for text, to := range map[*string]**intstr.IntOrString{&r.partition: &s.Partition, &r.breaks: &s.MaxUnavailable,
		&r.surge: &s.MaxSurge} {
		if *text != "" {
			*to = new(intstr.Parse(*text))
		}
	}
	return s
}

// copies returns what comes about where the manifest is copied into each of k clusters, which share 100 replicas
// evenly.
func (r *limitRow) copies(t *testing.T, k int32) int32 {
	t.Helper()
	s, sum := r.strategy(), int32(0)
	for i := range k {
		n := 100 / k
		if i < 100%k {
			n++
		}
		l, err := budget.Resolve(budget.Strategy{Partition: s.Partition, MaxUnavailable: s.MaxUnavailable,
			MaxSurge: s.MaxSurge}, n)
		if err != nil {
			t.Fatal(err)
		}
		// No cluster can add more pods for an update than it has pods to update.
		sum += r.what(lending.Amounts{Updated: n - l.Partition, Unavailable: l.MaxUnavailable, Surge: min(l.MaxSurge, n)})
	}
	return sum
}

// rollOut updates a CloneSet of 100 pods over k members that do at once whatever they may, round by round, and returns
// how many pods were updated at the end, and the most that were down and above replicas at once.
func (r *limitRow) rollOut(t *testing.T, k int) lending.Amounts {
	t.Helper()
	with := func(image string) kinds.Workload {
		w, refusal := readCloneSet(cloneSet(func(cs *apps.CloneSet) {
			cs.Spec.Replicas, cs.Spec.UpdateStrategy.RollingUpdate = new(int32(100)), r.strategy()
			cs.Spec.Template.Spec.Containers[0].Image = image
		}))
		if refusal != nil {
			t.Fatal(refusal)
		}
		return w
	}
	var names []string
	for i := range k {
		names = append(names, fmt.Sprintf("m%02d", i))
	}
	f := Facts{Workload: with("web:1"), Members: members(strings.Join(names, " "))}
	d := plan(t, f)
	carryOut(&f, &d)
	f.Workload = with("web:2")
	updated, most := map[string]int32{}, lending.Amounts{}
	const rounds = 400 // one pod after the other takes a round for each, and two for each hand-over
	for range rounds {
		d = plan(t, f)
		still := f.Last.Revision == d.Spec.Revision && cmp.Equal(f.Last.Cells, d.Spec.Cells)
		f.Last, f.Reports = &d.Spec, map[string]capacity.Report{}
		var held, now lending.Amounts
		for i := range d.Spec.Cells {
			c := &d.Spec.Cells[i]
			held.Updated, held.Unavailable, held.Surge = held.Updated+c.Reserved.Updated,
				held.Unavailable+c.Reserved.Unavailable, held.Surge+c.Reserved.Surge
			todo := max(min(c.Granted.Updated, c.Replicas)-updated[c.Cluster], 0)
			down := min(c.Granted.Unavailable, todo)
			added := min(c.Granted.Surge, todo-down)
			updated[c.Cluster] += down + added
			now.Updated, now.Unavailable, now.Surge = now.Updated+updated[c.Cluster], now.Unavailable+down, now.Surge+added
			f.Reports[c.Cluster] = capacity.Report{Sequence: c.Sequence, Applied: true, Use: map[string]work.SubsetUse{"": {
				Desired: c.Replicas, Total: c.Replicas + added, Available: c.Replicas - down, Updated: updated[c.Cluster],
				CanGoBack: updated[c.Cluster] < c.Replicas,
			}}}
		}
		if l := d.Spec.Limits[0]; held.Updated > l.Updated || held.Unavailable > l.Unavailable || held.Surge > l.Surge {
			t.Fatalf("cells hold %+v together, of %+v", held, l)
		}
		most = lending.Amounts{Updated: max(most.Updated, now.Updated), Unavailable: max(most.Unavailable, now.Unavailable),
			Surge: max(most.Surge, now.Surge)}
		if still && now.Unavailable+now.Surge == 0 {
			return most
		}
	}
	t.Fatalf("no end after %d rounds: %v", rounds, updated)
	return most
}

// TestGlobalLimits: a rollout over 1, 3, 7 and 20 members does what it does in one cluster, number by number; and the
// table that says so in the documentation, beside what copies of the manifest do, has these numbers.
func TestGlobalLimits(t *testing.T) {
	var table strings.Builder
	table.WriteString("| 100 pods | One cluster | Flotilla over 1, 3, 7, 20 members | Copies in 3 clusters | in 7 | in " +
		"20 |\n|---|---|---|---|---|---|\n")
	for _, r := range limitRows() {
		t.Run(r.asks, func(t *testing.T) {
			var got []string
			for _, k := range []int{1, 3, 7, 20} {
				n := r.what(r.rollOut(t, k))
				if n != r.one {
					t.Errorf("over %d members it is %d, want the %d of one cluster", k, n, r.one)
				}
				got = append(got, fmt.Sprint(n))
			}
			for k, want := range map[int32]int32{1: r.one, 3: r.copied3, 7: r.copied7, 20: r.copied20} {
				if n := r.copies(t, k); n != want {
					t.Errorf("copied into %d clusters it is %d, want %d", k, n, want)
				}
			}
			fmt.Fprintf(&table, "| %s | %d | %s | %d | %d | %d |\n", r.asks, r.one, strings.Join(got, ", "), r.copied3,
				r.copied7, r.copied20)
		})
	}
	const page = "../../docs/tasks/canary-over-clusters.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), table.String()) {
		t.Errorf("%s does not have this table:\n%s", page, table.String())
	}
}
