package forecast

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/capacity"
	"github.com/flotilla-dev/flotilla/hub/decision"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/placement"
	"github.com/flotilla-dev/flotilla/hub/policy"
	"github.com/flotilla-dev/flotilla/topology/failover"
)

// Blockers are the rules that keep a member from getting replicas of a workload as things stand now, one clause each,
// the first one first. None: the member may get replicas. Subset narrows the question to one subset, empty for all of
// them.
func (o *Forecast) Blockers(cluster, subset string) []string {
	i := slices.IndexFunc(o.members, func(m topology.MemberCluster) bool { return m.Name == cluster })
	if i < 0 {
		return []string{fmt.Sprintf("there is no MemberCluster %s; the members are %s", cluster, namesOf(o.members))}
	}
	m := &o.members[i]
	if out := notAccepted(m); out != "" {
		return []string{out}
	}
	if o.Policy == nil {
		return []string{"no policy selects the workload"}
	}
	selector := &o.Policy.Spec.Clusters
	member := decision.MembersFor(o.members[i:i+1], selector)[0]
	if !member.Selected {
		return []string{notSelectedBy(o.Policy, m)}
	}
	var out []string
	if mismatch := o.mismatch(&member, subset); mismatch != "" {
		out = append(out, mismatch)
	}
	if !member.Ready {
		out = append(
			out,
			fmt.Sprintf("the member is not Ready, so it gets nothing new: %s", conditionText(m, topology.MemberReady)),
		)
		if text := o.whenNotReady(m); text != "" {
			out = append(out, text)
		}
	}
	if o.Mode != kinds.Divide && !o.Workload.Alone {
		return out // neither taints nor room hold for what each member has
	}
	if taint := decision.Strongest(m.Spec.Taints, selector.Tolerations); taint != nil {
		out = append(out, tainted(o.Policy, taint))
	}
	if full := o.full(&member, subset); full != "" {
		out = append(out, full)
	}
	return out
}

// tainted says what a taint that the policy does not tolerate does to the member, and what to do about it.
func tainted(p *policy.Policy, taint *corev1.Taint) string {
	does := "it gets nothing new"
	switch taint.Effect {
	case corev1.TaintEffectPreferNoSchedule:
		does = "it gets only what no other member takes"
	case corev1.TaintEffectNoExecute:
		does = "it gets nothing new, and the others get what it has as far as they have room, step by step"
	}
	return fmt.Sprintf(
		"the member has the taint %s, which %s does not tolerate, so %s; remove it from spec.taints of the member, or "+
			"tolerate it in spec.clusters.tolerations of the policy",
		taint.ToString(),
		decision.PolicyName(&p.Ref),
		does,
	)
}

// full says what a member lacks that has no room for a pod of a subset, or of any that it matches; empty where it has
// room, or where its room is not known.
func (o *Forecast) full(m *decision.Member, subset string) string {
	var zones []string
	if !o.Workload.Open {
		matched := false
		for i := range o.Workload.Subsets {
			s := &o.Workload.Subsets[i]
			if subset != "" && s.Name != subset {
				continue
			}
			match := decision.MatchTerm(&s.Term, m)
			if match.OK && len(match.Zones) == 0 {
				zones, matched = nil, true // all of them
				break
			}
			matched = matched || match.OK
			zones = append(zones, match.Zones...)
		}
		if !matched {
			return ""
		}
	}
	room := m.Room(zones, o.Workload.Requests)
	if room == nil || *room > 0 {
		return ""
	}
	lacks := capacity.Shortages(m.Capacity.Zones, zones, o.Workload.Requests)
	return fmt.Sprintf(
		"the member has no room for a pod: %s (%d %% of what the nodes have is counted on); add nodes, or lower the "+
			"requests of the pods",
		strings.Join(lacks[:min(len(lacks), decision.ClustersInColumn)], "; "),
		capacity.Usable,
	)
}

func notAccepted(m *topology.MemberCluster) string {
	switch {
	case m.DeletionTimestamp != nil:
		return "the member is being removed"
	case !m.Spec.Accepted:
		return "the member is not accepted (spec.accepted is false)"
	case !meta.IsStatusConditionTrue(m.Status.Conditions, topology.MemberAccepted):
		return "the member is not accepted: " + conditionText(m, topology.MemberAccepted)
	}
	return ""
}

