package pods

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// OnHub is the member of an event that is the hub's own.
const OnHub = "(hub)"

// Event is a row of `flotilla get events`.
type Event struct {
	// Member is where the event is, OnHub for the hub.
	Member    string `json:"member"`
	Namespace string `json:"namespace"`
	// LastSeconds is how long ago it happened last, Count how often.
	LastSeconds int64  `json:"lastSeconds"`
	Count       int32  `json:"count"`
	Type        string `json:"type"`
	Reason      string `json:"reason"`
	// Object is kind/name.
	Object  string `json:"object"`
	Message string `json:"message"`
}

// eventsOf returns the rows of events, the newest last. of is which objects they are about, nil for all. It is pure.
func eventsOf(member string, events []corev1.Event, of func(*corev1.ObjectReference) bool, now time.Time) []Event {
	var rows []Event
	for i := range events {
		e := &events[i]
		if of != nil && !of(&e.InvolvedObject) {
			continue
		}
		rows = append(rows, Event{
			Member: member, Namespace: e.Namespace, LastSeconds: int64(now.Sub(lastOf(e)) / time.Second),
			Count: countOf(e), Type: e.Type, Reason: e.Reason, Message: strings.Join(strings.Fields(e.Message), " "),
			Object: strings.ToLower(e.InvolvedObject.Kind) + "/" + e.InvolvedObject.Name,
		})
	}
	return sortedEvents(rows)
}

// sortedEvents puts the newest last, as a log.
func sortedEvents(rows []Event) []Event {
	slices.SortStableFunc(rows, func(a, b Event) int {
		return cmp.Or(cmp.Compare(b.LastSeconds, a.LastSeconds), strings.Compare(a.Member, b.Member),
			strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Object, b.Object),
			strings.Compare(a.Reason, b.Reason), strings.Compare(a.Message, b.Message))
	})
	return rows
}

// lastOf returns when an event happened last, by the newest of its times.
func lastOf(e *corev1.Event) time.Time {
	last := later(e.LastTimestamp.Time, e.EventTime.Time)
	if e.Series != nil {
		last = later(last, e.Series.LastObservedTime.Time)
	}
	last = later(last, e.FirstTimestamp.Time)
	if last.IsZero() {
		return e.CreationTimestamp.Time
	}
	return last
}

func countOf(e *corev1.Event) int32 {
	if e.Series != nil {
		return max(e.Series.Count, 1)
	}
	return max(e.Count, 1)
}

// about returns a function that reports whether an event is about the target or one of its pods.
func about(t *target, pods []corev1.Pod) func(*corev1.ObjectReference) bool {
	known := map[types.NamespacedName]bool{}
	for i := range pods {
		known[types.NamespacedName{Namespace: pods[i].Namespace, Name: pods[i].Name}] = true
	}
	return func(o *corev1.ObjectReference) bool {
		name := types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
		if o.Kind == "Pod" {
			return known[name] || t.pod != "" && o.Name == t.pod
		}
		return t.pod == "" && o.Kind == t.key.Kind && name == t.key.Workload()
	}
}

// memberEvents lists the events of the namespace in a member.
func (r *reached) memberEvents(ctx context.Context) ([]corev1.Event, error) {
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return r.core.CoreV1().Events(r.namespace).List(ctx, options)
	})
	var found []corev1.Event
	err := pages.EachListItem(ctx, metav1.ListOptions{}, func(item runtime.Object) error {
		if event, ok := item.(*corev1.Event); ok {
			found = append(found, *event)
		}
		return nil
	})
	if err != nil {
		return nil, r.failed("list events"+r.place(), err)
	}
	return found, nil
}

// hubEvents lists the events of the hub about the target, nil for all.
func hubEvents(ctx context.Context, hub client.Reader, namespace string, t *target, now time.Time) ([]Event, error) {
	if hub == nil || t != nil && t.pod != "" {
		return nil, nil
	}
	list := &corev1.EventList{}
	if err := hub.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list the events of the hub: %w", err)
	}
	var of func(*corev1.ObjectReference) bool
	if t != nil {
		of = about(t, nil)
	}
	return eventsOf(OnHub, list.Items, of, now), nil
}

// eventsText writes the table, with the namespaces where it has several.
func eventsText(rows []Event, namespaces, wide bool) string {
	var text strings.Builder
	column := func(on bool, name string) string {
		if on {
			return name + "\t"
		}
		return ""
	}
	text.WriteString("MEMBER\t" + column(namespaces, "NAMESPACE") + "LAST\tTYPE\tREASON\tOBJECT\t" +
		column(wide, "COUNT") + "MESSAGE\n")
	for i := range rows {
		e := &rows[i]
		fmt.Fprintf(&text, "%s\t%s%s\t%s\t%s\t%s\t%s%s\n", e.Member, column(namespaces, e.Namespace),
			age(max(e.LastSeconds, 0)), dash(e.Type), dash(e.Reason), e.Object, column(wide, fmt.Sprint(e.Count)),
			e.Message)
	}
	return text.String()
}
