package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// Outcomes of a check, from good to bad.
const (
	passed  = "ok"
	warned  = "warning"
	failed  = "error"
	skipped = "skipped"
)

// oldest is the oldest Kubernetes that a hub runs on.
const oldest = "1.30.0"

// stale is how old a Lease is whose holder is gone: a program renews its own every few seconds, a member's agent every
// ten. The age is by this machine's clock against the holder's, so that hints name the clocks.
const stale = time.Minute

// Result is what one check found.
type Result struct {
	Category string `json:"category"`
	// Name says what is looked at.
	Name string `json:"name"`
	// Outcome is ok, warning, error or skipped.
	Outcome string `json:"outcome"`
	// Found says what was found; Hint what to do about it.
	Found string `json:"found,omitempty"`
	Hint  string `json:"hint,omitempty"`
}

// facts are what the checks depend on.
type facts struct {
	now time.Time
	// version is that of the hub's API server, own that of this program.
	version, own string
	// forbidden are what the user may not do of what installing does, as "create namespaces".
	forbidden []string
	// kruise tells whether OpenKruise runs in the cluster.
	kruise bool
	// crds are the definitions that this program has, in their order, and what is wrong with
	// each in the cluster, empty for nothing.
	crds []definition
	// leases are those of the programs, by name; members' are in memberLeases, by member.
	leases, memberLeases map[string]*coordinationv1.Lease
	deployments          []appsv1.Deployment
	// conversion is why an object of an older version is not taken; empty where it is.
	conversion string
	members    []topology.MemberCluster
	// asking are members whose agent has asked to join.
	asking map[string]bool
	// federated is how many namespaces have the label; policies are all policies, as "Kind namespace/name".
	federated int
	policies  map[string][]metav1.Condition
	// stalled are the workloads that no controller moves on, with the sentence that says why.
	stalled map[string]string
	// workloads is how many workloads there are in federated namespaces.
	workloads int
	// unread is why something could not be read, by what it is.
	unread map[string]error
}

// definition is a CustomResourceDefinition as it stands in the cluster.
type definition struct {
	name string
	// served tells whether the API server has it; lacks is the first field that this
	// program knows and the API server does not.
	served bool
	lacks  string
}

// installing are the checks before anything is installed.
func installing(f *facts) []Result {
	all := []Result{kubernetes(f)}
	for _, what := range f.forbidden {
		all = append(all, Result{"permissions", "you may " + what, failed, "the API server says no",
			"use a context of an administrator"})
	}
	if len(f.forbidden) == 0 {
		all = append(all, Result{Category: "permissions", Name: "you may do all that installing does", Outcome: passed})
	}
	found := Result{Category: "cluster", Name: "OpenKruise does not run here", Outcome: passed}
	if f.kruise {
		found.Outcome, found.Found = warned, "its webhooks are there"
		found.Hint = "two programs would act on the same objects: " +
			"docs/tasks/take-over-from-openkruise.md says how to take over"
	}
	if err := f.unread["kruise"]; err != nil {
		found = unread(found.Category, found.Name, err)
	}
	all = append(all, found)
	for _, d := range f.crds {
		if d.lacks != "" {
			return append(all, Result{"cluster", "definitions of an earlier installation", warned,
				fmt.Sprintf("%s has no field %s", d.name, d.lacks), "upgrade flotilla-crds before the programs"})
		}
	}
	return all
}

// running are the checks of what runs.
func running(f *facts) []Result {
	all := []Result{kubernetes(f)}
	all = append(all, definitions(f)...)
	all = append(all, programs(f)...)
	all = append(all, members(f)...)
	return append(all, workloads(f)...)
}

func kubernetes(f *facts) Result {
	name := "the API server answers and is " + strings.TrimSuffix(oldest, ".0") + " or newer"
	r := Result{Category: "kubernetes", Name: name, Outcome: passed, Found: f.version}
	if v, err := version.ParseGeneric(f.version); err != nil || v.LessThan(version.MustParseGeneric(oldest)) {
		r.Outcome, r.Hint = failed, "upgrade the cluster: rules of validation need it"
	}
	return r
}

