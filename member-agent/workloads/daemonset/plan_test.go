package daemonset

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

type edit = func(*v1beta1.DaemonSet)

// rolling changes the limits of the update.
func rolling(change func(*v1beta1.RollingUpdateDaemonSet)) edit {
	return func(set *v1beta1.DaemonSet) { change(set.Spec.UpdateStrategy.RollingUpdate) }
}

func partition(value string) edit {
	return rolling(func(r *v1beta1.RollingUpdateDaemonSet) { r.Partition = new(intstr.Parse(value)) })
}

func unavailable(value string) edit {
	return rolling(func(r *v1beta1.RollingUpdateDaemonSet) { r.MaxUnavailable = new(intstr.Parse(value)) })
}

func surge(value string) edit {
	return rolling(func(r *v1beta1.RollingUpdateDaemonSet) { r.MaxSurge = new(intstr.Parse(value)) })
}

func canary() edit {
	return rolling(func(r *v1beta1.RollingUpdateDaemonSet) {
		r.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"canary": "yes"}}
	})
}

func inPlace() edit {
	return rolling(func(r *v1beta1.RollingUpdateDaemonSet) {
		r.Type = v1beta1.InPlaceIfPossibleDaemonSetRollingUpdateType
	})
}

func burst(value string) edit {
	return func(set *v1beta1.DaemonSet) { set.Spec.BurstReplicas = new(intstr.Parse(value)) }
}

func onDelete(set *v1beta1.DaemonSet) {
	set.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType
}

func paused() edit {
	return rolling(func(r *v1beta1.RollingUpdateDaemonSet) { r.Paused = new(true) })
}

func partitionedScaling(set *v1beta1.DaemonSet) {
	set.Spec.ScaleStrategy = &v1beta1.DaemonSetScaleStrategy{PartitionedScaling: true}
}

// held lets a hook hold all pods that are to be deleted.
func held(set *v1beta1.DaemonSet) {
	set.Spec.Template.Labels["held"] = "true"
	set.Spec.Lifecycle = &v1beta1.Lifecycle{PreDelete: &v1beta1.LifecycleHook{
		LabelsHandler: map[string]string{"held": "true"}}}
}

