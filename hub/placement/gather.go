package placement

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/capacity"
	"github.com/flotilla-dev/flotilla/hub/checks"
	"github.com/flotilla-dev/flotilla/hub/decision"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/policy"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/hub/wire/karmada"
	"github.com/flotilla-dev/flotilla/topology/waves"
)

// State is what one reconcile found.
type State struct {
	key       wire.Key
	Object    client.Object // the user's workload, nil if it is gone
	Placement *topology.WorkloadPlacement
	name      types.NamespacedName // of the placement, also of one to create
	// restored reports whether another writer edited the placement; Placement then has the hub's own decision.
	restored bool
	// federated reports whether the namespace, or the cluster-scoped object, has the label federated=true.
	federated bool
	// terminating: the namespace is being deleted.
	terminating bool
	Policies    []policy.Policy
	Members     []topology.MemberCluster
	// reports are the newest of each member about the workload, by member.
	reports map[string]capacity.Report
	// statuses are those of the member objects that reports are about, by member. They are nil without one.
	statuses map[string]*runtime.RawExtension
	// reported is the highest sequence in a report, at most wire.MaxSequence.
	reported int64
	// written is the sequence of each member's Work.
	written map[string]int64
	// absent are the dependencies that do not exist on the hub, local those that every cluster makes itself.
	absent map[topology.DependencyReference]bool
	local  map[topology.DependencyReference]bool
	// found is what members report of objects to adopt.
	found map[string]decision.Found
	// reserved is what other workloads have reserved in each member, and read the number under which it was read from
	// the reservations.
	reserved map[string]capacity.Amounts
	read     int64
	// now is the time, heard since when the hub is in contact with its API server.
	now, heard time.Time
	// news is when the hub last had news of each member.
	news     map[string]time.Time
	dividers []kinds.Object          // that name the workload, oldest first
	answers  map[string]waves.Answer // of checks that are expressions or addresses
	// rival is the policy of Karmada that selects the workload too, empty for none.
	rival string
	runs  map[waves.RunKey]waves.Run // of the Jobs of checks
	// rolledBack reports whether Object has the previous template, because the rollout of its own failed.
	rolledBack bool
}

// Gatherer reads what decisions depend on: from the hub's cache, or from a snapshot of a hub.
type Gatherer struct {
	reader client.Reader
	rules  kinds.Table
	hubID  string
	// watching keeps in the cache what is asked about; nil where reader has all.
	watching *store.Watching
	clock    clock.PassiveClock
	// heard returns since when the hub is in contact with its API server; nil for always.
	heard func() time.Time
	// news returns when the hub last had news of a member; nil for now.
	news func(member string) time.Time
	// asker has the answers of checks; nil for none.
	asker *checks.Asker
	// reservations of capacity in members; nil if no capacity is reserved.
	reservations *capacity.Reservations
	// decisions are those that the hub wrote; nil if no other writer edits them.
	decisions *decisions
	// rivals reads the policies of Karmada; nil if Karmada does not use this API server.
	rivals client.Reader
}

// NewGatherer returns a gatherer that reads a snapshot of a hub, of which nothing but the objects is known.
func NewGatherer(reader client.Reader, table kinds.Table, hubID string) *Gatherer {
	return &Gatherer{reader: reader, rules: table, hubID: hubID, clock: clock.RealClock{}}
}

// Reports returns the newest report of each member about a placement.
func (r *Gatherer) Reports(
	ctx context.Context,
	key wire.Key,
	p *topology.WorkloadPlacement,
) (map[string]capacity.Report, error) {
	s := &State{key: key, Placement: p}
	if err := r.gatherReports(ctx, s); err != nil {
		return nil, err
	}
	return s.reports, nil
}

