package console

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// State is what the status of an object says, whatever its kind.
type State struct {
	// Observed reports whether a controller has looked at the last change of the object.
	Observed bool
	// Conditions are those of the status, by their types.
	Conditions map[string]metav1.Condition
}

// StateOf reads the status of an object. It fails for an object that cannot be read as JSON.
func StateOf(object client.Object) (State, error) {
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return State{}, fmt.Errorf("read the status of %s: %w", object.GetName(), err)
	}
	s := State{Conditions: map[string]metav1.Condition{}}
	observed, found, _ := unstructured.NestedInt64(tree, "status", "observedGeneration")
	s.Observed = found && observed >= object.GetGeneration()
	list, _, _ := unstructured.NestedSlice(tree, "status", "conditions")
	for _, item := range list {
		fields, _ := item.(map[string]any)
		text := func(name string) string {
			value, _ := fields[name].(string)
			return value
		}
		s.Conditions[text("type")] = metav1.Condition{
			Type: text("type"), Status: metav1.ConditionStatus(text("status")), Reason: text("reason"), Message: text("message"),
		}
	}
	return s, nil
}

// Is reports whether a condition has a status, and the status is about the last change of the object.
func (s *State) Is(condition string, status metav1.ConditionStatus) bool {
	return s.Observed && s.Conditions[condition].Status == status
}

// Short says in a word or two how an object is.
func (s *State) Short(object client.Object) string {
	ready, stalled := s.Conditions[apps.ConditionReady], s.Conditions[apps.ConditionStalled]
	switch {
	case object.GetDeletionTimestamp() != nil:
		return "Deleting"
	case !s.Observed && len(s.Conditions) == 0:
		return "Pending"
	case !s.Observed:
		return "Progressing"
	case stalled.Status == metav1.ConditionTrue:
		return "Stalled: " + stalled.Reason
	case ready.Status == metav1.ConditionTrue:
		return "Ready"
	case ready.Reason != "":
		return "NotReady: " + ready.Reason
	}
	return "Unknown"
}
