package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/decision"
	"github.com/flotilla-dev/flotilla/hub/explain"
	"github.com/flotilla-dev/flotilla/hub/forecast"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/snapshot"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/topology/waves"
)

// Workload is what the hub would do about a workload, and what changes by that in members.
type Workload struct {
	explain.Planned
	// Members are those in which something changes, in the order of their names.
	Members []Member `json:"members,omitempty"`
	// Waves are the waves or steps of the update under way or that begins.
	Waves []Wave `json:"waves,omitempty"`
	// RollsBack is the revision that members go back to, because a wave failed and the policy rolls back; absent for none.
	RollsBack string `json:"rollsBack,omitempty"`
	// Notes are sentences about what else changes, or what is not known.
	Notes []string `json:"notes,omitempty"`
	// placed: the hub had placed the workload before. noted: a note is about a change.
	placed, noted bool
}

// Wave is a wave or step of an update.
type Wave struct {
	// Name is empty for the pods that no wave selects, which come last.
	Name string `json:"name,omitempty"`
	// Current is true for the wave under way.
	Current bool `json:"current,omitempty"`
	// Pods is how many pods it adds, Places where; absent for a step, which counts pods of all clusters together.
	Pods   int32       `json:"pods"`
	Places []WavePlace `json:"places,omitempty"`
	// Soak, Checks and Approval are what comes before the next wave.
	Soak     string   `json:"soak,omitempty"`
	Checks   []string `json:"checks,omitempty"`
	Approval bool     `json:"approval,omitempty"`
}

// WavePlace is how many pods of a subset in a member a wave adds.
type WavePlace struct {
	Cluster string `json:"cluster"`
	Subset  string `json:"subset,omitempty"`
	Pods    int32  `json:"pods"`
}

// Preview returns what the hub would do about the workloads among objects, and about others that change, if the objects
// were applied to a recorded fleet. The notes say what was assumed. The fleet is changed, and not to be used again.
func Preview(ctx context.Context, fleet *snapshot.Snapshot, objects ...client.Object) ([]Workload, []string, error) {
	before := fleet.Clone()
	keys := map[wire.Key]bool{}
	for _, object := range objects {
		if err := fleet.Apply(object, time.Now()); err != nil {
			return nil, nil, err
		}
		if key, ok := keyOf(object); ok {
			keys[key] = true
		}
	}
	notes, err := fleet.Complete()
	if err != nil {
		return nil, notes, err
	}
	workloads, err := foresee(ctx, fleet, before)
	if err != nil || len(keys) == 0 {
		return workloads, notes, err
	}
	// Beside what the files name, whatever changes by them.
	return slices.DeleteFunc(workloads, func(w Workload) bool { return !keys[w.Key] && !w.changes() }), notes, nil
}

// changes reports whether anything of a workload changes.
func (w *Workload) changes() bool {
	return len(w.Changes)+len(w.Members) > 0 || w.noted
}

// foresee returns the plan of every workload of a fleet, in the order of kind, namespace and name. before is the fleet
// as it is now. Neither is changed any more.
func foresee(ctx context.Context, fleet, before *snapshot.Snapshot) ([]Workload, error) {
	if err := store.Index(ctx, fleet); err != nil {
		return nil, err
	}
	// A fleet of files may have no hub yet, and then no reports.
	hubID, err := store.HubID(ctx, fleet)
	if client.IgnoreNotFound(errors.Unwrap(err)) != nil {
		return nil, err
	}
	p := planner{forecasts: forecast.New(fleet, hubID), before: before}
	var results []Workload
	for _, object := range fleet.Objects() {
		key, ok := keyOf(object)
		if !ok {
			continue
		}
		w, err := p.workload(ctx, key)
		if err != nil {
			return nil, err
		}
		results = append(results, w)
	}
	return results, nil
}

// planner plans workloads, one after the other.
type planner struct {
	forecasts *forecast.Forecaster
	before    client.Reader
}

