package podprobemarker

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/marks"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

// change is what is patched on a pod. Values are nil for what is removed.
type change struct {
	labels, annotations map[string]*string
	conditions          []corev1.PodCondition
	removed             []string // types of conditions
}

func (c *change) empty() bool {
	return len(c.labels)+len(c.annotations)+len(c.conditions)+len(c.removed) == 0
}

// withMessage is a condition whose message is written also if it is empty: a patch without one keeps the previous one.
type withMessage struct {
	corev1.PodCondition
	Message string `json:"message"`
}

// patch returns the change as one strategic merge patch on the pod's status, which takes labels and annotations too.
func (c *change) patch(pod *corev1.Pod) ([]byte, error) {
	metadata := map[string]any{"uid": pod.UID}
	if len(c.labels) > 0 {
		metadata["labels"] = c.labels
	}
	if len(c.annotations) > 0 {
		metadata["annotations"] = c.annotations
	}
	body := map[string]any{"metadata": metadata}
	var conditions []any
	for i := range c.conditions {
		conditions = append(conditions, withMessage{c.conditions[i], c.conditions[i].Message})
	}
	for _, kind := range c.removed {
		conditions = append(conditions, map[string]any{"$patch": "delete", "type": kind})
	}
	if len(conditions) > 0 {
		body["status"] = map[string]any{"conditions": conditions}
	}
	out, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encode its marks: %w", err)
	}
	return out, nil
}

// results are the states of a pod's probes by their names.
type results map[string]v1alpha1.ContainerProbeState

// marker decides the marks of one pod.
type marker struct {
	pod     *corev1.Pod
	had     marks.Record
	want    marks.Record
	results results
	now     time.Time
	// labels, annotations and conditions are what the pod is to have of probes.
	labels, annotations map[string]string
	conditions          map[string]corev1.PodCondition
	keeps               map[string]bool // types of conditions that stay as they are
	loops               loops
}

// markOf returns what is patched on a pod, given the markers of its namespace, the oldest first, and the results of its
// probes.
func markOf(pod *corev1.Pod, all []*v1alpha1.PodProbeMarker, found results, now time.Time) (change, error) {
	had, err := marks.Of(pod)
	if err != nil {
		had = nil // what it had cannot be known: what probes say now is recorded anew
	}
	m := &marker{pod: pod, had: had, want: marks.Record{}, results: found, now: now,
		labels: map[string]string{}, annotations: map[string]string{}, conditions: map[string]corev1.PodCondition{},
		keeps: map[string]bool{}, loops: loopsOf(all)}
	all = slices.DeleteFunc(slices.Clone(all),
		func(one *v1alpha1.PodProbeMarker) bool { return !selects(one, pod.Labels) })
	if _, recorded := pod.Annotations[v1alpha1.AnnotationProbeMarks]; !recorded {
		m.had = takenOver(pod, all)
	}
	for _, one := range all {
		for i := range one.Spec.Probes {
			if probe := &one.Spec.Probes[i]; containerOf(pod, probe.ContainerName) != nil {
				m.add(one, probe)
			}
		}
	}
	return m.change()
}

// takenOver returns the record of a pod that has none yet. OpenKruise keeps no record: values that the pod has as a
// policy sets them count as set by the probe, and nothing is known of what they replaced. A marker that OpenKruise
// carried out has its finalizer.
func takenOver(pod *corev1.Pod, selecting []*v1alpha1.PodProbeMarker) marks.Record {
	var out marks.Record
	for _, one := range selecting {
		if !slices.Contains(one.Finalizers, v1alpha1.FinalizerNodePodProbe) {
			continue
		}
		for i := range one.Spec.Probes {
			probe := &one.Spec.Probes[i]
			if containerOf(pod, probe.ContainerName) == nil {
				continue
			}
			if mark := foundMark(pod, one, probe); mark.State != "" || mark.Condition != "" {
				if out == nil {
					out = marks.Record{}
				}
				out[nameOf(one.Name, probe.Name)] = mark
			}
		}
	}
	return out
}

