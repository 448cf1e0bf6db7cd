package workloadspread

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/order"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/spread"
)

var seeds = flag.Uint64("seeds", 150, "run so many seeds of the simulation of WorkloadSpreads over time")

// TestCase13SimulatedSpreads runs random workloads under WorkloadSpreads that users change, and checks each pass.
func TestCase13SimulatedSpreads(t *testing.T) {
	kinds := []string{"CloneSet", "Deployment", "ReplicaSet", "StatefulSet", "Job", advanced}
	for seed := range *seeds {
		s := newSim(t, seed, kinds[seed%uint64(len(kinds))])
		for range 60 {
			s.step()
		}
		s.settle()
	}
}

const (
	simTick = 5 * time.Second
	// simCritical is shorter than ReopenAfter / subsets, as the schema demands.
	simCritical = 30 * time.Second
)

// sim is one workload, its WorkloadSpread, and a cluster of zones with one node each.
type sim struct {
	t      *testing.T
	seed   uint64
	random *rand.Rand
	now    time.Time
	kind   string

	ws *v1beta1.WorkloadSpread // nil if there is none
	// costsWritten reports whether the pods have the costs of the WorkloadSpread and of the pods as they are now.
	costsWritten bool
	replicas     int32
	version      int
	pods         []*corev1.Pod
	room         map[string]int // how many pods the node of each zone takes
	made         int
	writes       int // to pods and to the status
	log          []string
}

func newSim(t *testing.T, seed uint64, kind string) *sim {
	s := &sim{t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 13)), now: noon, kind: kind, replicas: 4, version: 1,
		room: map[string]int{"a": 50, "b": 50, "c": 50, "d": 50}}
	if s.random.IntN(4) > 0 {
		s.editSpread()
	}
	return s
}

func (s *sim) tell(format string, args ...any) {
	s.log = append(s.log, fmt.Sprintf("%6.0fs ", s.now.Sub(noon).Seconds())+fmt.Sprintf(format, args...))
}

func (s *sim) fatalf(format string, args ...any) {
	s.t.Helper()
	s.t.Fatalf("%s, seed %d: %s\n%s\n%s", s.kind, s.seed, fmt.Sprintf(format, args...),
		strings.Join(s.log[max(0, len(s.log)-60):], "\n"), s.state())
}

func (s *sim) state() string {
	var out []string
	for _, pod := range s.pods {
		out = append(out, fmt.Sprintf("%s v%s %s on %q cost %s %s",
			pod.Name, pod.Labels["version"], subsetOf(pod), pod.Spec.NodeName,
			pod.Annotations[corev1.PodDeletionCost], pod.Status.Phase))
	}
	return strings.Join(out, "\n")
}

// step is a change by the user or the cluster, or a pass of one of the controllers.
func (s *sim) step() {
	switch n := s.random.IntN(14); {
	case n == 0:
		s.replicas = s.random.Int32N(9)
		s.tell("user: replicas %d", s.replicas)
	case n == 1:
		s.version++
		s.tell("user: version %d", s.version)
	case n == 2:
		s.editSpread()
	case n == 3:
		zone := s.zone()
		s.room[zone] = []int{0, 1, 50}[s.random.IntN(3)]
		s.tell("zone %s takes %d pods", zone, s.room[zone])
	case n < 7:
		s.workload()
	case n < 11:
		s.pass()
	default:
		s.cluster()
	}
	s.now = s.now.Add(simTick)
}

func (s *sim) zone() string { return string(rune('a' + s.random.IntN(4))) }