// Gather reads all that a decision depends on.
func (r *Gatherer) Gather(ctx context.Context, key wire.Key) (*State, error) {
	s := &State{key: key, now: r.clock.Now(), answers: r.asker.Answers(key)}
	if r.heard != nil {
		s.heard = r.heard()
	}
	placement, name, err := store.FindPlacement(ctx, r.reader, key)
	switch {
	case err != nil:
		return nil, err
	case placement == nil:
		r.decisions.forget(key)
	default:
		s.Placement, s.restored = r.decisions.of(key, placement)
	}
	s.name = name
	rule, ok := r.rules[key.GroupKind()]
	if !ok {
		return nil, reconcile.TerminalError(fmt.Errorf("no rule for %s", key.Sentence()))
	}
	if err := r.watching.Start(rule); err != nil {
		return nil, err
	}
	object := rule.New()
	switch err := r.reader.Get(ctx, key.Workload(), object); {
	case err == nil:
		s.Object = object
		s.rollBack(rule)
	case apierrors.IsNotFound(err):
		return s, nil
	default:
		return nil, fmt.Errorf("get %s: %w", key.Sentence(), err)
	}
	if err := r.gatherFederated(ctx, s); err != nil || !s.federated {
		return s, err
	}
	if r.rivals != nil {
		if s.rival, err = karmada.Rival(ctx, r.rivals, rule.GVK, s.Object); err != nil {
			return nil, err
		}
	}
	if s.Policies, err = policy.List(ctx, r.reader, key.Namespace); err != nil {
		return nil, err
	}
	// The orders are read before the members: one that is still silent now was so when its order stood as read.
	if err := r.gatherReports(ctx, s); err != nil {
		return nil, err
	}
	if err := r.gatherMembers(ctx, s); err != nil {
		return nil, err
	}
	if s.dividers, err = r.dividersOf(ctx, rule.Divider, key); err != nil {
		return nil, err
	}
	return s, r.gatherAbsent(ctx, s)
}

// gatherFederated reads whether the workload is the hub's: by the label of its namespace, and of a cluster-scoped
// object by its own.
func (r *Gatherer) gatherFederated(ctx context.Context, s *State) error {
	if s.key.ClusterScoped() {
		s.federated = wire.Federated(s.Object)
		return nil
	}
	namespace := &corev1.Namespace{}
	if err := r.reader.Get(ctx, client.ObjectKey{Name: s.key.Namespace}, namespace); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get namespace %s: %w", s.key.Namespace, err)
	}
	s.federated, s.terminating = wire.Federated(namespace), isTerminating(namespace)
	return nil
}

// gatherMembers reads the members, and before them what they promised: a report on room that ends a promise is in what
// is read then.
func (r *Gatherer) gatherMembers(ctx context.Context, s *State) error {
	if r.reservations != nil {
		s.reserved, s.read = r.reservations.Read(r.clock.Now(), s.key, s.reports)
	}
	var err error
	s.Members, err = store.ListMembers(ctx, r.reader)
	s.news = make(map[string]time.Time, len(s.Members))
	for i := range s.Members {
		name := s.Members[i].Name
		s.news[name] = s.now
		if r.news != nil {
			s.news[name] = r.news(name)
		}
	}
	return err
}

// gatherAbsent finds which of the objects that the workload or a policy names do not exist, and which every cluster
// makes for itself. Nothing is asked about kinds that nobody names, and about Secrets only where a policy lets them
// go.
func (r *Gatherer) gatherAbsent(ctx context.Context, s *State) error {
	rule := r.rules[s.key.GroupKind()]
	workload, refusal := rule.Read(s.Object)
	if refusal != nil || rule.Mode == kinds.Copy || s.key.ClusterScoped() {
		return nil
	}
	named := map[topology.DependencyReference]bool{}
	for i := range s.Policies {
		candidate := &s.Policies[i]
		if candidate.Selects(&workload) == policy.NotSelected {
			continue
		}
		if candidate.Spec.Dependencies.Mode != topology.DependenciesNone {
			for _, need := range workload.Needs {
				named[need.DependencyReference] = named[need.DependencyReference] || kinds.LetsGo(&candidate.Spec, need.Kind)
			}
		}
		for _, ref := range candidate.Spec.Dependencies.Extra {
			named[ref] = named[ref] || kinds.LetsGo(&candidate.Spec, ref.Kind)
		}
	}
	s.absent, s.local = map[topology.DependencyReference]bool{}, map[topology.DependencyReference]bool{}
	for ref, look := range named {
		rule, ok := r.rules[corev1.SchemeGroupVersion.WithKind(ref.Kind).GroupKind()]
		if !look || !ok {
			continue
		}
		if err := r.watching.Start(rule); err != nil {
			return err
		}
		name := client.ObjectKey{Namespace: s.key.Namespace, Name: ref.Name}
		object := rule.New()
		switch err := r.reader.Get(ctx, name, object); {
		case apierrors.IsNotFound(err):
			s.absent[ref] = true
		case err != nil:
			return fmt.Errorf("get %s %s, which %s needs: %w", ref.Kind, name, s.key.Sentence(), err)
		default:
			s.local[ref] = kinds.ClusterMade(ref.Kind, name.Namespace, name.Name, object.GetAnnotations())
		}
	}
	return nil
}
