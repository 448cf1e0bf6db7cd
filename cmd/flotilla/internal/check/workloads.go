package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/decision"
	"github.com/flotilla-dev/flotilla/hub/explain"
	"github.com/flotilla-dev/flotilla/hub/policy"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
)

const (
	// unanswered is the age from which an object is judged whose status no controller has written.
	unanswered = 10 * time.Second
	// undecided is the age from which a workload is judged about which the hub has decided nothing.
	undecided = time.Minute
)

// named is how many names a finding has.
const named = 5

// workload is what is judged of an object of a kind whose status the hub writes.
type workload struct {
	key wire.Key
	// federated reports whether members get it; answered whether any controller has written its status.
	federated, answered bool
	created             time.Time
	conditions          []metav1.Condition
	// replicas and unplaced are those of its placement.
	replicas int32
	unplaced []topology.Unplaced
}

// idle is an object that is accepted and does nothing where it is.
type idle struct {
	kind, namespace, name string
	// why it does nothing, and what to do instead.
	why, instead string
}

// workloads returns the findings about policies and workloads.
func workloads(f *facts) []Result {
	if err := f.unread["workloads"]; err != nil {
		return []Result{unread("workloads", "workloads", err)}
	}
	var all []Result
	if f.federated > 0 && len(f.policies) == 0 {
		all = append(all, Result{"workloads", "policies", warned,
			fmt.Sprintf("there is none, and nothing in %d federated %s is placed", f.federated,
				plural(f.federated, "namespace")),
			"create a FederationPolicy: docs/kinds/federationpolicy.md"})
	}
	for _, name := range slices.Sorted(maps.Keys(f.policies)) {
		if r, wrong := f.policy(name); wrong {
			all = append(all, r)
		}
	}
	all = append(all, f.notFederated()...)
	federated, wrong := 0, 0
	for i := range f.workloads {
		w := &f.workloads[i]
		if w.federated {
			federated++
		}
		if found, hint := f.workload(w); found != "" {
			wrong++
			all = append(all, Result{"workloads", w.key.Sentence(), failed, found, hint})
		} else if found := w.troubled(); found != "" {
			all = append(all, Result{"workloads", w.key.Sentence(), warned, found, f.why(w)})
		}
	}
	all = append(all, f.doNothing()...)
	if err := f.unread["idle"]; err != nil {
		all = append(all, unread("workloads", "objects that do nothing on a hub", err))
	}
	if wrong == 0 {
		all = append(all, Result{Category: "workloads", Name: "federated workloads", Outcome: passed,
			Found: fmt.Sprintf("%d, none is stalled or without a place", federated)})
	}
	return all
}

// policy returns the finding about a policy; false where nothing is wrong.
func (f *facts) policy(name string) (Result, bool) {
	c := meta.FindStatusCondition(f.policies[name], "Ready")
	switch {
	case c == nil || c.Status == metav1.ConditionTrue && c.Message == policy.Holds:
		return Result{}, false
	case c.Status == metav1.ConditionTrue || c.Reason == topology.PolicyConflicted:
		return Result{"workloads", name, warned, c.Message, explained(c.Reason)}, true
	}
	return Result{"workloads", name, failed, c.Message, explained(c.Reason)}, true
}

// notFederated returns a finding for each namespace with workloads that neither members nor the hub's own cluster run.
func (f *facts) notFederated() []Result {
	byNamespace := map[string][]string{}
	for i := range f.workloads {
		w := &f.workloads[i]
		if !w.federated && !w.answered && w.key.Namespace != "" && f.now.Sub(w.created) > unanswered {
			byNamespace[w.key.Namespace] = append(byNamespace[w.key.Namespace], w.key.Kind+" "+w.key.Name)
		}
	}
	var all []Result
	for _, namespace := range slices.Sorted(maps.Keys(byNamespace)) {
		names := byNamespace[namespace]
		all = append(all, Result{"workloads", "namespace " + namespace, failed,
			fmt.Sprintf("no member gets its %d %s (%s): it has no label %s=true", len(names), plural(len(names), "workload"),
				listed(names), topology.LabelFederated),
			"kubectl label namespace " + namespace + " " + topology.LabelFederated + "=true" + f.flags})
	}
	return all
}