func TestCompute(t *testing.T) {
	for name, tt := range map[string]struct {
		world  string
		change []edit
		want   string
	}{
		"a pod on each node that fits":      {"a b:x c:s d:e", nil, "+a:1"},
		"pods leave nodes that do not fit":  {"a:ux b:us c:ue d:u", nil, "-c:DoesNotFit -a:DoesNotFit"},
		"the highest name is updated first": {"a:o b:o c:o", nil, "-c:Outdated"},
		"maxUnavailable rounds up": {"a:o b:o c:o d:o", []edit{unavailable("30%")},
			"-d:Outdated -c:Outdated"},
		"a partition keeps the lowest names":          {"a:o b:o c:u", []edit{partition("2")}, ""},
		"a partition in percent rounds down":          {"a:o b:o c:u", []edit{partition("50%")}, "-b:Outdated"},
		"a canary by labels":                          {"a:oc b:o c:o", []edit{canary()}, "-a:Outdated"},
		"a canary and a partition":                    {"a:oc b:oc c:u", []edit{canary(), partition("2")}, ""},
		"surge creates beside":                        {"a:o b:o c:o", []edit{surge("50%")}, "+c:2 +b:2"},
		"surge ends when the new pod is available":    {"a:o b:ou", []edit{surge("1")}, "-b:Outdated"},
		"surge waits for the new pod":                 {"a:o b:oU", []edit{surge("1")}, ""},
		"in place":                                    {"a:o b:o", []edit{inPlace()}, "~b"},
		"an unavailable pod needs no budget":          {"a:O b:U c:o", nil, "-a:Outdated"},
		"paused":                                      {"a:o b:o c", []edit{paused()}, "+c:1"},
		"OnDelete creates the newest revision":        {"a:o b", []edit{onDelete}, "+b:2"},
		"a new node above the partition":              {"a:o b:u c", []edit{partition("2")}, "+c:1"},
		"partitioned scaling":                         {"a:o b:u c", []edit{partition("2"), partitionedScaling}, ""},
		"a failed pod is replaced":                    {"a:f b:u", nil, "-a:Ended"},
		"nothing beside a terminating pod":            {"a:t", nil, ""},
		"a burst bounds creation":                     {"a b c", []edit{burst("1")}, "+c:1"},
		"a burst in percent is at least 1":            {"a b c", []edit{burst("1%")}, "+c:1"},
		"a burst of 0":                                {"a b:f", []edit{burst("0")}, ""},
		"a lost node does not stop the others":        {"a:o b:UN", nil, "-a:Outdated"},
		"a lost node is not updated":                  {"a:u b:oN", nil, ""},
		"a hook holds a pod":                          {"a:o b:o", []edit{held}, "b=PreparingDelete"},
		"limits of 0 and 0 update one":                {"a:o b:o", []edit{unavailable("0"), surge("0")}, "-b:Outdated"},
		"a pod that may stay is updated in place":     {"a:os", []edit{inPlace()}, "~a"},
		"a pod that may stay is not replaced":         {"a:os", nil, ""},
		"the oldest of two pods stays":                {"a:uu", nil, "-a:Duplicate"},
		"a node that needs a pod beside updated ones": {"a:u b", nil, "+b:2"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tt.world, tt.change...)
			plan, _ := w.plan()
			if got := describe(plan); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestPodsAreMadeForOneNode(t *testing.T) {
	set := newSet(func(set *v1beta1.DaemonSet) {
		set.Name = strings.Repeat("long", 20)
		spec := &set.Spec.Template.Spec
		spec.HostNetwork = true
		spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists,
			Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))}}
		spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}, NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "gpu", Operator: "Exists"}}}}}}}
	})
	revision := workload.Revision{Template: &set.Spec.Template.PodTemplateSpec}
	revision.Name, revision.Hash = "name-abc", "abc"
	pod := newPod(set, "log-abcde", Creation{Node: "a", Revision: revision}, time.Unix(0, 0))
	if podset.NodeOf(pod) != "a" || pod.Name != "log-abcde" || pod.Spec.Affinity.PodAntiAffinity == nil {
		t.Errorf("pod %s is for node %q, affinity %+v", pod.Name, podset.NodeOf(pod), pod.Spec.Affinity)
	}
	if label := pod.Labels[podset.LabelRevision]; label != "abc" {
		t.Errorf("the revision's label is %q", label)
	}
	if have := pod.Spec.Tolerations; len(have) != 7 || have[0].TolerationSeconds != nil ||
		have[6].Key != corev1.TaintNodeNetworkUnavailable {
		t.Errorf("tolerations %+v", have)
	}
	if required := set.Spec.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution; len(
		required.NodeSelectorTerms[0].MatchFields) > 0 || len(set.Spec.Template.Spec.Tolerations) != 1 {
		t.Error("the template has changed")
	}
}

func TestFailedPodsAreReplacedLaterEachTime(t *testing.T) {
	w := newWorld(t, "a:f")
	for _, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		plan, _ := w.plan()
		if describe(plan) != "-a:Ended" || len(plan.Failed) != 1 {
			t.Fatalf("%q, failed on %v", describe(plan), plan.Failed)
		}
		w.memory.backoff.failed("a", w.now)
		if plan, _ = w.plan(); describe(plan) != "" || plan.Wake != want {
			t.Fatalf("%q, again in %s, want in %s", describe(plan), plan.Wake, want)
		}
		w.now = w.now.Add(want)
	}
	for range 20 {
		w.memory.backoff.failed("a", w.now)
	}
	if left := w.memory.backoff.left("a", w.now); left != lastRetry {
		t.Errorf("it waits %s after many failures", left)
	}
	w.memory.backoff.failed("b", w.now.Add(3*lastRetry))
	if _, kept := w.memory.backoff["a"]; kept {
		t.Error("a node that did well is not forgotten")
	}
}