// notSelectedBy says which part of the policy's cluster selector leaves the member out.
func notSelectedBy(p *policy.Policy, m *topology.MemberCluster) string {
	name := decision.PolicyName(&p.Ref)
	s := &p.Spec.Clusters
	if len(s.Names) > 0 && !slices.Contains(s.Names, m.Name) {
		return fmt.Sprintf("%s selects the members %s alone (spec.clusters.names)", name, strings.Join(s.Names, ", "))
	}
	if s.Selector != nil && !decision.SelectsMember(&topology.ClusterSelector{Selector: s.Selector}, m) {
		return fmt.Sprintf("%s selects members with the labels %s (spec.clusters.selector), and this one has %q",
			name, metav1.FormatLabelSelector(s.Selector), labels.Set(m.Labels).String())
	}
	return name + " does not select the member"
}

// mismatch says why the member matches no subset, or not the one that is asked about; empty where it does.
func (o *Forecast) mismatch(m *decision.Member, subset string) string {
	if o.Workload.Open || o.Mode == kinds.PerMember && subset == "" {
		return ""
	}
	var why []string
	for i := range o.Workload.Subsets {
		s := &o.Workload.Subsets[i]
		if subset != "" && s.Name != subset {
			continue
		}
		if decision.MatchTerm(&s.Term, m).OK {
			return ""
		}
		why = append(why, fmt.Sprintf("%q: %s", s.Name, decision.WhyUnmatched(&s.Term, []decision.Member{*m})))
	}
	switch {
	case len(why) == 0:
		return fmt.Sprintf("the workload has no subset %q", subset)
	case subset != "":
		return "the member does not match subset " + why[0]
	}
	return "the member matches no subset; " + strings.Join(why, "; ")
}

func conditionText(m *topology.MemberCluster, condition string) string {
	c := meta.FindStatusCondition(m.Status.Conditions, condition)
	if c == nil {
		return "the hub has not looked at it yet"
	}
	return c.Message + " (" + c.Reason + ")"
}

func namesOf(members []topology.MemberCluster) string {
	var names []string
	for i := range members {
		names = append(names, members[i].Name)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// judge records how the policy's failover sees the members.
func (o *Forecast) judge(s *placement.State) {
	if o.Policy == nil {
		return
	}
	members := decision.MembersFor(s.Members, &o.Policy.Spec.Clusters)
	failover, _ := decision.FailoverOf(&o.Workload, o.Policy.Spec.Failover)
	placement.JudgeMembers(s, members, &failover)
	o.judged = map[string]decision.Member{}
	for i := range members {
		o.judged[members[i].Name] = members[i]
	}
}

// whenNotReady says what becomes of the replicas of a member that is not Ready, by the policy's failover; empty where
// it has none.
func (o *Forecast) whenNotReady(m *topology.MemberCluster) string {
	judged := o.judged[m.Name]
	after := ""
	if o.Policy != nil {
		after = o.Policy.Spec.Failover.After
	}
	switch {
	case judged.Lost:
		return fmt.Sprintf(
			"it counts as lost (failover.after is %s), so others get what it has as far as they have room",
			after,
		)
	case judged.Fencing:
		return fmt.Sprintf(
			"it counts as lost (failover.after is %s), and others get what it has when it is known that nothing runs there "+
				"any more; make sure of that, and confirm it with: flotilla fence %s --confirm",
			after,
			m.Name,
		)
	case judged.State == failover.Held:
		return fmt.Sprintf(
			"too many members became NotReady together, so none of them is given up before some are back; if nothing runs "+
				"there any more, confirm it with: flotilla fence %s --confirm",
			m.Name,
		)
	case judged.State == failover.Silent:
		return fmt.Sprintf(
			"it counts as lost when it is NotReady for %s (failover.after of %s), and others get what it has then",
			after,
			decision.PolicyName(&o.Policy.Ref),
		)
	}
	return ""
}