func (p *planner) workload(ctx context.Context, key wire.Key) (Workload, error) {
	o, err := p.forecasts.Of(ctx, key)
	if err != nil {
		return Workload{}, err
	}
	w := Workload{Planned: explain.Plan(key, &o), placed: o.Present != nil, Waves: wavesOf(&o)}
	if o.Present != nil {
		w.RollsBack, w.Notes = updateNotes(&o)
		w.noted = len(w.Notes) > 0
	}
	kind := kinds.Workloads()[key.GroupKind()]
	previous, known, err := p.delivered(ctx, kind, key, &o)
	if err != nil {
		return w, err
	}
	orders, rejection, err := p.forecasts.Orders(ctx, key, &o, previous)
	switch {
	case err != nil:
		return w, err
	case rejection != nil:
		w.Notes = append(w.Notes, fmt.Sprintf("nothing is delivered (%s): %s", rejection.Reason, rejection.Message))
		w.Complete, w.noted = false, true
		return w, nil
	case orders == nil:
		return w, nil
	case !known:
		w.Notes = append(w.Notes, "the fields that change in members are not known: the policy or a member changed since "+
			"the hub placed the workload")
		return w, nil
	}
	c := compared{kind: kind, before: previous, after: orders}
	if o.Present != nil {
		c.cellsBefore = o.Present.Spec.Cells
	}
	if o.Next != nil {
		c.cellsNow = o.Next.Cells
	}
	w.Members, err = c.members()
	return w, err
}

// delivered returns what members have of a workload; false where that is not known.
func (p *planner) delivered(
	ctx context.Context, kind kinds.Kind, key wire.Key, o *forecast.Forecast,
) (map[string][]byte, bool, error) {
	if o.Present == nil {
		return nil, true, nil
	}
	object := kind.New()
	if err := p.before.Get(ctx, key.Workload(), object); err != nil {
		// The hub has the placement of a workload that is deleted, or the files bring both.
		return nil, false, client.IgnoreNotFound(err)
	}
	manifests, err := forecast.Delivered(ctx, p.before, kind, object, o.Present)
	return manifests, manifests != nil, err
}

// updateNotes says what a decision does to an update under way: a rollback, its end, or waves that no longer hold. The
// first result is the revision that members go back to.
func updateNotes(o *forecast.Forecast) (string, []string) {
	if o.Next == nil {
		return "", nil
	}
	now, next := &o.Present.Spec, o.Next
	switch {
	case decision.RolledBack(next) && !decision.RolledBack(now):
		return next.Revision, []string{fmt.Sprintf("members go back to revision %s: %s failed, and the policy rolls back",
			next.Revision, waveOf(next.Wave))}
	case decision.RolledBack(now) && !decision.RolledBack(next):
		return "", []string{fmt.Sprintf("members get revision %s again, which was rolled back", next.Revision)}
	case now.Revision == next.Revision && underWay(now.Wave) && !underWay(next.Wave):
		return "", []string{fmt.Sprintf("the update under way, at %s, goes on without waves", waveOf(now.Wave))}
	}
	return "", nil
}

func underWay(w *topology.WaveProgress) bool { return w != nil && w.Number <= w.Of }

func waveOf(w *topology.WaveProgress) string {
	if w.Steps {
		return fmt.Sprintf("step %d of %d", w.Number, w.Of)
	}
	return fmt.Sprintf("wave %d of %d (%s)", w.Number, w.Of, w.Name)
}

// wavesOf returns the waves or steps of a forecast.
func wavesOf(o *forecast.Forecast) []Wave {
	var all []Wave
	for i, stage := range o.Stages() {
		all = append(all, waveFrom(&stage, int32(i)+1 == o.Next.Wave.Number))
	}
	return all
}

func waveFrom(stage *waves.Stage, current bool) Wave {
	w := Wave{
		Name: stage.Wave.Name, Current: current, Pods: stage.Pods, Soak: stage.Wave.Soak,
		Approval: stage.Wave.Approval == topology.ApprovalRequired,
	}
	for _, p := range stage.Places {
		w.Places = append(w.Places, WavePlace{p.Cluster, p.Subset, p.Pods})
	}
	for i := range stage.Wave.Checks {
		w.Checks = append(w.Checks, stage.Wave.Checks[i].Name)
	}
	return w
}
