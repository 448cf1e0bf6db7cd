package completions_test

import (
	"testing"
	"time"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/completions"
)

// TestFollowsTheOrderOfAHub shows what a job in one of several clusters does under the order of the hub.
func TestFollowsTheOrderOfAHub(t *testing.T) {
	batches := &completions.Batches{Size: 1, Soak: time.Hour}
	settled := completions.Progress{Started: start, Batch: 2, BatchStarted: start, Settled: start}
	halted := completions.Progress{Started: start, Batch: 2, BatchStarted: start,
		Halted: &completions.Halt{Time: start, Cause: "CheckFailed"}}
	for _, tt := range []struct {
		why         string
		nodes, pods string
		order       completions.Order
		change      func(*completions.Facts)
		want        string
		// touched, unended and proven are those of the plan.
		touched, unended, proven int
	}{
		{why: "touches as many nodes as ordered", nodes: "a b c", pods: "a:s",
			order: completions.Order{Touch: 2}, want: "+b running", touched: 1, proven: 1},
		{why: "parallelism holds beside it", nodes: "a b c", pods: "a:r", order: completions.Order{Touch: 3},
			change: func(f *completions.Facts) { f.Policy.Parallelism = 1 }, want: "running", touched: 1, unended: 1},
		{why: "an ended pod stays touched", nodes: "a b", pods: "a:s", order: completions.Order{Touch: 1},
			want: "running", touched: 1, proven: 1},
		{why: "a node that is gone makes room for no other one", nodes: "b c d", pods: "b:s",
			order: completions.Order{Touch: 2, Nodes: 4}, want: "running", touched: 1, proven: 1},
		{why: "a deleted pod comes again", nodes: "a b c d", pods: "b:s", order: completions.Order{Touch: 2, Nodes: 4},
			want: "+a running", touched: 1, proven: 1},
		{why: "a node whose pod is being deleted is touched", nodes: "a b", pods: "a:t",
			order: completions.Order{Touch: 1}, want: "running", touched: 1, unended: 1},
		{why: "waiting creates nothing", nodes: "a b", order: completions.Order{Touch: 2, Waiting: true}, want: "running"},
		{why: "is not complete before the hub says so", nodes: "a", pods: "a:s", order: completions.Order{Touch: 1},
			want: "running", touched: 1, proven: 1},
		{why: "is complete when the hub says so", nodes: "a b", pods: "a:s",
			order: completions.Order{Touch: 1, Ended: true}, want: "completed", touched: 1, proven: 1},
		{why: "running pods run to their end", nodes: "a b", pods: "a:r b:f",
			order: completions.Order{Touch: 2, Ended: true}, want: "running", touched: 2, unended: 1, proven: 1},
		{why: "a halted job ends too", nodes: "a", pods: "a:s2", order: completions.Order{Touch: 1, Batch: 2, Ended: true},
			change: func(f *completions.Facts) { f.Policy.Batches, f.Progress = batches, halted }, want: "completed",
			touched: 1},
		{why: "FailFast fails the job here", nodes: "a b c", pods: "a:f b:r", order: completions.Order{Touch: 2},
			want: "-b-1 failed", touched: 2, unended: 1, proven: 1},
		{why: "the batch has the hub's number and size", nodes: "a b c d", pods: "a:s1",
			order:  completions.Order{Touch: 3, Batch: 4},
			change: func(f *completions.Facts) { f.Policy.Batches = batches }, want: "+b:4 +c:4 running", touched: 1,
			proven: 1},
		{why: "checks that have no result yet prove nothing of their batch", nodes: "a b", pods: "a:s1 b:s2",
			order: completions.Order{Touch: 2, Batch: 2}, change: func(f *completions.Facts) {
				f.Policy.Batches, f.Progress, f.Unchecked = batches, settled, true
			}, want: "running", touched: 2, proven: 1},
		{why: "checks that hold do, before the end of the soak", nodes: "a b", pods: "a:s1 b:s2",
			order: completions.Order{Touch: 2, Batch: 2}, change: func(f *completions.Facts) {
				f.Policy.Batches, f.Progress = batches, settled
			}, want: "running", touched: 2, proven: 2},
		{why: "a failed check halts", nodes: "a b", pods: "a:s1 b:s2", order: completions.Order{Touch: 2, Batch: 2},
			change: func(f *completions.Facts) {
				f.Policy.Batches, f.Progress = batches, settled
				f.Findings = []completions.Finding{{Cause: "CheckFailed"}}
			}, want: "paused", touched: 2, proven: 1},
		{why: "a resumed batch is excused", nodes: "a b", pods: "a:s2", order: completions.Order{Touch: 1, Batch: 2},
			change: func(f *completions.Facts) {
				f.Policy.Batches, f.Progress, f.Resumed = batches, halted, start.Add(1)
				f.Findings = []completions.Finding{{Cause: "CheckFailed"}}
			}, want: "running", touched: 1, proven: 1},
		{why: "promoting a later batch excuses an earlier one", nodes: "a", pods: "a:s2",
			order: completions.Order{Touch: 1, Batch: 2}, change: func(f *completions.Facts) {
				f.Policy.Batches, f.Progress, f.Unchecked, f.Promoted = batches, settled, true, 3
			}, want: "running", touched: 1, proven: 1},
		{why: "a batch settles while the user pauses the job", nodes: "a b", pods: "a:s2",
			order: completions.Order{Touch: 1, Batch: 2}, change: func(f *completions.Facts) {
				f.Policy.Batches, f.Policy.Paused, f.Progress = batches, true, settled
				f.Progress.Settled = time.Time{}
			}, want: "paused", touched: 1, proven: 1},
	} {
		t.Run(tt.why, func(t *testing.T) {
			facts := completions.Facts{Now: start, Nodes: nodes(tt.nodes), Pods: pods(tt.pods),
				Policy: completions.Policy{Parallelism: 9, Order: &tt.order}}
			if tt.change != nil {
				tt.change(&facts)
			}
			plan := completions.Decide(facts)
			if show(plan) != tt.want || plan.Touched != tt.touched || plan.Unended != tt.unended ||
				plan.Proven != tt.proven {
				t.Errorf("%s, touched %d, unended %d, proven %d", show(plan), plan.Touched, plan.Unended, plan.Proven)
			}
		})
	}
}
