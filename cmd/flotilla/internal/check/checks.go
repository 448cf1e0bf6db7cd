package check

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/explain"
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

// stale is the age of a Lease that no program renews: a program renews its own every few seconds, a member's agent
// every ten. The age is by this machine's clock against the holder's, so that hints name the clocks.
const stale = time.Minute

// Result is what one check found.
type Result struct {
	Category string `json:"category"`
	// Name says what was looked at.
	Name string `json:"name"`
	// Outcome is ok, warning, error or skipped.
	Outcome string `json:"outcome"`
	// Found says what was found; Hint what to do about it, a command where there is one.
	Found string `json:"found,omitempty"`
	Hint  string `json:"hint,omitempty"`
}

// facts are what the checks depend on.
type facts struct {
	now time.Time
	// flags are those that name the hub, as the user gave them, such as " --context hub".
	flags string
	// version is that of the hub's API server, own that of this program.
	version, own string
	// forbidden are the rights that installing needs and the user lacks, as "create namespaces".
	forbidden []string
	// kruise reports whether OpenKruise runs in the cluster.
	kruise bool
	// crds are the definitions that this program has, in their order, as they are in the cluster.
	crds []definition
	// leases are those of the programs, by name; members' are in memberLeases, by member.
	leases, memberLeases map[string]*coordinationv1.Lease
	deployments          []appsv1.Deployment
	// conversion is why an object of an older version is rejected; empty where it is accepted.
	conversion string
	members    []topology.MemberCluster
	// asking are members whose agent has asked to join.
	asking map[string]bool
	// federated is how many namespaces have the label; policies are all policies, as "Kind namespace/name".
	federated int
	policies  map[string][]metav1.Condition
	// workloads are those of the kinds whose status the hub writes, also of namespaces without the label.
	workloads []workload
	// idle are objects of federated namespaces that do nothing there.
	idle []idle
	// unread is why something could not be read, by what it is.
	unread map[string]error
}

// definition is a CustomResourceDefinition of the cluster.
type definition struct {
	name string
	// served reports whether the API server has it; lacks is the first field that this program knows and the API server
	// does not.
	served bool
	lacks  string
}