func definitions(f *facts) []Result {
	const name = "the CustomResourceDefinitions are there, and as new as this program"
	r := Result{Category: "definitions", Name: name, Outcome: passed,
		Found: fmt.Sprintf("%d of %d", len(f.crds), len(f.crds))}
	var missing []string
	for _, d := range f.crds {
		switch {
		case !d.served:
			missing = append(missing, d.name)
		case d.lacks != "" && r.Outcome == passed:
			r.Outcome, r.Found = warned, fmt.Sprintf("%s has no field %s", d.name, d.lacks)
			r.Hint = "helm upgrade flotilla-crds charts/flotilla-crds, or kubectl apply --server-side -f apis/crds"
		}
	}
	if len(missing) > 0 {
		r.Outcome, r.Found = failed, "not served: "+strings.Join(missing, ", ")
		r.Hint = "helm install flotilla-crds charts/flotilla-crds, or kubectl apply --server-side -f apis/crds"
		return []Result{r}
	}
	c := Result{Category: "definitions", Name: "objects of v1alpha1 are converted", Outcome: passed}
	if f.conversion != "" {
		c.Outcome, c.Found, c.Hint = warned, f.conversion,
			"requests for v1alpha1 need flotilla-hub, or flotilla-agent, and its webhook: see its log"
	}
	if err := f.unread["conversion"]; err != nil {
		c = unread("definitions", "objects of v1alpha1 are converted", err)
	}
	return []Result{r, c}
}

// unread is a check that needs what could not be read.
func unread(category, name string, err error) Result {
	return Result{category, name, skipped, err.Error(), "ask as somebody who may read it"}
}

func programs(f *facts) []Result {
	var all []Result
	for _, program := range []string{"flotilla-hub", "flotilla-approver"} {
		name := "a replica of " + program + " leads"
		lease := f.leases[program]
		switch {
		case f.unread["leases"] != nil:
			all = append(all, unread("programs", name, f.unread["leases"]))
		case lease == nil:
			all = append(all, Result{"programs", name, warned, "it has no Lease",
				"start it; with --leader-elect=false it has none, and the checks of members say whether it acts"})
		case !fresh(lease, f.now):
			all = append(all, Result{"programs", name, failed, "its Lease is not renewed" + ago(lease, f.now),
				"what runs, runs on, but nothing new is decided: look at its pods and its log, " +
					"and whether its clock and this machine's agree"})
		default:
			all = append(all, Result{Category: "programs", Name: name, Outcome: passed})
		}
	}
	if err := f.unread["deployments"]; err != nil {
		all = append(all, unread("programs", "the replicas of the programs are available", err))
	}
	for i := range f.deployments {
		d := &f.deployments[i]
		r := Result{Category: "programs", Name: "the replicas of " + d.Name + " are available", Outcome: passed}
		want := int32(1)
		if d.Spec.Replicas != nil {
			want = *d.Spec.Replicas
		}
		r.Found = fmt.Sprintf("%d of %d", d.Status.AvailableReplicas, want)
		if d.Status.AvailableReplicas < want {
			r.Outcome, r.Hint = warned, fmt.Sprintf("kubectl -n %s describe deployment/%s", d.Namespace, d.Name)
			if d.Status.AvailableReplicas == 0 {
				r.Outcome = failed
			}
		}
		all = append(all, r)
	}
	return all
}

// fresh tells whether the holder of a Lease renews it.
func fresh(lease *coordinationv1.Lease, now time.Time) bool {
	return lease != nil && lease.Spec.RenewTime != nil && now.Sub(lease.Spec.RenewTime.Time) < stale
}

// apart tells whether the clocks of the member's agent and of the hub differ, so that
// times of the one say nothing by the other.
func apart(m *topology.MemberCluster) bool {
	return meta.IsStatusConditionFalse(m.Status.Conditions, topology.MemberClockInSync)
}

// ago says since when a Lease is not renewed.
func ago(lease *coordinationv1.Lease, now time.Time) string {
	if lease == nil || lease.Spec.RenewTime == nil {
		return ""
	}
	return " since " + now.Sub(lease.Spec.RenewTime.Time).Truncate(time.Second).String()
}

func members(f *facts) []Result {
	if len(f.members) == 0 {
		return []Result{{"members", "there are members", warned, "there are none",
			"flotilla join NAME --hub-context HUB --context CLUSTER"}}
	}
	var all []Result
	for i := range f.members {
		m := &f.members[i]
		all = append(all, f.member(m))
		for _, bad := range []struct {
			condition string
			status    metav1.ConditionStatus
			hint      string
		}{
			{topology.MemberIdentity, metav1.ConditionFalse,
				"end the agent of the other cluster, or let it join under another name"},
			{topology.MemberPlausible, metav1.ConditionFalse, "look at the agent's log: its numbers cannot be true"},
			{topology.MemberOrphans, metav1.ConditionTrue, "flotilla get clusters " + m.Name + " prints the commands for each"},
			{topology.MemberClockInSync, metav1.ConditionFalse, "let the nodes of the hub and of the member set their clocks " +
				"by the same time servers; where all members say it, the hub's clock is wrong"},
			{topology.MemberFailoverHeld, metav1.ConditionTrue,
				"look at the hub's own network; flotilla fence NAME --confirm gives a member up"},
		} {
			if c := meta.FindStatusCondition(m.Status.Conditions, bad.condition); c != nil && c.Status == bad.status {
				all = append(all, Result{"members", m.Name + ": " + bad.condition, warned, c.Message, bad.hint})
			}
		}
		if tooFar(f.own, m.Status.AgentVersion) {
			all = append(all, Result{"members", m.Name + " runs an agent of the hub's time", warned,
				fmt.Sprintf("its agent is %s, this program %s", m.Status.AgentVersion, f.own),
				"upgrade the agents first, then the hub; they may differ by one minor version"})
		}
	}
	return all
}

