package placement

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/checks"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/hub/wire/karmada"
	"github.com/flotilla-dev/flotilla/topology/waves"
)

// state is what one reconcile found.
type state struct {
	key       wire.Key
	object    client.Object // the user's workload, nil if it is gone
	placement *topology.WorkloadPlacement
	name      types.NamespacedName // of the placement, also of one to create
	// restored: somebody else edited the placement, and it has the hub's own decision here.
	restored  bool
	federated bool
	// terminating: the namespace is being deleted.
	terminating bool
	policies    []Policy
	members     []topology.MemberCluster
	reports     map[string]Report
	reported    int64
	written     map[string]int64
	absent      map[topology.DependencyReference]bool
	local       map[topology.DependencyReference]bool
	found       map[string]Found
	// promised is what members promised to others, read is its number in the ledger.
	promised map[string]Room
	read     int64
	// now is the time, heard since when the hub is in contact with its API server.
	now, heard time.Time
	// news is when each member was heard last.
	news     map[string]time.Time
	dividers []kinds.Object // that name the workload, oldest first
	answers  map[string]waves.Answer
	// rival is the policy of Karmada that selects the workload too, empty for none.
	rival      string
	runs       map[waves.RunKey]waves.Run // of the Jobs of checks
	rolledBack bool                       // object has the template of before: its own failed
}

// gatherer reads what decisions depend on: from the hub's cache, or from a snapshot of a hub.
type gatherer struct {
	reader client.Reader
	rules  kinds.Table
	hubID  string
	// watching keeps in the cache what is asked about; nil where reader has all.
	watching *Watching
	clock    clock.PassiveClock
	// heard tells since when the hub is in contact with its API server; nil where that was always so.
	heard func() time.Time
	// news tells when a member was heard last; nil where that is always now.
	news func(member string) time.Time
	// asker has what was answered to checks; nil where nothing is asked.
	asker *checks.Asker
	// ledger has what members promised; nil where nothing is held against anybody.
	ledger *Ledger
	// decisions are those that the hub wrote; nil where nobody else edits them.
	decisions *decisions
	// rivals has the policies of Karmada; nil where nobody else propagates objects of this API server.
	rivals client.Reader
}