// installing are the checks before anything is installed.
func installing(f *facts) []Result {
	all := []Result{kubernetes(f)}
	for _, what := range f.forbidden {
		all = append(all, Result{"permissions", "your rights", failed, "you may not " + what,
			"name a context of an administrator with --context"})
	}
	if len(f.forbidden) == 0 {
		all = append(all, Result{Category: "permissions", Name: "your rights", Outcome: passed,
			Found: "you may install Flotilla"})
	}
	found := Result{Category: "cluster", Name: "OpenKruise", Outcome: passed, Found: "it does not run here"}
	if f.kruise {
		found.Outcome, found.Found = warned, "its webhooks are installed, and two programs would act on the same objects"
		found.Hint = "take over as docs/tasks/take-over-from-openkruise.md says"
	}
	if err := f.unread["kruise"]; err != nil {
		found = unread(found.Category, found.Name, err)
	}
	all = append(all, found)
	for _, d := range f.crds {
		if d.lacks != "" {
			return append(all, Result{"cluster", "definitions of an earlier installation", warned,
				fmt.Sprintf("%s has no field %s", d.name, d.lacks), f.upgradeDefinitions()})
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
	r := Result{Category: "kubernetes", Name: "API server", Outcome: passed, Found: "it answers, and is " + f.version}
	if v, err := version.ParseGeneric(f.version); err != nil || v.LessThan(version.MustParseGeneric(oldest)) {
		r.Outcome = failed
		r.Found = fmt.Sprintf("it is %s, older than %s", f.version, strings.TrimSuffix(oldest, ".0"))
		r.Hint = "upgrade the cluster: the rules of validation need it"
	}
	return r
}

func (f *facts) upgradeDefinitions() string {
	return "kubectl apply --server-side -f apis/crds" + f.flags +
		", or helm upgrade --install flotilla-crds charts/flotilla-crds -n " + topology.SystemNamespace
}

func definitions(f *facts) []Result {
	r := Result{Category: "definitions", Name: "CustomResourceDefinitions", Outcome: passed,
		Found: fmt.Sprintf("%d of %d, as new as this program", len(f.crds), len(f.crds))}
	var missing []string
	for _, d := range f.crds {
		switch {
		case !d.served:
			missing = append(missing, d.name)
		case d.lacks != "" && r.Outcome == passed:
			r.Outcome, r.Found = warned, fmt.Sprintf("%s has no field %s", d.name, d.lacks)
			r.Hint = f.upgradeDefinitions()
		}
	}
	if len(missing) > 0 {
		r.Outcome, r.Found = failed, "not served: "+strings.Join(missing, ", ")
		r.Hint = f.upgradeDefinitions()
		return []Result{r}
	}
	c := Result{Category: "definitions", Name: "conversion of v1alpha1", Outcome: passed,
		Found: "an object was converted"}
	if f.conversion != "" {
		c.Outcome, c.Found = warned, f.conversion
		c.Hint = "requests for v1alpha1 need the webhook of flotilla-hub or flotilla-agent; read its log: kubectl logs -n " +
			topology.SystemNamespace + " deployment/flotilla-hub" + f.flags
	}
	if err := f.unread["conversion"]; err != nil {
		c = unread(c.Category, c.Name, err)
	}
	return []Result{r, c}
}

// unread is a check that needs what could not be read.
func unread(category, name string, err error) Result {
	return Result{category, name, skipped, err.Error(), "name a context with the right to read it with --context"}
}

const (
	hubProgram      = "flotilla-hub"
	approverProgram = "flotilla-approver"
)

func programs(f *facts) []Result {
	all := []Result{f.leader(hubProgram)}
	if f.leases[approverProgram] != nil || f.deployed(approverProgram) {
		all = append(all, f.approver())
	}
	if err := f.unread["deployments"]; err != nil {
		all = append(all, unread("programs", "Deployments of the programs", err))
	}
	for i := range f.deployments {
		d := &f.deployments[i]
		r := Result{Category: "programs", Name: "Deployment " + d.Name, Outcome: passed}
		want := int32(1)
		if d.Spec.Replicas != nil {
			want = *d.Spec.Replicas
		}
		r.Found = fmt.Sprintf("%d of %d replicas are available", d.Status.AvailableReplicas, want)
		if d.Status.AvailableReplicas < want || want == 0 {
			r.Outcome = warned
			r.Hint = fmt.Sprintf("kubectl -n %s describe deployment/%s%s", d.Namespace, d.Name, f.flags)
			if d.Status.AvailableReplicas == 0 {
				r.Outcome = failed
			}
		}
		if want == 0 {
			r.Hint = fmt.Sprintf("kubectl -n %s scale deployment/%s --replicas=2%s", d.Namespace, d.Name, f.flags)
		}
		all = append(all, r)
	}
	return all
}

func (f *facts) deployed(program string) bool {
	return slices.ContainsFunc(f.deployments, func(d appsv1.Deployment) bool { return d.Name == program })
}

// leader judges a program by the Lease that its leader renews.
func (f *facts) leader(program string) Result {
	r := Result{Category: "programs", Name: program, Outcome: failed}
	r.Hint = "running pods keep running, and nothing new is decided; read its log: kubectl logs -n " +
		topology.SystemNamespace + " deployment/" + program + f.flags
	lease := f.leases[program]
	switch {
	case f.unread["leases"] != nil:
		return unread(r.Category, r.Name, f.unread["leases"])
	case lease == nil && f.judged():
		r.Outcome, r.Found = warned, "it has no Lease, so whether it runs is not known"
		r.Hint = "start it without --leader-elect=false"
	case lease == nil:
		r.Found = "it has no Lease, and has judged nothing here: it does not run"
		if !f.deployed(program) {
			r.Hint = "install it: docs/install.md; or name the hub with --context"
		}
	case lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "":
		r.Found = "it does not run: no replica holds its Lease"
	case !fresh(lease, f.now):
		r.Found = "it does not run: its Lease was not renewed for " + ageOf(lease, f.now)
		r.Hint += "; compare its clock with that of this machine"
	default:
		r.Outcome, r.Found, r.Hint = passed, "it renewed its Lease "+ageOf(lease, f.now)+" ago", ""
	}
	return r
}

// approver judges the approver. A hub may have none, and the Lease of one that was removed stays.
func (f *facts) approver() Result {
	r := f.leader(approverProgram)
	if r.Outcome == failed && !f.deployed(approverProgram) {
		r.Outcome = warned
		r.Hint = fmt.Sprintf("if it was removed, delete its Lease: kubectl -n %s delete lease %s%s; else start it",
			topology.SystemNamespace, approverProgram, f.flags)
	}
	return r
}

// judged reports whether a hub has judged a member here, ever.
func (f *facts) judged() bool {
	return slices.ContainsFunc(f.members, func(m topology.MemberCluster) bool { return len(m.Status.Conditions) > 0 })
}

// fresh reports whether the holder of a Lease renews it.
func fresh(lease *coordinationv1.Lease, now time.Time) bool {
	return lease != nil && lease.Spec.RenewTime != nil && now.Sub(lease.Spec.RenewTime.Time) < stale
}

// apart reports whether the clocks of the member's agent and of the hub differ, so that times of the one say nothing
// by the other.
func apart(m *topology.MemberCluster) bool {
	return meta.IsStatusConditionFalse(m.Status.Conditions, topology.MemberClockInSync)
}

// ageOf returns how long ago a Lease was renewed.
func ageOf(lease *coordinationv1.Lease, now time.Time) string {
	if lease == nil || lease.Spec.RenewTime == nil {
		return "ever"
	}
	return max(now.Sub(lease.Spec.RenewTime.Time), 0).Truncate(time.Second).String()
}

func members(f *facts) []Result {
	if len(f.members) == 0 {
		return []Result{{"members", "members", warned, "the hub has none",
			"flotilla join NAME --hub-context HUB --context CLUSTER; if this is not the hub, name the hub with --context"}}
	}
	var all []Result
	for i := range f.members {
		m := &f.members[i]
		all = append(all, f.member(m))
		all = append(all, f.conditionsOf(m)...)
		if tooFar(f.own, m.Status.AgentVersion) {
			all = append(all, Result{"members", "member " + m.Name, warned,
				fmt.Sprintf("its agent is %s, and this program %s", m.Status.AgentVersion, f.own),
				"upgrade the agents first, then the hub; they may differ by one minor version"})
		}
	}
	return all
}

// conditionsOf returns a finding for each condition of a member that is wrong, beside Ready and Accepted.
func (f *facts) conditionsOf(m *topology.MemberCluster) []Result {
	var all []Result
	for _, bad := range []struct {
		condition string
		status    metav1.ConditionStatus
		hint      string
	}{
		{topology.MemberIdentity, metav1.ConditionFalse,
			"stop the agent of the other cluster, or let it join under another name"},
		{topology.MemberPlausible, metav1.ConditionFalse, "read the agent's log: its numbers cannot be true"},
		{topology.MemberOrphans, metav1.ConditionTrue, "flotilla get clusters " + m.Name + f.flags + " prints the commands"},
		{topology.MemberClockInSync, metav1.ConditionFalse, "let the nodes of the hub and of the member set their clocks " +
			"by the same time servers; if all members have this, the hub's clock is wrong"},
		{topology.MemberFailoverHeld, metav1.ConditionTrue,
			"look at the hub's own network; flotilla fence " + m.Name + " --confirm" + f.flags + " gives the member up"},
	} {
		if c := meta.FindStatusCondition(m.Status.Conditions, bad.condition); c != nil && c.Status == bad.status {
			all = append(all, Result{"members", "member " + m.Name + ": " + bad.condition, warned, c.Message, bad.hint})
		}
	}
	return all
}

// member judges one member by the hub's conditions and by the Lease that its agent renews.
func (f *facts) member(m *topology.MemberCluster) Result {
	r := Result{Category: "members", Name: "member " + m.Name, Outcome: passed, Found: "it is Ready"}
	ready := meta.FindStatusCondition(m.Status.Conditions, topology.MemberReady)
	accepted := meta.FindStatusCondition(m.Status.Conditions, topology.MemberAccepted)
	lease := f.memberLeases[m.Name]
	judged := "flotilla-hub does not act; read its log: kubectl logs -n " + topology.SystemNamespace +
		" deployment/flotilla-hub" + f.flags
	switch {
	case !m.Spec.Accepted:
		r.Outcome = warned
		r.Found, r.Hint = f.notAccepted(m)
	case accepted == nil || ready == nil:
		r.Outcome, r.Found, r.Hint = failed, "the hub has not judged it", judged
	case accepted.Status != metav1.ConditionTrue:
		r.Outcome, r.Found, r.Hint = failed, accepted.Message, explained(accepted.Reason)
	case ready.Status != metav1.ConditionTrue && !apart(m) && fresh(lease, f.now) &&
		f.now.Sub(ready.LastTransitionTime.Time) > stale:
		r.Outcome, r.Found, r.Hint = failed, "it is not Ready, and its agent renews its Lease", judged
	case ready.Status != metav1.ConditionTrue:
		r.Outcome, r.Found, r.Hint = failed, ready.Message, "docs/tasks/lose-a-cluster.md; "+explained(ready.Reason)
	case apart(m):
		// The Lease has the time of another clock, and says nothing here.
	case f.unread["memberLeases"] == nil && !fresh(lease, f.now):
		r.Outcome = failed
		r.Found = "the hub takes it for Ready, and its agent has no Lease"
		if lease != nil {
			r.Found = "the hub takes it for Ready, and its agent has not renewed its Lease for " + ageOf(lease, f.now)
		}
		r.Hint = judged + "; or compare the agent's clock with that of this machine"
	}
	return r
}

// explained names the page about a reason.
func explained(reason string) string { return explain.Anchor(reason) + " says what to do" }

// notAccepted says why a member is not accepted yet, and what to do.
func (f *facts) notAccepted(m *topology.MemberCluster) (found, hint string) {
	switch err := f.unread["requests"]; {
	case f.asking[m.Name]:
		return "its agent asks to join", "compare the fingerprint, then run: flotilla accept " + m.Name +
			" --fingerprint sha256:..." + f.flags
	case err != nil:
		return "it is not accepted; whether its agent has asked cannot be read: " + err.Error(),
			"name a context with the right to read CertificateSigningRequests with --context"
	}
	return "it is not accepted, and its agent has not asked",
		"start its agent, then run: flotilla accept " + m.Name + f.flags
}

// tooFar reports whether hub and agent differ by more than one minor version. Versions of no release are not judged.
func tooFar(own, agent string) bool {
	a, errA := version.ParseGeneric(own)
	b, errB := version.ParseGeneric(agent)
	if errA != nil || errB != nil || a.Major()+a.Minor() == 0 || b.Major()+b.Minor() == 0 {
		return false
	}
	return a.Major() != b.Major() || max(a.Minor(), b.Minor())-min(a.Minor(), b.Minor()) > 1
}