// workload returns what is wrong with a workload, and what to do; "" for nothing.
func (f *facts) workload(w *workload) (found, hint string) {
	why := f.why(w)
	stalled := meta.FindStatusCondition(w.conditions, apps.ConditionStalled)
	placed := meta.FindStatusCondition(w.conditions, apps.ConditionFederated)
	if !w.federated {
		return f.unfederated(w, stalled)
	}
	switch {
	case placed != nil && intended(placed.Reason):
		return "", ""
	case stalled != nil && stalled.Status == metav1.ConditionTrue:
		return "it is stalled: " + stalled.Reason + ": " + stalled.Message, why
	}
	if n, reason := w.missing(); n > 0 {
		return fmt.Sprintf("%d of %d replicas have no place: %s", n, w.replicas, reason), why
	}
	switch {
	case placed != nil && placed.Status == metav1.ConditionFalse:
		return "it is not placed: " + placed.Reason + ": " + placed.Message, why
	case placed == nil && f.now.Sub(w.created) > undecided:
		return "the hub has not decided where it runs", "read the hub's log: kubectl logs -n " + topology.SystemNamespace +
			" deployment/" + hubProgram + f.flags
	}
	return "", ""
}

// why is the command that explains a workload.
func (f *facts) why(w *workload) string {
	if w.key.ClusterScoped() {
		return fmt.Sprintf("flotilla why %s/%s%s", strings.ToLower(w.key.Kind), w.key.Name, f.flags)
	}
	return fmt.Sprintf("flotilla why %s/%s -n %s%s", strings.ToLower(w.key.Kind), w.key.Name, w.key.Namespace, f.flags)
}

// troubled returns what keeps a placed workload from being as it asks and does not end by itself: pods that cannot
// start, and another writer in a member. "" for nothing.
func (w *workload) troubled() string {
	if !w.federated {
		return ""
	}
	ready := meta.FindStatusCondition(w.conditions, apps.ConditionReady)
	if ready != nil && ready.Status == metav1.ConditionFalse && ready.Reason == work.ReasonOverwritten {
		return ready.Reason + ": " + ready.Message
	}
	if pods := meta.FindStatusCondition(w.conditions, apps.ConditionPodsNotReady); pods != nil &&
		pods.Status == metav1.ConditionTrue && !passing(pods.Reason) {
		return "pods are not Ready or not gone: " + pods.Message
	}
	return ""
}

// passing reports whether pods are often not Ready for a reason that ends by itself, as while images are pulled.
func passing(reason string) bool {
	return slices.Contains([]string{"ContainerCreating", "PodTerminating", "ReadinessProbeFailing",
		"StartupProbeFailing"}, reason)
}

// unfederated returns what is wrong with a workload that the hub does not take, and what to do; "" for nothing.
func (f *facts) unfederated(w *workload, stalled *metav1.Condition) (found, hint string) {
	switch {
	case stalled == nil:
	case stalled.Reason == decision.NotLabelled:
		return stalled.Message, fmt.Sprintf("kubectl label %s %s %s=true%s", strings.ToLower(w.key.Kind), w.key.Name,
			topology.LabelFederated, f.flags)
	case stalled.Status == metav1.ConditionTrue && stalled.Reason == decision.NamespaceNotFederated:
		return stalled.Message, "kubectl label namespace " + w.key.Namespace + " " + topology.LabelFederated + "=true" +
			f.flags
	}
	return "", ""
}

// intended reports whether a person wanted that a workload is not placed.
func intended(reason string) bool {
	return slices.Contains([]string{decision.Withdrawn, decision.Removing, conditions.ReasonDeleting,
		conditions.ReasonNamespaceTerminating}, reason)
}

// missing returns how many replicas have no place and why. Those that move have one soon.
func (w *workload) missing() (n int32, reason string) {
	var reasons []string
	for _, u := range w.unplaced {
		if u.Reason.Code == decision.UnplacedMoving {
			continue
		}
		n += u.Replicas
		why, _ := explain.Unplaced(u.Reason)
		reasons = append(reasons, why)
	}
	slices.Sort(reasons)
	return n, strings.Join(slices.Compact(reasons), "; ")
}

// doNothing returns a finding for the objects of one kind and namespace that do nothing on the hub.
func (f *facts) doNothing() []Result {
	type group struct{ namespace, kind, why string }
	names, instead := map[group][]string{}, map[group]string{}
	for _, o := range f.idle {
		g := group{o.namespace, o.kind, o.why}
		names[g], instead[g] = append(names[g], o.name), o.instead
	}
	groups := slices.SortedFunc(maps.Keys(names), func(a, b group) int {
		return strings.Compare(a.namespace+"/"+a.kind+"/"+a.why, b.namespace+"/"+b.kind+"/"+b.why)
	})
	var all []Result
	for _, g := range groups {
		slices.Sort(names[g])
		all = append(all, Result{"workloads", fmt.Sprintf("%s %s/%s", g.kind, g.namespace, listed(names[g])), warned,
			g.why, instead[g]})
	}
	return all
}

// listed returns the first names of a list, and how many more there are.
func listed(names []string) string {
	if len(names) <= named {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:named], ", "), len(names)-named)
}

func plural(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}