// gather reads all that a decision depends on.
func (r *gatherer) gather(ctx context.Context, key wire.Key) (*state, error) {
	s := &state{key: key, now: r.clock.Now(), answers: r.asker.Answers(key)}
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
		s.placement, s.restored = r.decisions.of(key, placement)
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
		s.object = object
		s.rollBack(rule)
	case apierrors.IsNotFound(err):
		return s, nil
	default:
		return nil, fmt.Errorf("get %s: %w", key.Sentence(), err)
	}
	namespace := &corev1.Namespace{}
	if err := r.reader.Get(ctx, client.ObjectKey{Name: key.Namespace}, namespace); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("get namespace %s: %w", key.Namespace, err)
	}
	s.federated, s.terminating = wire.Federated(namespace), isTerminating(namespace)
	if !s.federated {
		return s, nil
	}
	if r.rivals != nil {
		if s.rival, err = karmada.Rival(ctx, r.rivals, rule.GVK, s.object); err != nil {
			return nil, err
		}
	}
	if s.policies, err = listPolicies(ctx, r.reader, key.Namespace); err != nil {
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

// gatherMembers reads the members, and before them what they promised: a report on room that ends a promise is in what is read then.
func (r *gatherer) gatherMembers(ctx context.Context, s *state) error {
	if r.ledger != nil {
		s.promised, s.read = r.ledger.Read(s.key, s.reports)
	}
	var err error
	s.members, err = listMembers(ctx, r.reader)
	s.news = make(map[string]time.Time, len(s.members))
	for i := range s.members {
		name := s.members[i].Name
		s.news[name] = s.now
		if r.news != nil {
			s.news[name] = r.news(name)
		}
	}
	return err
}

// gatherAbsent finds which of the objects that the workload or a policy names do not exist, and which every cluster makes for
// itself. Nothing is asked about kinds that
// nobody names, and about Secrets only where a policy lets them go.
func (r *gatherer) gatherAbsent(ctx context.Context, s *state) error {
	workload, refusal := r.rules[s.key.GroupKind()].Read(s.object)
	if refusal != nil || workload.Mode == kinds.Copy {
		return nil
	}
	named := map[topology.DependencyReference]bool{}
	for i := range s.policies {
		policy := &s.policies[i]
		if policy.selects(&workload) == notSelected {
			continue
		}
		if policy.Spec.Dependencies.Mode != topology.DependenciesNone {
			for _, need := range workload.Needs {
				named[need.DependencyReference] = named[need.DependencyReference] || kinds.LetsGo(&policy.Spec, need.Kind)
			}
		}
		for _, ref := range policy.Spec.Dependencies.Extra {
			named[ref] = named[ref] || kinds.LetsGo(&policy.Spec, ref.Kind)
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

// gatherReports reads the newest report of each member. Only reports for this hub and this placement count for lending; for
// the sequence all of the workload do.
func (r *gatherer) gatherReports(ctx context.Context, s *state) error {
	works := &work.WorkList{}
	if err := r.reader.List(ctx, works, client.MatchingFields{store.IndexWorkWorkload: s.key.String()}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list Works of %s: %w", s.key.Sentence(), err)
	}
	s.reports, s.found, s.written = map[string]Report{}, map[string]Found{}, map[string]int64{}
	s.runs = runsOf(works.Items, s.placement)
	for i := range works.Items {
		w := &works.Items[i]
		if wire.IsCheck(w) {
			continue
		}
		cluster, ok := wire.MemberOf(w.Namespace)
		if ok && s.placement != nil && w.Labels[topology.LabelPlacement] == string(s.placement.UID) {
			s.written[cluster] = wire.SequenceOf(w)
		}
		report, _ := r.rules.ReportOf(w)
		if !ok || report == nil || report.HubID != r.hubID {
			continue
		}
		s.reported = max(s.reported, min(report.Sequence, wire.MaxSequence))
		if s.placement == nil || w.Labels[topology.LabelPlacement] != string(s.placement.UID) {
			continue
		}
		use := make(map[string]work.SubsetUse, len(report.InUse))
		for _, u := range report.InUse {
			use[u.Subset] = u
		}
		if found, ok := foundBy(r.rules, w); ok {
			s.found[cluster] = found
		}
		s.reports[cluster] = Report{Sequence: report.Sequence, At: report.ObservedAt.Time, Applied: report.Sequence > 0 || meta.IsStatusConditionTrue(w.Status.Conditions, work.ConditionApplied), Use: use, Unschedulable: report.Unschedulable}
	}
	return nil
}

// listPolicies returns the policies that a namespace's workloads can fall under.
func listPolicies(ctx context.Context, reader client.Reader, namespace string) ([]Policy, error) {
	local, global := &topology.FederationPolicyList{}, &topology.ClusterFederationPolicyList{}
	if err := reader.List(ctx, local, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list FederationPolicies of %s: %w", namespace, err)
	}
	if err := reader.List(ctx, global, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list ClusterFederationPolicies: %w", err)
	}
	var policies []Policy
	for i := range local.Items {
		p := &local.Items[i]
		if p.DeletionTimestamp == nil {
			policies = append(policies, Policy{topology.PolicyReference{Kind: KindPolicy, Name: p.Name}, p.CreationTimestamp.Time, p.Spec})
		}
	}
	for i := range global.Items {
		p := &global.Items[i]
		if p.DeletionTimestamp == nil {
			policies = append(policies, Policy{topology.PolicyReference{Kind: KindClusterPolicy, Name: p.Name}, p.CreationTimestamp.Time, p.Spec})
		}
	}
	return policies, nil
}

// listMembers returns all members, sorted by name.
func listMembers(ctx context.Context, reader client.Reader) ([]topology.MemberCluster, error) {
	list := &topology.MemberClusterList{}
	if err := reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list MemberClusters: %w", err)
	}
	members := slices.Clone(list.Items)
	slices.SortFunc(members, func(a, b topology.MemberCluster) int { return strings.Compare(a.Name, b.Name) })
	return members, nil
}

// membersFor returns the members as a decision under this policy sees them.
func membersFor(members []topology.MemberCluster, selector *topology.ClusterSelector) []Member {
	out := make([]Member, len(members))
	for i := range members {
		m := &members[i]
		out[i] = Member{
			Name:   m.Name,
			Region: regionOf(m),
			Labels: m.Labels,
			Zones:  zonesOf(m),
			Selected: m.DeletionTimestamp == nil && m.Spec.Accepted &&
				meta.IsStatusConditionTrue(m.Status.Conditions, topology.MemberAccepted) && selectsMember(selector, m),
			Ready:  meta.IsStatusConditionTrue(m.Status.Conditions, topology.MemberReady),
			Silent: meta.IsStatusConditionTrue(m.Status.Conditions, topology.MemberSilent),
			Weight: 1,
			Taint:  untolerated(m.Spec.Taints, selector.Tolerations),
			Rooms:  m.Status.Zones,
		}
		if m.Spec.Weight != nil {
			out[i].Weight = *m.Spec.Weight
		}
	}
	return out
}

func regionOf(m *topology.MemberCluster) string {
	if m.Spec.Region != "" {
		return m.Spec.Region
	}
	return m.Status.Region
}

// zonesOf returns the zones that have nodes, sorted.
func zonesOf(m *topology.MemberCluster) []string {
	var zones []string
	for i := range m.Status.Zones {
		if m.Status.Zones[i].Nodes > 0 {
			zones = append(zones, m.Status.Zones[i].Name)
		}
	}
	slices.Sort(zones)
	return zones
}
