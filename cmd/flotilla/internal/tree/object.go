package tree

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/decision"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
)

// conditionsOf reads the conditions of an object of any kind.
func conditionsOf(object client.Object) ([]metav1.Condition, error) {
	data, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("read the conditions: %w", err)
	}
	var read struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := json.Unmarshal(data, &read); err != nil {
		return nil, fmt.Errorf("read the conditions: %w", err)
	}
	return read.Status.Conditions, nil
}

// ready is what an object says of itself.
type ready struct {
	is      bool
	message string
}

func readyOf(object client.Object) ready {
	list, err := conditionsOf(object)
	if err != nil {
		return ready{message: err.Error()}
	}
	for _, c := range list {
		if c.Type == apps.ConditionReady {
			return ready{c.Status == metav1.ConditionTrue, c.Message}
		}
	}
	return ready{}
}

// waiting returns what is not yet as the spec asks, "" if all is. observed is the generation that the status answers.
func (r ready) waiting(object client.Object, observed int64) string {
	switch {
	case observed < object.GetGeneration():
		return "the hub has not seen the last change yet"
	case !r.is:
		return cmp.Or(r.message, "the members have not reported yet")
	}
	return ""
}

// waveOf returns the wave under way, nil for none. The hub says in the message of Ready what it waits for.
func waveOf(p *topology.WaveProgress, said string) *Wave {
	if p == nil || p.Number > p.Of && p.RolledBack == "" {
		return nil
	}
	noun := "wave"
	switch {
	case p.Limit > 0:
		noun = "batch"
	case p.Steps:
		noun = "step"
	}
	w := &Wave{Number: p.Number, Of: p.Of, Name: p.Name, Held: p.Held}
	if p.Failed != nil {
		w.Failed = p.Failed.Message
	}
	w.Message = fmt.Sprintf("%s %d of %d", noun, p.Number, p.Of)
	if at := strings.Index(said, w.Message); at >= 0 {
		w.Message = said[at:]
		return w
	}
	if p.Name != "" {
		w.Message += " (" + p.Name + ")"
	}
	if w.Failed != "" {
		w.Message += " failed: " + w.Failed
	}
	return w
}

// addImages adds what the pods of the new and of the previous revision run. The new one is that of the placement: it
// may be an earlier template than that of the object.
func (b *builder) addImages(w *Workload, kind kinds.Kind, object client.Object, p *topology.WorkloadPlacement) {
	data, err := json.Marshal(object)
	if err != nil {
		return
	}
	var read struct {
		Spec struct {
			Template json.RawMessage `json:"template"`
		} `json:"spec"`
	}
	if json.Unmarshal(data, &read) != nil {
		return
	}
	own := imagesIn(read.Spec.Template)
	if len(own) == 0 || w.Kind == apps.AdvancedCronJobKind.Kind {
		return // the kind has no pod template, or counts members
	}
	newest := own
	if p.Spec.Template != nil {
		newest = imagesIn(p.Spec.Template.Raw)
	}
	total := w.Pods.Ready + w.Pods.NotReady
	previous := max(total-w.Pods.Updated, 0)
	if previous > 0 {
		w.Images = append(w.Images, Image{Images: b.previousImages(w, kind, object, p, own), Pods: previous})
	}
	if updated := min(w.Pods.Updated, total); updated > 0 || previous == 0 {
		w.Images = append(w.Images, Image{Images: newest, Pods: updated})
	}
}

// previousImages returns the images of the previous revision: those of the placement, or of its ControllerRevision;
// where neither is at hand they are unknown. After a rollback that is the template that failed, which the object has
// until it gets another one. own are the images of the object.
func (b *builder) previousImages(
	w *Workload, kind kinds.Kind, object client.Object, p *topology.WorkloadPlacement, own []string,
) []string {
	at := Stored{Namespace: w.Namespace}
	switch {
	case decision.RolledBack(&p.Spec):
		if kind.Template != nil && kind.Template.Revision(object) == p.Spec.Wave.RolledBack {
			return own
		}
		at.Name = history.Name(w.Name, p.Spec.Wave.RolledBack)
	case p.Spec.PreviousTemplate != nil:
		return imagesIn(p.Spec.PreviousTemplate.Template.Raw)
	case kind.Observe != nil:
		at.Name = kind.Observe(object).CurrentRevision
	}
	switch at.Name {
	case "":
		return imagesIn(nil)
	case p.Spec.Revision, history.Name(w.Name, p.Spec.Revision):
		// The workload went back to the template that most pods have, while others had a newer one.
		at = Stored{Namespace: w.Namespace, Workload: object.GetUID(), LeftFor: p.Spec.Revision}
	}
	stored, read := b.revisions[at]
	if !read {
		w.previous = &at
	}
	return imagesIn(stored)
}

// imagesIn returns the images of the containers of the first pod template in the data, in their order.
func imagesIn(data []byte) []string {
	images := []string{}
	var found any
	if len(bytes.TrimSpace(data)) == 0 || json.Unmarshal(data, &found) != nil {
		return images
	}
	for _, container := range containersIn(found) {
		if c, ok := container.(map[string]any); ok {
			image, _ := c["image"].(string)
			images = append(images, image)
		}
	}
	return images
}

// containersIn returns the first list of containers below a value.
func containersIn(value any) []any {
	fields, ok := value.(map[string]any)
	if !ok {
		return nil
	}
	if list, ok := fields["containers"].([]any); ok {
		return list
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if list := containersIn(fields[name]); list != nil {
			return list
		}
	}
	return nil
}

// Stored says which ControllerRevision of a namespace is meant: the one with a name, or of those that a hub keeps of a
// workload the newest that was left for the revision LeftFor.
type Stored struct {
	Namespace, Name string
	Workload        types.UID
	LeftFor         string
}

// Revisions returns the ControllerRevisions that the tree needs to say what pods of previous revisions run, and that
// the facts lack.
func (t *Tree) Revisions() []Stored {
	var names []Stored
	for i := range t.Workloads {
		if name := t.Workloads[i].previous; name != nil {
			names = append(names, *name)
		}
	}
	return names
}

// problemOf returns the message of the condition that tells what needs a person, or why the workload is not placed; of
// a deleted workload what it waits for.
func problemOf(object client.Object) string {
	list, err := conditionsOf(object)
	if err != nil {
		return err.Error()
	}
	problem := ""
	for _, c := range list {
		deleting := c.Reason == conditions.ReasonDeleting || c.Reason == conditions.ReasonNamespaceTerminating
		if object.GetDeletionTimestamp() != nil && c.Type == "Ready" && deleting {
			return c.Message
		}
	}
	if object.GetDeletionTimestamp() != nil {
		return conditions.Waiting(object)
	}
	for _, c := range list {
		if c.Type == "Stalled" && c.Status == metav1.ConditionTrue ||
			c.Type == "Federated" && c.Status == metav1.ConditionFalse {
			problem = cmp.Or(problem, c.Message)
		}
	}
	return problem
}

// mistypedIn returns what the hub says of members that the policy names and that do not exist, where it has placed the
// workload all the same.
func mistypedIn(object client.Object) string {
	list, err := conditionsOf(object)
	if err != nil {
		return "" // the problem says it
	}
	for _, c := range list {
		if c.Type != apps.ConditionFederated || c.Status != metav1.ConditionTrue {
			continue
		}
		for part := range strings.SplitSeq(c.Message, "; ") {
			if strings.Contains(part, decision.NoSuchMember) {
				return part
			}
		}
	}
	return ""
}
