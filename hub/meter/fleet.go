package meter

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// patience ends a look at the cache: it answers from memory, once it is there.
const patience = 10 * time.Second

// fleet is what stands of members and placements.
type fleet struct {
	reader client.Reader
	table  kinds.Table // reads reports
	lag    func(member string) (time.Duration, bool)

	memberLag, memberReady, replicas, behind, notApplied, share, held, unplaced *prometheus.Desc
}

func newFleet(reader client.Reader, table kinds.Table, lag func(string) (time.Duration, bool)) *fleet {
	gauge := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &fleet{
		reader: reader, table: table, lag: lag,
		memberLag: gauge(
			"flotilla_member_lag_seconds",
			"Time since the hub saw the agent of a member renew its Lease.",
			"member",
		),
		memberReady: gauge(
			"flotilla_member_ready",
			"1 if the member is Ready, else 0. A member that takes no part has none.",
			"member",
		),
		replicas: gauge(
			"flotilla_member_replicas",
			"Pods of a member: placed there by the hub, and total, ready and available as the agent reported last.",
			"member",
			"state",
		),
		behind: gauge(
			"flotilla_member_orders_behind",
			"Orders of a member that its agent has not reported as carried out.",
			"member",
		),
		notApplied: gauge(
			"flotilla_member_orders_failed",
			"Orders of a member whose object could not be applied.",
			"member",
		),
		share: gauge(
			"flotilla_allowance_share",
			"Pods that a member is to be permitted to update, to make unavailable, or to add.",
			"member",
			"limit",
		),
		held: gauge(
			"flotilla_allowance_held",
			"Pods that a member may still be using of what it was permitted.",
			"member",
			"limit",
		),
		unplaced: gauge("flotilla_unplaced_replicas", "Replicas that have no place, by the reason.", "reason"),
	}
}

func (f *fleet) describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{f.memberLag, f.memberReady, f.replicas, f.behind, f.notApplied, f.share, f.held,
		f.unplaced} {
		out <- d
	}
}

// sums are those of one member.
type sums struct {
	placed, total, ready, available int64
	behind, failed                  int64
	share, held                     allowance
}

// allowance is a sum of allowances, which are numbers of pods.
type allowance struct{ update, breaks, add int64 }

func (a *allowance) plus(o topology.Budget) {
	a.update += int64(o.Updated)
	a.breaks += int64(o.Unavailable)
	a.add += int64(o.Surge)
}

func (f *fleet) collect(ctx context.Context, out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	members, placements, works := &topology.MemberClusterList{}, &topology.WorkloadPlacementList{}, &work.WorkList{}
	for _, list := range []client.ObjectList{members, placements, works} {
		if err := f.reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			out <- prometheus.NewInvalidMetric(f.memberReady, err)
			return
		}
	}
	all := map[string]*sums{}
	for i := range members.Items {
		all[members.Items[i].Name] = &sums{}
	}
	unplaced := map[string]int64{}
	for i := range placements.Items {
		p := &placements.Items[i]
		addPlacement(all, unplaced, &p.Spec, !f.table[wire.KeyOfPlacement(p).GroupKind()].NoPods)
	}
	for i := range works.Items {
		if cluster, ok := wire.MemberOf(works.Items[i].Namespace); ok && all[cluster] != nil {
			all[cluster].addWork(f.table, &works.Items[i])
		}
	}
	for i := range members.Items {
		f.tell(out, &members.Items[i], all[members.Items[i].Name])
	}
	for reason, replicas := range unplaced {
		out <- prometheus.MustNewConstMetric(f.unplaced, prometheus.GaugeValue, float64(replicas), reason)
	}
}

// addPlacement adds what a decision gives to members that there are. pods says whether its replicas are pods.
func addPlacement(all map[string]*sums, unplaced map[string]int64, spec *topology.WorkloadPlacementSpec, pods bool) {
	for i := range spec.Cells {
		c := &spec.Cells[i]
		if s := all[c.Cluster]; s != nil {
			if pods {
				s.placed += int64(c.Replicas)
			}
			s.share.plus(c.Granted)
			s.held.plus(c.Reserved)
		}
	}
	for _, u := range spec.Unplaced {
		unplaced[u.Reason.Code] += int64(u.Replicas)
	}
}

// addWork adds what a member reported on one Work, as far as it can be true.
func (s *sums) addWork(table kinds.Table, w *work.Work) {
	if w.DeletionTimestamp != nil {
		return
	}
	report, _ := table.ReportOf(w)
	if report == nil || report.Sequence < wire.SequenceOf(w) {
		s.behind++
	}
	if meta.IsStatusConditionFalse(w.Status.Conditions, work.ConditionApplied) {
		s.failed++
	}
	if key, _ := wire.KeyOf(w); report == nil || table[key.GroupKind()].NoPods {
		return
	}
	for _, use := range report.InUse {
		s.total += int64(use.Total)
		s.ready += int64(use.Ready)
		s.available += int64(use.Available)
	}
}

func (f *fleet) tell(out chan<- prometheus.Metric, m *topology.MemberCluster, s *sums) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, append([]string{m.Name}, labels...)...)
	}
	if lag, heard := f.lag(m.Name); heard {
		gauge(f.memberLag, lag.Seconds())
	}
	if meta.IsStatusConditionTrue(m.Status.Conditions, topology.MemberAccepted) {
		ready := 0.0
		if meta.IsStatusConditionTrue(m.Status.Conditions, topology.MemberReady) {
			ready = 1
		}
		gauge(f.memberReady, ready)
	}
	for state, pods := range map[string]int64{"placed": s.placed, "total": s.total, "ready": s.ready,
		"available": s.available} {
		gauge(f.replicas, float64(pods), state)
	}
	gauge(f.behind, float64(s.behind))
	gauge(f.notApplied, float64(s.failed))
	for d, a := range map[*prometheus.Desc]allowance{f.share: s.share, f.held: s.held} {
		gauge(d, float64(a.update), "update")
		gauge(d, float64(a.breaks), "break")
		gauge(d, float64(a.add), "add")
	}
}