// foundMark returns what a pod has of one probe. The state is that of the policy with the most values on the pod.
func foundMark(
	pod *corev1.Pod, of *v1alpha1.PodProbeMarker, probe *v1alpha1.PodContainerProbe,
) marks.Mark {
	mark := marks.Mark{Labels: map[string]marks.Value{}, Annotations: map[string]marks.Value{}}
	most := 0
	for i := range probe.MarkerPolicy {
		policy := &probe.MarkerPolicy[i]
		found := addFound(mark.Labels, validLabels(of, policy, nil), pod.Labels) +
			addFound(mark.Annotations, validAnnotations(policy.Annotations), pod.Annotations)
		if found > most {
			most, mark.State = found, policy.State
		}
	}
	if kind := probe.PodConditionType; kind != "" &&
		podstate.Condition(pod, corev1.PodConditionType(kind)) != nil {
		mark.Condition = kind
	}
	return mark
}

// addFound adds to out the values that the pod has, and returns their number.
func addFound(out map[string]marks.Value, values, has map[string]string) (found int) {
	for key, value := range values {
		if now, ok := has[key]; ok && now == value {
			out[key] = marks.Value{Set: value}
			found++
		}
	}
	return found
}

// add adds what one probe says. Without a result, and while it is not known, the pod keeps the marks of the last one.
func (m *marker) add(of *v1alpha1.PodProbeMarker, probe *v1alpha1.PodContainerProbe) {
	name := nameOf(of.Name, probe.Name)
	result, reported := m.results[name]
	mark := marks.Mark{State: m.had[name].State, Stale: m.had[name].Stale}
	switch {
	case result.State == v1alpha1.ProbeSucceeded, result.State == v1alpha1.ProbeFailed:
		mark.State, mark.Stale = result.State, false
	case reported && result.Message == "": // the container was started again
		mark.Stale = true
	}
	for i := range probe.MarkerPolicy {
		if policy := &probe.MarkerPolicy[i]; policy.State == mark.State {
			mark.Labels = m.claim(m.labels, validLabels(of, policy, m.loops), m.pod.Labels,
				func(r marks.Mark) map[string]marks.Value { return r.Labels })
			mark.Annotations = m.claim(m.annotations, validAnnotations(policy.Annotations), m.pod.Annotations,
				func(r marks.Mark) map[string]marks.Value { return r.Annotations })
		}
	}
	if kind := probe.PodConditionType; kind != "" {
		mark.Condition = m.claimCondition(kind, m.had[name].Condition == kind, result, reported)
	}
	if mark.State != "" || mark.Condition != "" {
		m.want[name] = mark
	}
}

// claim adds to all the values that no older marker sets, and returns what is recorded of them: what the pod had before
// a probe set a value.
func (m *marker) claim(
	all, values, has map[string]string, recorded func(marks.Mark) map[string]marks.Value,
) map[string]marks.Value {
	var out map[string]marks.Value
	for key, value := range values {
		if _, taken := all[key]; taken {
			continue
		}
		all[key] = value
		if out == nil {
			out = map[string]marks.Value{}
		}
		out[key] = marks.Value{Set: value, Had: m.original(key, has, recorded)}
	}
	return out
}

// original returns the value that the pod had before any probe set it, nil for none.
func (m *marker) original(
	key string, has map[string]string, recorded func(marks.Mark) map[string]marks.Value,
) *string {
	for _, mark := range m.had {
		if value, ok := recorded(mark)[key]; ok {
			return value.Had
		}
	}
	if value, ok := has[key]; ok {
		return &value
	}
	return nil
}

// claimCondition adds the condition of a probe, and returns its type if the pod has, or gets, the condition of this
// probe.
func (m *marker) claimCondition(
	kind string, had bool, result v1alpha1.ContainerProbeState, reported bool,
) string {
	if _, taken := m.conditions[kind]; taken || m.keeps[kind] {
		return ""
	}
	status := corev1.ConditionUnknown
	switch {
	case result.State == v1alpha1.ProbeSucceeded:
		status = corev1.ConditionTrue
	case result.State == v1alpha1.ProbeFailed:
		status = corev1.ConditionFalse
	case !reported || result.Message == "": // there is no result yet
		if !had {
			return ""
		}
		m.keeps[kind] = true
		return kind
	}
	m.conditions[kind] = corev1.PodCondition{Type: corev1.PodConditionType(kind), Status: status,
		Message: result.Message, LastProbeTime: result.LastProbeTime, LastTransitionTime: result.LastTransitionTime}
	return kind
}

