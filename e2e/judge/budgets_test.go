package judge

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-dev/flotilla/topology/lending"
)

// limited places budget web with this limit.
func (p *past) limited(sequence int64, most int32) *past {
	return p.add(Entry{Cluster: "hub", Placement: &Placement{Workload: "web-budget", Generation: sequence,
		Sequence: sequence,
		Subsets: map[string]Subset{"": {Whole: true, Limit: lending.Amounts{Unavailable: most},
			Reserved: lending.Amounts{Unavailable: most}}}}})
}

// lets is budget web in a cluster with these pods on record, each since the time that it has been in the last version.
func (p *past) lets(cluster string, granted int32, pods ...string) *past {
	b := &Budget{UID: types.UID(cluster), Name: "web-budget", Workload: "web", Granted: granted,
		Records: map[string]time.Time{}}
	now := p.now.Add(time.Second)
	for _, pod := range pods {
		b.add(pod, now, disruptedFor)
		for i := range p.log {
			if last := p.log[i].Budget; last != nil && last.UID == b.UID && !last.Records[pod].IsZero() {
				b.Records[pod] = last.Records[pod]
			}
		}
	}
	return p.add(Entry{Cluster: cluster, Budget: b})
}

// protected are clusters a and b with so many replicas each of workload web, and the pods one, two and three.
func protected(replicas int32, most int32) *past {
	p := newPast()
	for _, cluster := range []string{"a", "b"} {
		p.add(Entry{Cluster: cluster, Cell: &Cell{UID: types.UID(cluster), Name: "web", Of: Place{Workload: "web"},
			Spec: CellSpec{Generation: 1, Replicas: replicas}, Observed: 1}})
		p.ready(cluster, "one", "two", "three")
	}
	return p.limited(1, most)
}

func TestBudgets(t *testing.T) {
	for name, tt := range map[string]struct {
		past *past
		want string
	}{
		"within what is granted": {past: protected(3, 2).lets("a", 1).lets("b", 1).lets("a", 1, "one").
			lets("b", 1, "two").lets("a", 1)},
		"more than is granted": {past: protected(3, 2).lets("a", 1, "one").lets("a", 1, "one", "two"),
			want: "lets 2 pods of a go at a time: the hub granted 1"},
		"more, of pods that are too many": {past: protected(2, 2).lets("a", 1, "one").lets("a", 1, "one", "two")},
		"what is over is over":            {past: protected(3, 2).lets("a", 1, "one").rest(25).lets("a", 1, "one", "two")},
		"granted less than before":        {past: protected(3, 2).lets("a", 2, "one", "two").lets("a", 0, "one", "two")},
		"granted twice": {past: protected(3, 1).lets("a", 1, "one").lets("b", 1, "two"),
			want: "2 pods of all members"},
		"one member after the other": {past: protected(3, 1).lets("a", 1, "one").lets("a", 0).lets("b", 1, "two")},
	} {
		report := Check(tt.past.log, nil)
		var all []string
		for _, v := range report.Violations {
			if v.Rule == ruleBudget {
				all = append(all, v.String())
			}
		}
		if tt.want == "" && len(all) == 0 {
			continue
		}
		if tt.want == "" || !slices.ContainsFunc(all, func(s string) bool { return strings.Contains(s, tt.want) }) {
			t.Errorf("%s: %v, want %q", name, all, tt.want)
		}
	}
}
