package plan

import (
	"context"
	"errors"
	"fmt"
	"reflect"
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
	// placed: the hub had placed the workload before.
	placed bool
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
// were applied to a recorded fleet; without objects about all workloads. The notes say what was assumed. The fleet is
// changed, and not to be used again.
func Preview(ctx context.Context, fleet *snapshot.Snapshot, objects ...client.Object) ([]Workload, []string, error) {
	f := foresight{fleet: fleet, before: fleet.Clone(), named: map[wire.Key]bool{}, all: len(objects) == 0}
	for _, object := range objects {
		if err := fleet.Apply(object, time.Now()); err != nil {
			return nil, nil, err
		}
		if key, ok := keyOf(object); ok {
			f.named[key] = true
		} else {
			f.render = true
		}
	}
	notes, err := fleet.Complete()
	if err != nil {
		return nil, notes, err
	}
	if _, err := f.before.Complete(); err != nil {
		return nil, notes, err
	}
	workloads, err := f.workloads(ctx)
	return workloads, notes, err
}

// foresight is what a plan is made from. The fleets are not changed any more.
type foresight struct {
	// fleet is that with the files, before the one as it is now.
	fleet, before *snapshot.Snapshot
	// named are the workloads of the files. Of others those are planned that the files change; with all every one.
	named map[wire.Key]bool
	all   bool
	// render: the files have more than workloads, such as policies, and these may change manifests of other workloads
	// without another decision.
	render bool
}

// workloads returns the plans, in the order of kind, namespace and name.
func (f *foresight) workloads(ctx context.Context) ([]Workload, error) {
	after, err := newPlanner(ctx, f.fleet, f.before)
	if err != nil {
		return nil, err
	}
	now, err := newPlanner(ctx, f.before, f.before)
	if err != nil {
		return nil, err
	}
	var results []Workload
	for _, object := range f.fleet.Objects() {
		key, ok := keyOf(object)
		if !ok {
			continue
		}
		var w *Workload
		if f.all || f.named[key] {
			w, err = after.workload(ctx, key)
		} else {
			w, err = f.other(ctx, after, now, key)
		}
		if err != nil {
			return nil, err
		}
		if w != nil {
			results = append(results, *w)
		}
	}
	return results, nil
}

// other returns the plan of a workload that the files do not name, nil if it is the one that holds without the files.
// The manifests of members are rendered only where they can differ.
func (f *foresight) other(ctx context.Context, after, now *planner, key wire.Key) (*Workload, error) {
	o, w, err := after.decision(ctx, key)
	if err != nil {
		return nil, err
	}
	was, without, err := now.decision(ctx, key)
	if err != nil {
		return nil, err
	}
	same := reflect.DeepEqual(w, without) && reflect.DeepEqual(grants(o), grants(was))
	if same && !f.render {
		return nil, nil
	}
	if err := after.addMembers(ctx, key, o, w); err != nil || !same {
		return w, err
	}
	if err := now.addMembers(ctx, key, was, without); err != nil || reflect.DeepEqual(w, without) {
		return nil, err
	}
	return w, nil
}

// grants returns what each cell of a decision may do; nil where none is made. Times are left out.
func grants(o *forecast.Forecast) []topology.Cell {
	if o.Next == nil {
		return nil
	}
	var cells []topology.Cell
	for i := range o.Next.Cells {
		c := &o.Next.Cells[i]
		cells = append(cells, topology.Cell{Cluster: c.Cluster, Zone: c.Zone, Subset: c.Subset, Replicas: c.Replicas,
			Granted: c.Granted})
	}
	return cells
}

// planner plans workloads, one after the other.
type planner struct {
	forecasts *forecast.Forecaster
	before    client.Reader
}

// newPlanner returns a planner of a fleet. before is the fleet as it is now.
func newPlanner(ctx context.Context, fleet *snapshot.Snapshot, before client.Reader) (*planner, error) {
	if err := store.Index(ctx, fleet); err != nil {
		return nil, err
	}
	// A fleet of files may have no hub yet, and then no reports.
	hubID, err := store.HubID(ctx, fleet)
	if client.IgnoreNotFound(errors.Unwrap(err)) != nil {
		return nil, err
	}
	return &planner{forecasts: forecast.New(fleet, hubID), before: before}, nil
}

// workload returns the plan of a workload.
func (p *planner) workload(ctx context.Context, key wire.Key) (*Workload, error) {
	o, w, err := p.decision(ctx, key)
	if err != nil {
		return nil, err
	}
	return w, p.addMembers(ctx, key, o, w)
}

// decision returns the plan of a workload without what changes in members.
func (p *planner) decision(ctx context.Context, key wire.Key) (*forecast.Forecast, *Workload, error) {
	o, err := p.forecasts.Of(ctx, key)
	if err != nil {
		return nil, nil, err
	}
	w := &Workload{Planned: explain.Plan(key, &o), placed: o.Present != nil, Waves: wavesOf(&o)}
	if o.Present != nil {
		w.RollsBack, w.Notes = updateNotes(&o)
	}
	return &o, w, nil
}

// addMembers adds what changes in members to the plan of a workload.
func (p *planner) addMembers(ctx context.Context, key wire.Key, o *forecast.Forecast, w *Workload) error {
	kind := kinds.Workloads()[key.GroupKind()]
	previous, known, err := p.delivered(ctx, kind, key, o)
	if err != nil {
		return err
	}
	orders, rejection, err := p.forecasts.Orders(ctx, key, o, previous)
	switch {
	case err != nil:
		return err
	case rejection != nil:
		w.Notes = append(w.Notes, fmt.Sprintf("nothing is delivered (%s): %s", rejection.Reason, rejection.Message))
		w.Complete = false
		return nil
	case orders == nil:
		return nil
	case !known:
		w.Notes = append(w.Notes, "the fields that change in members are not known: the policy or a member changed since "+
			"the hub placed the workload")
		return nil
	}
	c := compared{kind: kind, before: previous, after: orders}
	if o.Present != nil {
		c.cellsBefore = o.Present.Spec.Cells
	}
	if o.Next != nil {
		c.cellsNow = o.Next.Cells
	}
	w.Members, err = c.members()
	w.Notes = append(w.Notes, c.notes(w.Members)...)
	return err
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