func TestStatus(t *testing.T) {
	w := newWorld(t, "a:o b:u c:U d:oN e:ux f", partition("1"))
	_, status := w.plan()
	got := status
	got.Conditions, got.UpdateRevision, got.CurrentRevision = nil, "", ""
	want := v1beta1.DaemonSetStatus{DesiredNumberScheduled: 5, CurrentNumberScheduled: 4, NumberMisscheduled: 1,
		NumberReady: 3, NumberAvailable: 3, NumberUnavailable: 2, UpdatedNumberScheduled: 2}
	if len(got.Conditions) > 0 || got.DesiredNumberScheduled != want.DesiredNumberScheduled ||
		got.CurrentNumberScheduled != want.CurrentNumberScheduled || got.NumberMisscheduled != want.NumberMisscheduled ||
		got.NumberReady != want.NumberReady || got.NumberAvailable != want.NumberAvailable ||
		got.NumberUnavailable != want.NumberUnavailable || got.UpdatedNumberScheduled != want.UpdatedNumberScheduled {
		t.Errorf("%+v, want %+v", got, want)
	}
	if status.UpdateRevision != w.revise().Hash || status.CurrentRevision == status.UpdateRevision {
		t.Errorf("revisions %s and %s", status.UpdateRevision, status.CurrentRevision)
	}
	kept := newWorld(t, "a:u b:u")
	metav1.SetMetaDataAnnotation(&kept.set.ObjectMeta, topology.AnnotationTemplateBefore,
		`{"spec":{"containers":[{"name":"main","image":"log:0"}]}}`)
	if _, status = kept.plan(); status.CurrentRevision == status.UpdateRevision {
		t.Errorf("the previous revision is forgotten, and a hub keeps it for nodes that come: %+v", status)
	}
	if _, status = newWorld(t, "a:u b:u").plan(); status.CurrentRevision != status.UpdateRevision {
		t.Error("the rollout is over, and the current revision is the previous one")
	}
}

// TestNodesThatComeGetTheirRevision: the previous revision is not forgotten while a node that comes may have to get it,
// also if all nodes with it, or all nodes, have gone.
func TestNodesThatComeGetTheirRevision(t *testing.T) {
	for name, tt := range map[string]struct {
		before, after string
		change        []edit
		want          string
	}{
		"the rollout is over":                  {"a:u b:u", "c", nil, "+c:2"},
		"all nodes went while it was paused":   {"a:ox", "c", []edit{paused()}, "+c:1"},
		"all nodes went, and nothing holds it": {"a:ox", "c", nil, "+c:2"},
		"the nodes of the partition went":      {"a:ox b:u", "c", []edit{partition("1")}, "+c:1"},
		"the nodes that are not selected went": {"a:ox b:uc", "c", []edit{canary()}, "+c:1"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tt.before, tt.change...)
			for i := range w.nodes {
				if w.nodes[i].Labels["pool"] == "off" {
					w.pods = w.pods[1:] // that of node a
				}
			}
			_, w.set.Status = w.plan()
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: tt.after, Labels: map[string]string{"pool": "on"}}}
			w.nodes = append(w.nodes, node)
			plan, _ := w.plan()
			if got := describe(plan); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// TestCountsForAHub: what a report says of nodes, beside the published counters.