// change compares what the pod is to have with what it has.
func (m *marker) change() (change, error) {
	var out change
	out.labels = m.differences(m.pod.Labels, m.labels, func(r marks.Mark) map[string]marks.Value { return r.Labels })
	out.annotations = m.differences(m.pod.Annotations, m.annotations,
		func(r marks.Mark) map[string]marks.Value { return r.Annotations })
	for _, kind := range slices.Sorted(maps.Keys(m.conditions)) {
		if c := m.conditions[kind]; m.differs(&c) {
			out.conditions = append(out.conditions, c)
		}
	}
	for _, mark := range m.had {
		kind := mark.Condition
		_, stays := m.conditions[kind]
		if kind != "" && !stays && !m.keeps[kind] && !slices.Contains(out.removed, kind) &&
			podstate.Condition(m.pod, corev1.PodConditionType(kind)) != nil {
			out.removed = append(out.removed, kind)
		}
	}
	slices.Sort(out.removed)
	return out, m.record(&out)
}

// differences returns the values to set, and those to take back, nil or the former value.
func (m *marker) differences(
	has, want map[string]string, recorded func(marks.Mark) map[string]marks.Value,
) map[string]*string {
	out := map[string]*string{}
	for _, mark := range m.had {
		for key, value := range recorded(mark) {
			// What others changed since is theirs.
			if _, stays := want[key]; !stays && has[key] == value.Set {
				if _, there := has[key]; there {
					out[key] = value.Had
				}
			}
		}
	}
	for key, value := range want {
		if now, ok := has[key]; !ok || now != value {
			out[key] = new(value)
		}
	}
	return out
}

// differs reports whether a condition says something new, and gives it the time of its last transition.
func (m *marker) differs(c *corev1.PodCondition) bool {
	have := podstate.Condition(m.pod, c.Type)
	if have != nil && have.Status == c.Status {
		c.LastTransitionTime = have.LastTransitionTime
		return have.Message != c.Message
	}
	if c.LastTransitionTime.IsZero() {
		c.LastTransitionTime = metav1.NewTime(m.now)
	}
	return true
}

// record adds the record to the change, if it changes.
func (m *marker) record(out *change) error {
	if equality.Semantic.DeepEqual(m.had, m.want) || len(m.had) == 0 && len(m.want) == 0 {
		if _, there := m.pod.Annotations[v1alpha1.AnnotationProbeMarks]; there == (len(m.want) > 0) {
			return nil
		}
	}
	if len(m.want) == 0 {
		out.annotations[v1alpha1.AnnotationProbeMarks] = nil
		return nil
	}
	text, err := json.Marshal(m.want)
	if err != nil {
		return fmt.Errorf("encode the record of its marks: %w", err)
	}
	out.annotations[v1alpha1.AnnotationProbeMarks] = new(string(text))
	return nil
}

// validLabels returns the labels of a policy that Kubernetes takes, without those of the selector: a probe that
// changes them would change which pods are probed. The same holds for those in loops. invalidKeys names the others.
func validLabels(
	of *v1alpha1.PodProbeMarker, policy *v1alpha1.ProbeMarkerPolicy, inLoops loops,
) map[string]string {
	out := maps.Clone(policy.Labels)
	maps.DeleteFunc(out, func(key, _ string) bool {
		return !validLabel(&of.Spec, key) || inLoops.has(of.Name, key)
	})
	return out
}

func validLabel(spec *v1alpha1.PodProbeMarkerSpec, key string) bool {
	return len(validation.IsQualifiedName(key)) == 0 && !selectsBy(spec.Selector, key)
}

// validAnnotations returns the annotations that Kubernetes takes, without our own.
func validAnnotations(all map[string]string) map[string]string {
	out := maps.Clone(all)
	maps.DeleteFunc(out, func(key, _ string) bool { return !validAnnotation(key) })
	return out
}

func validAnnotation(key string) bool {
	return len(validation.IsQualifiedName(strings.ToLower(key))) == 0 && key != v1alpha1.AnnotationProbeMarks
}

// invalidKeys returns the keys of labels and annotations of a marker that no probe sets, sorted.
func invalidKeys(spec *v1alpha1.PodProbeMarkerSpec) []string {
	var out []string
	for i := range spec.Probes {
		for _, policy := range spec.Probes[i].MarkerPolicy {
			for key := range policy.Labels {
				if !validLabel(spec, key) {
					out = append(out, key)
				}
			}
			for key := range policy.Annotations {
				if !validAnnotation(key) {
					out = append(out, key)
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