// member judges one member by what the hub says of it and by the Lease that its agent renews.
func (f *facts) member(m *topology.MemberCluster) Result {
	r := Result{Category: "members", Name: m.Name + " takes part and is Ready", Outcome: passed}
	ready := meta.FindStatusCondition(m.Status.Conditions, topology.MemberReady)
	accepted := meta.FindStatusCondition(m.Status.Conditions, topology.MemberAccepted)
	lease := f.memberLeases[m.Name]
	judged := "the hub has not judged it: flotilla-hub does not act; look at its log"
	switch {
	case !m.Spec.Accepted:
		r.Outcome = warned
		r.Found, r.Hint = f.notAccepted(m)
	case accepted == nil || ready == nil:
		r.Outcome, r.Found, r.Hint = failed, "it has no conditions", judged
	case accepted.Status != metav1.ConditionTrue:
		r.Outcome, r.Found, r.Hint = failed, accepted.Message, "docs/errors.md explains "+accepted.Reason
	case ready.Status != metav1.ConditionTrue && !apart(m) && fresh(lease, f.now) &&
		f.now.Sub(ready.LastTransitionTime.Time) > stale:
		r.Outcome, r.Found, r.Hint = failed, "its agent renews its Lease, and the hub has not seen it", judged
	case ready.Status != metav1.ConditionTrue:
		r.Outcome, r.Found, r.Hint = failed, ready.Message,
			"docs/tasks/lose-a-cluster.md; docs/errors.md explains "+ready.Reason
	case apart(m):
		// The Lease has the time of another clock, and says nothing here.
	case f.unread["memberLeases"] == nil && !fresh(lease, f.now):
		r.Outcome = failed
		r.Found = "its agent does not renew its Lease" + ago(lease, f.now) + ", and the hub still has it for Ready"
		r.Hint = judged + "; or the agent's clock and this machine's are apart"
	}
	return r
}

// notAccepted says why a member is not accepted yet, and what to do.
func (f *facts) notAccepted(m *topology.MemberCluster) (found, hint string) {
	switch err := f.unread["requests"]; {
	case f.asking[m.Name]:
		return "its agent asks to join",
			"compare the fingerprint, and flotilla accept " + m.Name + " --fingerprint sha256:..."
	case err != nil:
		return "it is not accepted; whether its agent has asked cannot be read: " + err.Error(),
			"ask as somebody who may read CertificateSigningRequests"
	}
	return "it is not accepted, and its agent has not asked", "run its agent, then flotilla accept " + m.Name
}

// tooFar tells whether hub and agent differ by more than one minor version. Versions of no release are not judged.
func tooFar(own, agent string) bool {
	a, errA := version.ParseGeneric(own)
	b, errB := version.ParseGeneric(agent)
	if errA != nil || errB != nil || a.Major()+a.Minor() == 0 || b.Major()+b.Minor() == 0 {
		return false
	}
	return a.Major() != b.Major() || max(a.Minor(), b.Minor())-min(a.Minor(), b.Minor()) > 1
}

func workloads(f *facts) []Result {
	if err := f.unread["workloads"]; err != nil {
		return []Result{unread("workloads", "no workload stands still", err)}
	}
	var all []Result
	if f.federated > 0 && len(f.policies) == 0 {
		all = append(all, Result{"workloads", "there is a policy", warned,
			fmt.Sprintf("%d namespaces are federated, and nothing in them is placed", f.federated),
			"write a FederationPolicy: docs/kinds/federationpolicy.md"})
	}
	for _, name := range slices.Sorted(maps.Keys(f.policies)) {
		if c := meta.FindStatusCondition(f.policies[name], "Ready"); c != nil && c.Status == metav1.ConditionFalse {
			all = append(all, Result{"workloads", name + " holds", warned, c.Message, "docs/errors.md explains " + c.Reason})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.stalled)) {
		all = append(all, Result{"workloads", name + " goes on", warned, f.stalled[name], "flotilla why says more"})
	}
	if len(f.stalled) == 0 {
		all = append(all, Result{Category: "workloads", Name: "no workload stands still", Outcome: passed,
			Found: fmt.Sprintf("%d workloads in federated namespaces", f.workloads)})
	}
	return all
}