func TestCountsForAHub(t *testing.T) {
	for name, tt := range map[string]struct {
		world  string
		change []edit
		want   work.SubsetUse
	}{
		"at rest": {"a:u b:u", nil, work.SubsetUse{Desired: 2, Total: 2, Ready: 2, Available: 2, Updated: 2, UpdatedReady: 2,
			UpdatedAvailable: 2}},
		"the updated pod is not available": {"a:o b:U", nil, work.SubsetUse{Desired: 2, Total: 2, Ready: 1, Available: 1,
			Updated: 1}},
		"a surge": {"a:oU b:o", []edit{surge("1")}, work.SubsetUse{Desired: 2, Total: 3, Ready: 2, Available: 2, Updated: 1,
			NodeUse: work.NodeUse{Surging: 1}}},
		"nodes that are not selected": {"a:oc b:o c:u", []edit{canary()}, work.SubsetUse{Desired: 3, Total: 3, Ready: 3,
			Available: 3, Updated: 1, UpdatedReady: 1, UpdatedAvailable: 1, NodeUse: work.NodeUse{NotUpdatable: 1}}},
		"nodes without a pod by choice": {"a:o b:u c d:N", []edit{partition("3"), partitionedScaling}, work.SubsetUse{
			Desired: 4, Total: 2, Ready: 2, Available: 2, Updated: 1, UpdatedReady: 1, UpdatedAvailable: 1,
			NodeUse: work.NodeUse{Withheld: 2, LostOutdated: 1}}},
		"lost nodes": {"a:oN b:UN c:u", nil, work.SubsetUse{Desired: 3, Total: 3, Ready: 2, Available: 2, Updated: 2,
			UpdatedReady: 1, UpdatedAvailable: 1, NodeUse: work.NodeUse{LostUnavailable: 1, LostOutdated: 1}}},
	} {
		_, status := newWorld(t, tt.world, tt.change...).plan()
		live, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&v1beta1.DaemonSet{Status: status})
		if err != nil {
			t.Fatal(err)
		}
		use, err := Reporting().Use(&unstructured.Unstructured{Object: live})
		if err != nil || len(use) != 1 || use[0] != tt.want {
			t.Errorf("%s: %+v, %v; want %+v", name, use, err, tt.want)
		}
	}
}

// TestObservedOrders: an order counts once the controller has seen its sequence and the generation.
func TestObservedOrders(t *testing.T) {
	for name, tt := range map[string]struct {
		generation, sequence int64
		want                 bool
	}{
		"both": {2, 5, true}, "a later one": {2, 6, true}, "another budget": {2, 4, false}, "another spec": {1, 5, false},
	} {
		set := newSet()
		set.Generation, set.Annotations = 2, map[string]string{topology.AnnotationSequence: "5"}
		set.Status.ObservedGeneration, set.Status.ObservedSequence = tt.generation, tt.sequence
		live, err := runtime.DefaultUnstructuredConverter.ToUnstructured(set)
		if err != nil {
			t.Fatal(err)
		}
		if got := Reporting().Observed(&unstructured.Unstructured{Object: live}); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestConditions(t *testing.T) {
	for name, tt := range map[string]struct {
		world               string
		change              []edit
		ready, reason, says string
	}{
		"complete":      {"a:u b:u", nil, "True", "AllAvailable", "2 of 2 pods are available"},
		"no nodes":      {"", nil, "True", reasonNoNodeFits, "the cluster has no nodes"},
		"no node fits":  {"a:x b:e c:s", nil, "True", reasonNoNodeFits, "exclude 1, and 2 have taints"},
		"updating":      {"a:o b:u", nil, "False", "Updating", "1 of the 2 pods to update are updated"},
		"paused":        {"a:o b:u", []edit{paused()}, "False", "Paused", "the update is paused"},
		"partition":     {"a:o b:u", []edit{partition("1")}, "True", "AllAvailable", "the partition asks for 1"},
		"canary":        {"a:o b:u", []edit{canary()}, "True", "AllAvailable", "the selector of nodes asks for 1"},
		"lost":          {"a:u b:oN", nil, "False", reasonNodesLost, "NotReady for 5m0s"},
		"lost, no pod":  {"a:u b:UN", nil, "False", reasonNodesLost, "1 of 2 pods are available and 2 updated"},
		"lost, not all": {"a:o b:u c:UN", nil, "False", "Updating", "2 of the 3 pods to update"},
		"burst":         {"a b", []edit{burst("0")}, "False", reasonBurstReplicas, "2 pods are neither created"},
		"a hook":        {"a:ux", []edit{held}, "True", reasonNoNodeFits, "exclude 1"},
		"strategy": {"a:u", []edit{unavailable("x")}, "False", "InvalidStrategy",
			"updateStrategy.rollingUpdate.maxUnavailable"},
		"selector of nodes": {"a:u", []edit{rolling(func(r *v1beta1.RollingUpdateDaemonSet) {
			r.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In"}}}
		})}, "False", "InvalidStrategy", "updateStrategy.rollingUpdate.selector cannot be used"},
		"affinity": {"a:u", []edit{func(set *v1beta1.DaemonSet) {
			set.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "a", Operator: "Like"}}}}}}}
		}}, "False", "InvalidTemplate", "template.spec.affinity.nodeAffinity cannot be used"},
		"specified-delete for all": {"a:u", []edit{func(set *v1beta1.DaemonSet) {
			set.Spec.Template.Labels[v1beta1.LabelSpecifiedDelete] = "true"
		}}, "False", "InvalidTemplate", "remove it"},
	} {
		t.Run(name, func(t *testing.T) {
			_, status := newWorld(t, tt.world, tt.change...).plan()
			got := condition(status, v1beta1.ConditionReady)
			if string(got.Status) != tt.ready || got.Reason != tt.reason || !strings.Contains(got.Message, tt.says) {
				t.Errorf("%s %s: %s", got.Status, got.Reason, got.Message)
			}
		})
	}
}