// editSpread changes one thing of the WorkloadSpread, creates it or deletes it.
func (s *sim) editSpread() {
	s.costsWritten = false
	defer func() {
		if s.ws != nil {
			s.ws.Generation++
			s.tell("user: subsets %s, strategy %s", specText(s.ws), s.ws.Spec.ScheduleStrategy.Type)
		}
	}()
	if s.ws == nil {
		s.ws = aSpread(s.kind)
		s.ws.Name = []string{"web", "web", "other"}[s.random.IntN(3)]
		for range 1 + s.random.IntN(3) {
			s.addSubset()
		}
		s.limits()
		return
	}
	subsets := &s.ws.Spec.Subsets
	at := s.random.IntN(len(*subsets))
	switch s.random.IntN(9) {
	case 0, 1:
		if len(*subsets) > 1 {
			*subsets = slices.Delete(*subsets, at, at+1)
		}
	case 2:
		s.addSubset()
	case 3:
		(*subsets)[at].Name = s.freeName()
	case 4:
		s.random.Shuffle(len(*subsets), func(i, j int) { (*subsets)[i], (*subsets)[j] = (*subsets)[j], (*subsets)[i] })
	case 5:
		s.tell("user: no spread")
		s.ws = nil
		return
	case 6:
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{"tier":"t%d"}}}`, s.random.IntN(3))
		(*subsets)[at].Patch = runtime.RawExtension{Raw: patch}
	case 7:
		(*subsets)[at].RequiredNodeSelector = inZone(s.zone())
	}
	s.limits()
}

func (s *sim) freeName() string {
	for {
		name := string(rune('p' + s.random.IntN(6)))
		taken := func(have v1beta1.WorkloadSpreadSubset) bool { return have.Name == name }
		if !slices.ContainsFunc(s.ws.Spec.Subsets, taken) {
			return name
		}
	}
}

func (s *sim) addSubset() {
	if len(s.ws.Spec.Subsets) == 4 {
		return
	}
	subset := v1beta1.WorkloadSpreadSubset{Name: s.freeName()}
	if s.random.IntN(5) > 0 {
		subset.RequiredNodeSelector = inZone(s.zone())
	}
	at := s.random.IntN(len(s.ws.Spec.Subsets) + 1)
	s.ws.Spec.Subsets = slices.Insert(s.ws.Spec.Subsets, at, subset)
}

func inZone(zone string) *corev1.NodeSelectorTerm {
	return &corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}}}
}

// limits draws maxReplicas of all subsets and the strategy, as the schema allows them together.
func (s *sim) limits() {
	percent := !s.target().Ordinal() && s.random.IntN(2) == 0
	for i := range s.ws.Spec.Subsets {
		subset := &s.ws.Spec.Subsets[i]
		switch {
		case s.random.IntN(3) == 0:
			subset.MaxReplicas = nil
		case percent:
			subset.MaxReplicas = new(intstr.FromString(fmt.Sprintf("%d%%", 10*s.random.IntN(11))))
		default:
			subset.MaxReplicas = new(intstr.FromInt32(s.random.Int32N(5)))
		}
	}
	s.ws.Spec.ScheduleStrategy = v1beta1.WorkloadSpreadScheduleStrategy{}
	if s.random.IntN(2) == 0 {
		adaptive(s.ws)
		s.ws.Spec.Subsets[len(s.ws.Spec.Subsets)-1].MaxReplicas = nil
	}
}

func specText(ws *v1beta1.WorkloadSpread) string {
	var out []string
	for i := range ws.Spec.Subsets {
		subset, text := &ws.Spec.Subsets[i], ""
		if subset.RequiredNodeSelector != nil {
			text = "@" + subset.RequiredNodeSelector.MatchExpressions[0].Values[0]
		}
		if subset.MaxReplicas != nil {
			text += "=" + subset.MaxReplicas.String()
		}
		out = append(out, subset.Name+text)
	}
	return ws.Name + ": " + strings.Join(out, " ")
}

func (s *sim) rule() spread.Rule {
	rule, err := spread.Resolve(s.ws, s.replicas)
	if err != nil {
		s.fatalf("%v", err)
	}
	return rule
}

func (s *sim) target() spread.Target { return spread.TargetOf(aSpread(s.kind)) }

// hash is the value of pod-template-hash of a version; a ReplicaSet has one.
func (s *sim) hash(version int) string {
	if s.kind == "Deployment" {
		return fmt.Sprintf("v%d", version)
	}
	return "v"
}

func (s *sim) newest() string {
	if !s.target().Versioned() {
		return ""
	}
	return s.hash(s.version)
}

// pass is one pass of the controller of WorkloadSpreads, with the checks of what it does.
func (s *sim) pass() {
	if s.ws == nil {
		return
	}
	before := s.ready()
	o := seen(s.t, s.ws, s.replicas, s.newest())
	o.now = s.now
	o.pods = slices.Clone(s.pods)
	p := makePlan(o)
	for _, c := range p.change {
		s.checkChange(c)
		for key, value := range c.labels {
			c.pod.Labels[key] = value
		}
		for key, value := range c.annotations {
			c.pod.Annotations[key] = value
		}
		s.writes++
		s.tell("spread: %s gets %v %v", c.pod.Name, c.labels, c.annotations)
	}
	for _, pod := range p.remove {
		age := s.now.Sub(pod.CreationTimestamp.Time)
		if pod.Spec.NodeName != "" || !s.closed(subsetIn(pod, s.ws)) || age < simCritical {
			s.fatalf("%s is deleted by the spread", pod.Name)
		}
		s.pods = slices.DeleteFunc(s.pods, func(have *corev1.Pod) bool { return have == pod })
		s.writes++
		s.tell("spread: deletes %s of subset %s", pod.Name, subsetOf(pod))
	}
	status := statusOf(o, p, nil)
	s.checkStatus(o.pods, status)
	if !equality.Semantic.DeepEqual(status, &s.ws.Status) {
		s.writes++
		s.ws.Status = *status
	}
	if s.ready() < before {
		s.fatalf("%d pods are Ready, %d were before the pass", s.ready(), before)
	}
	if s.costsWritten = len(p.remove) == 0; s.costsWritten {
		s.checkCosts()
	}
}

// subsetIn returns the subset of a pod that the annotation names, "" if the WorkloadSpread does not have it.
func subsetIn(pod *corev1.Pod, ws *v1beta1.WorkloadSpread) string {
	for i := range ws.Spec.Subsets {
		if pod.Annotations[v1beta1.AnnotationMatchedWorkloadSpread] == spread.Annotation(ws, ws.Spec.Subsets[i].Name) {
			return ws.Spec.Subsets[i].Name
		}
	}
	return ""
}

// given reports whether the WorkloadSpread gave the pod a subset, though it may not have that any more.
func given(pod *corev1.Pod, ws *v1beta1.WorkloadSpread) bool {
	text := pod.Annotations[v1beta1.AnnotationMatchedWorkloadSpread]
	return strings.HasPrefix(text, fmt.Sprintf(`{"name":%q,`, ws.Name))
}

func (s *sim) closed(subset string) bool {
	c := schedulableOf(s.ws, subset)
	return c != nil && c.Status == metav1.ConditionFalse
}

// checkChange: a pod that the WorkloadSpread gave a subset gets nothing but a deletion cost, whatever becomes of the
// subset. Another pod gets a subset that its node matches.
func (s *sim) checkChange(c change) {
	value, moved := c.annotations[v1beta1.AnnotationMatchedWorkloadSpread]
	_, cost := c.annotations[corev1.PodDeletionCost]
	if cost && !s.target().Costly() {
		s.fatalf("%s gets a deletion cost", c.pod.Name)
	}
	if !moved {
		if len(c.labels) > 0 || len(c.annotations) != 1 || !cost {
			s.fatalf("%s gets %v %v", c.pod.Name, c.labels, c.annotations)
		}
		return
	}
	if given(c.pod, s.ws) {
		s.fatalf("%s moves from %s to %s",
			c.pod.Name, c.pod.Annotations[v1beta1.AnnotationMatchedWorkloadSpread], value)
	}
	at := slices.IndexFunc(s.ws.Spec.Subsets, func(subset v1beta1.WorkloadSpreadSubset) bool {
		return value == spread.Annotation(s.ws, subset.Name)
	})
	if at < 0 {
		s.fatalf("%s gets %s", c.pod.Name, value)
	}
	term := s.ws.Spec.Subsets[at].RequiredNodeSelector
	if term != nil && c.pod.Spec.NodeName != term.MatchExpressions[0].Values[0]+"-0" {
		s.fatalf("%s on %q gets %s", c.pod.Name, c.pod.Spec.NodeName, value)
	}
}

// checkStatus: each subset counts exactly its pods and has the right number of missing ones, and closed subsets are
// those in which pods wait too long, or waited less than ReopenAfter ago.
func (s *sim) checkStatus(pods []*corev1.Pod, status *v1beta1.WorkloadSpreadStatus) {
	rule := s.rule()
	if len(status.SubsetStatuses) != len(s.ws.Spec.Subsets) {
		s.fatalf("%d rows", len(status.SubsetStatuses))
	}
	for i, row := range status.SubsetStatuses {
		count, waits := int32(0), false
		for _, pod := range pods {
			if subsetIn(pod, s.ws) != row.Name {
				continue
			}
			waits = waits || podstate.Unschedulable(pod) && s.now.Sub(pod.CreationTimestamp.Time) >= simCritical
			if s.target().Version(pod) == s.newest() {
				count++
			}
		}
		missing := spread.Unlimited
		if limit := rule.Subsets[i].Cap; limit != spread.Unlimited {
			missing = max(0, limit-count)
		}
		if row.Name != s.ws.Spec.Subsets[i].Name || row.Replicas != count || row.MissingReplicas != missing {
			s.fatalf("row %+v, want %s with %d pods and %d missing", row, s.ws.Spec.Subsets[i].Name, count, missing)
		}
		was := schedulableOf(s.ws, row.Name)
		held := was != nil && was.Status == metav1.ConditionFalse &&
			s.now.Sub(was.LastTransitionTime.Time) < spread.ReopenAfter
		_, moves := spread.Critical(s.ws)
		want := moves && i < len(status.SubsetStatuses)-1 && (waits || held)
		if is := len(row.Conditions) > 0 && row.Conditions[0].Status == metav1.ConditionFalse; is != want {
			s.fatalf("subset %s is closed: %v, want %v", row.Name, is, want)
		}
	}
}

// checkCosts: pods of removed subsets have the lowest cost; others have that of their subset within its limit, or the
// negative one above.
func (s *sim) checkCosts() {
	if !s.target().Costly() {
		return
	}
	n, rule := len(s.ws.Spec.Subsets), s.rule()
	spare := 0
	if s.kind == "CloneSet" {
		spare = max(0, len(s.pods)-int(s.replicas))
	}
	above := map[string]int{}
	for _, pod := range s.pods {
		have, subset := pod.Annotations[corev1.PodDeletionCost], subsetIn(pod, s.ws)
		if subset == "" {
			want := spread.CostText(int32(-100 * (n + 1)))
			if have != want && (given(pod, s.ws) || pod.Spec.NodeName != "") {
				s.fatalf("%s of no subset has the cost %s, want %s", pod.Name, have, want)
			}
			continue
		}
		i := rule.Index(subset)
		if s.kind == "Deployment" && s.target().Version(pod) != s.newest() {
			i = n - 1 - i
		}
		switch have {
		case spread.CostText(int32(100 * (n - i))):
		case spread.CostText(int32(-100 * (i + 1))):
			above[s.target().Version(pod)+"/"+subset]++
		default:
			s.fatalf("%s of subset %s has the cost %s", pod.Name, subset, have)
		}
	}
	count, wanted, marked := map[string]int{}, 0, 0
	for _, pod := range s.pods {
		if subset := subsetIn(pod, s.ws); subset != "" {
			count[s.target().Version(pod)+"/"+subset]++
		}
	}
	for key, have := range count {
		_, subset, _ := strings.Cut(key, "/")
		most := 0
		if limit := rule.Subsets[rule.Index(subset)].Cap; limit != spread.Unlimited {
			most = max(0, have-int(limit))
		}
		if wanted, marked = wanted+most, marked+above[key]; above[key] > most {
			s.fatalf("%d pods of %s have the cost of pods above the limit, want %d", above[key], key, most)
		}
	}
	if marked != max(0, wanted-spare) {
		s.fatalf("%d pods have the cost of pods above a limit, want %d less %d", marked, wanted, spare)
	}
}

func (s *sim) ready() (n int) {
	for _, pod := range s.pods {
		if podstate.Ready(pod) {
			n++
		}
	}
	return n
}

// workload is one pass of the workload's controller.
func (s *sim) workload() {
	switch s.kind {
	case "StatefulSet", advanced:
		s.statefulSet()
	case "Deployment":
		s.deployment()
	case "CloneSet":
		s.rollCloneSet()
		s.scaleTo(s.pods, s.version, int(s.replicas))
	default: // the version of a ReplicaSet and of a Job does not change
		s.scaleTo(s.pods, s.version, int(s.replicas))
	}
}

// scaleTo makes pods of a version, or takes some of these away.
func (s *sim) scaleTo(of []*corev1.Pod, version, want int) {
	for n := len(of); n < want; n++ {
		s.create(version, n)
	}
	if len(of) <= want {
		return
	}
	sorted := slices.Clone(of)
	removal := order.Removal{Now: s.now}
	if s.kind == "Job" {
		removal.Cost = func(*corev1.Pod) int64 { return 0 }
	}
	if costs := s.costsNow(sorted); costs != nil {
		removal.Cost = func(pod *corev1.Pod) int64 { return int64(costs[pod.UID]) }
	}
	removal.Sort(sorted)
	s.checkScaleIn(sorted, len(of)-want)
	for _, pod := range sorted[:len(of)-want] {
		s.remove(pod, "workload: scales in by")
	}
}

// costsNow are the costs by which a CloneSet scales in: those of the spec as it is now. Others go by the annotations.
func (s *sim) costsNow(pods []*corev1.Pod) map[types.UID]int32 {
	if s.kind != "CloneSet" || s.ws == nil {
		return nil
	}
	of := spread.Placements{Pods: map[string][]*corev1.Pod{}}
	for _, pod := range pods {
		subset := s.seat(pod, nil)
		of.Pods[subset] = append(of.Pods[subset], pod)
	}
	return s.rule().Costs(of)
}

// checkScaleIn: as long as one of the pods of a removed subset is left, no pod of a subset goes that is as healthy
// and within the limit. Costs that are not written yet excuse all but CloneSets.
func (s *sim) checkScaleIn(sorted []*corev1.Pod, n int) {
	if s.ws == nil || !s.target().Costly() || s.kind != "CloneSet" && !s.costsWritten {
		return
	}
	left := slices.ContainsFunc(sorted[n:], func(pod *corev1.Pod) bool {
		return podstate.Ready(pod) && given(pod, s.ws) && subsetIn(pod, s.ws) == ""
	})
	for _, pod := range sorted[:n] {
		if left && podstate.Ready(pod) && subsetIn(pod, s.ws) != "" {
			s.fatalf("%s of subset %s goes before the pods of a removed subset", pod.Name, subsetIn(pod, s.ws))
		}
	}
}

func (s *sim) remove(pod *corev1.Pod, why string) {
	s.tell("%s %s of %s", why, pod.Name, subsetOf(pod))
	s.pods = slices.DeleteFunc(s.pods, func(have *corev1.Pod) bool { return have == pod })
	s.writes++
	if s.kind != "Deployment" {
		s.costsWritten = false
	}
}

// rollCloneSet makes pods of an older version anew, one unavailable at a time.
func (s *sim) rollCloneSet() {
	if s.ready() < int(s.replicas) || len(s.pods) > int(s.replicas) {
		return
	}
	for _, pod := range s.pods {
		if pod.Labels["version"] != fmt.Sprint(s.version) {
			s.remove(pod, "workload: replaces")
			return
		}
	}
}

func (s *sim) ofVersion(version int) (out []*corev1.Pod) {
	for _, pod := range s.pods {
		if pod.Labels["version"] == fmt.Sprint(version) {
			out = append(out, pod)
		}
	}
	return out
}

// deployment has a surge of one pod and lets one be unavailable.
func (s *sim) deployment() {
	newest := s.ofVersion(s.version)
	old := len(s.pods) - len(newest)
	s.scaleTo(newest, s.version, max(min(int(s.replicas), int(s.replicas)+1-old), min(len(newest), int(s.replicas))))
	for version := 1; version < s.version; version++ {
		pods := s.ofVersion(version)
		unready := 0
		for _, pod := range pods {
			if !podstate.Ready(pod) {
				unready++
			}
		}
		extra := max(unready, s.ready()-(int(s.replicas)-1))
		s.scaleTo(pods, version, max(0, len(pods)-max(0, extra)))
	}
}

// ordinal returns the ordinal at a position. An advanced StatefulSet starts at 2, and reserves 3.
func (s *sim) ordinal(position int) int {
	switch {
	case s.kind != advanced:
		return position
	case position == 0:
		return 2
	}
	return position + 3
}

// statefulSet keeps the first ordinals (podManagementPolicy Parallel), and makes one pod of an older version anew when
// all are Ready.
func (s *sim) statefulSet() {
	have := map[string]*corev1.Pod{}
	for _, pod := range s.pods {
		have[pod.Name] = pod
	}
	for i := range int(s.replicas) {
		name := fmt.Sprintf("web-%d", s.ordinal(i))
		if have[name] == nil {
			s.create(s.version, i)
		}
		delete(have, name)
	}
	for _, pod := range have {
		s.remove(pod, "workload: scales in by")
	}
	if s.ready() < int(s.replicas) {
		return
	}
	for i := int(s.replicas) - 1; i >= 0; i-- {
		name := fmt.Sprintf("web-%d", s.ordinal(i))
		at := slices.IndexFunc(s.pods, func(pod *corev1.Pod) bool { return pod.Name == name })
		if s.pods[at].Labels["version"] != fmt.Sprint(s.version) {
			s.remove(s.pods[at], "workload: replaces")
			return
		}
	}
}

// seat is the subset that a pod counts in where new pods are placed.
func (s *sim) seat(pod *corev1.Pod, count map[string]int32) string {
	if subset, ok := spread.Assigned(pod, s.ws); ok || s.kind != "CloneSet" {
		return subset
	}
	o := seen(s.t, s.ws, s.replicas, "")
	subset, _ := o.rule.Match(pod, o.node(pod.Spec.NodeName), s.ws, count)
	return subset
}

// create makes a pod, with the subset that its controller or the webhook gives it. Sometimes the webhook is down.
func (s *sim) create(version, position int) {
	s.made++
	name := fmt.Sprintf("web-%d", s.ordinal(position))
	if !s.target().Ordinal() {
		name = fmt.Sprintf("web-%04d", s.made)
	}
	pod := aPod(name, "", "", "")
	pod.UID = types.UID(fmt.Sprintf("uid-%d", s.made))
	pod.CreationTimestamp = metav1.NewTime(s.now)
	pod.Labels["version"] = fmt.Sprint(version)
	if s.target().Versioned() {
		pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = s.hash(version)
	}
	if s.ws != nil && (s.target().Group == v1beta1.GroupVersion.Group || s.random.IntN(6) > 0) {
		rule, count := s.rule(), map[string]int32{}
		for _, have := range s.pods {
			if s.target().Version(have) == s.target().Version(pod) {
				count[s.seat(have, count)]++
			}
		}
		subset, _ := rule.Pick(count)
		if s.target().Ordinal() {
			subset, _ = rule.PickOrdinal(int32(position))
		}
		if at := rule.Index(subset); at >= 0 && !rule.Subsets[at].Open {
			s.fatalf("%s gets the closed subset %s", name, subset)
		}
		selector := labels.SelectorFromSet(labels.Set{"app": "web"})
		if err := spread.Stamp(pod, s.ws, subset, selector); err != nil {
			s.fatalf("%v", err)
		}
	}
	s.pods = append(s.pods, pod)
	s.writes++
	s.costsWritten = false
	s.tell("workload: makes %s v%d of %s", name, version, subsetOf(pod))
}

// cluster lets the scheduler and the kubelets do their part.
func (s *sim) cluster() {
	used := map[string]int{}
	for _, pod := range s.pods {
		used[pod.Spec.NodeName]++
	}
	for _, pod := range s.pods {
		switch {
		case pod.Spec.NodeName == "":
			s.schedule(pod, used)
		case !podstate.Ready(pod):
			pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(s.now)}}}
			s.costsWritten = false // which pods are the least healthy is another question now
		}
	}
}

func (s *sim) schedule(pod *corev1.Pod, used map[string]int) {
	for _, zone := range []string{"a", "b", "c", "d"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: zone + "-0", Labels: map[string]string{corev1.LabelTopologyZone: zone}}}
		fits, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
		if err != nil || !fits || used[node.Name] >= s.room[zone] {
			continue
		}
		pod.Spec.NodeName = node.Name
		pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
		used[node.Name]++
		s.tell("scheduler: %s on %s", pod.Name, node.Name)
		return
	}
	pod.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
}

// settle changes nothing more: everything comes to rest, and then nothing is written. Nothing is made and deleted in
// turn.
func (s *sim) settle() {
	s.tell("nothing changes any more")
	round := func() {
		s.workload()
		s.cluster()
		s.pass()
		s.now = s.now.Add(3 * simTick)
	}
	for end := s.now.Add(3 * spread.ReopenAfter); s.now.Before(end); {
		round()
	}
	writes := s.writes
	for end := s.now.Add(2 * spread.ReopenAfter); s.now.Before(end); {
		round()
	}
	if s.writes != writes {
		s.fatalf("%d writes at rest", s.writes-writes)
	}
	if s.ws == nil {
		return
	}
	for _, pod := range s.pods {
		if subset := subsetIn(pod, s.ws); subset != "" && !podstate.Ready(pod) {
			s.checkWaits(pod, subset)
		}
	}
}

// checkWaits: with the strategy Adaptive only pods of the last subset wait for a node at rest.
func (s *sim) checkWaits(pod *corev1.Pod, subset string) {
	if _, moves := spread.Critical(s.ws); moves && s.rule().Index(subset) < len(s.ws.Spec.Subsets)-1 {
		s.fatalf("%s waits in subset %s", pod.Name, subset)
	}
}