func granted(paused bool, updated, unavailable, surge int32) workload.Budget {
	return workload.Budget{Granted: true, Amounts: &topology.MemberBudget{Paused: paused,
		Budget: topology.Budget{Updated: updated, Unavailable: unavailable, Surge: surge}}}
}

func TestBudgetOfAHub(t *testing.T) {
	for name, tt := range map[string]struct {
		budget workload.Budget
		want   string
	}{
		"amounts":         {granted(false, 2, 2, 0), "-c:Outdated -b:Outdated"},
		"nothing granted": {granted(false, 3, 0, 0), ""},
		"it waits":        {granted(true, 3, 3, 0), ""},
		"it has expired":  {workload.Budget{Granted: true, Expired: true}, ""},
		"surge":           {granted(false, 3, 0, 1), "+c:2"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "a:o b:o c:o", unavailable("100%"))
			w.budget = tt.budget
			plan, _ := w.plan()
			if got := describe(plan); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// TestTakenOverPodsKeepTheirRevision begins without a status of ours, as after OpenKruise's manager.
func TestTakenOverPodsKeepTheirRevision(t *testing.T) {
	w := newWorld(t, "a:o b:u c", partition("2"))
	w.set.Status.CurrentRevision = ""
	plan, status := w.plan()
	if got := describe(plan); got != "+c:1" || status.CurrentRevision == status.UpdateRevision {
		t.Errorf("%q, revisions %s and %s", got, status.CurrentRevision, status.UpdateRevision)
	}
}

// TestReadinessGates holds that only pods that are updated in place, or that hooks mark, have readiness gates.
func TestReadinessGates(t *testing.T) {
	hooks := func(set *v1beta1.DaemonSet) {
		set.Spec.Lifecycle = &v1beta1.Lifecycle{PreDelete: &v1beta1.LifecycleHook{}}
	}
	for name, tt := range map[string]struct {
		change []edit
		want   int
	}{
		"Standard": {nil, 0}, "InPlaceIfPossible": {[]edit{inPlace()}, 2}, "hooks": {[]edit{hooks}, 2},
	} {
		w := newWorld(t, "n1:u", tt.change...)
		if gates := w.pods[0].Spec.ReadinessGates; len(gates) != tt.want || gated(w.set) != (tt.want > 0) {
			t.Errorf("%s: gates %v, want %d", name, gates, tt.want)
		}
	}
}
