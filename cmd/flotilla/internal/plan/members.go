package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/podtemplate"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/inplace"
)

// Action is what happens to the object of a member.
type Action string

// The actions.
const (
	Create Action = "Create"
	Change Action = "Change"
	Remove Action = "Remove"
)

// Member is what changes of a workload in a member.
type Member struct {
	Name   string  `json:"name"`
	Action Action  `json:"action"`
	Fields []Field `json:"fields,omitempty"`
	// Created and Deleted are how many pods are added and removed.
	Created int32 `json:"created,omitempty"`
	Deleted int32 `json:"deleted,omitempty"`
	// Updates are the existing pods that get another template. MayUpdate is how many of them may get it by this decision;
	// the others follow as waves, the partition and the limits of the workload allow.
	Updates   []Update `json:"updates,omitempty"`
	MayUpdate int32    `json:"mayUpdate,omitempty"`
}

// How is how existing pods get another template.
type How string

// The ways.
const (
	// InPlace changes running pods.
	InPlace How = "InPlace"
	// Recreate replaces pods.
	Recreate How = "Recreate"
	// OnDelete waits until a user deletes the pods.
	OnDelete How = "OnDelete"
	// Impossible means that the workload asks for an update in place alone, and the change allows none.
	Impossible How = "Impossible"
)

// Update is how the existing pods of a subset get another template.
type Update struct {
	// Subset is empty for a workload without subsets.
	Subset string `json:"subset,omitempty"`
	// Pods is how many pods there are to update. Those that have the template already are among them.
	Pods int32 `json:"pods"`
	How  How   `json:"how"`
	// Restarts are the containers that restart in place.
	Restarts []string `json:"restarts,omitempty"`
	// Field is the first field of the template that cannot change in running pods, where the workload asks for an update
	// in place.
	Field string `json:"field,omitempty"`
}

// compared is what the changes of members are made from.
type compared struct {
	kind kinds.Kind
	// manifests of the members by their names, and the cells of the placement.
	before, after         map[string][]byte
	cellsBefore, cellsNow []topology.Cell
}

// members returns what changes in each member, in the order of their names. It is pure.
func (c *compared) members() ([]Member, error) {
	names := slices.AppendSeq(slices.Collect(maps.Keys(c.before)), maps.Keys(c.after))
	slices.Sort(names)
	var all []Member
	for _, name := range slices.Compact(names) {
		m, err := c.member(name)
		if err != nil {
			return nil, fmt.Errorf("compare the manifests of member %s: %w", name, err)
		}
		if m != nil {
			all = append(all, *m)
		}
	}
	return all, nil
}

// member returns what changes in a member, nil for nothing.
func (c *compared) member(name string) (*Member, error) {
	m := &Member{Name: name, Action: Change}
	had, has := podsBySubset(c.cellsBefore, name), podsBySubset(c.cellsNow, name)
	for subset, n := range has {
		m.Created += max(n-had[subset], 0)
	}
	for subset, n := range had {
		m.Deleted += max(n-has[subset], 0)
	}
	before, existed := c.before[name]
	after, exists := c.after[name]
	switch {
	case !existed:
		m.Action = Create
		return m, nil
	case !exists:
		m.Action = Remove
		return m, nil
	case bytes.Equal(before, after):
		return nil, nil
	}
	var err error
	if m.Fields, err = changedFields(before, after); err != nil {
		return nil, err
	}
	if err := c.addUpdates(m, had, has); err != nil {
		return nil, err
	}
	if len(m.Fields) == 0 && m.Created == 0 && m.Deleted == 0 {
		return nil, nil
	}
	return m, nil
}

// podsBySubset returns the pods of a member by their subsets.
func podsBySubset(cells []topology.Cell, member string) map[string]int32 {
	pods := map[string]int32{}
	for i := range cells {
		if cells[i].Cluster == member {
			pods[cells[i].Subset] += cells[i].Replicas
		}
	}
	return pods
}

// addUpdates adds what happens to the pods that exist before and after the change.
func (c *compared) addUpdates(m *Member, had, has map[string]int32) error {
	before, err := c.decode(c.before[m.Name])
	if err != nil {
		return err
	}
	after, err := c.decode(c.after[m.Name])
	if err != nil {
		return err
	}
	from, err := podtemplate.BySubset(before)
	if err != nil {
		return err
	}
	to, err := podtemplate.BySubset(after)
	if err != nil {
		return err
	}
	var pods int32
	for _, subset := range slices.Sorted(maps.Keys(has)) {
		n := min(had[subset], has[subset])
		if n == 0 || from[subset] == nil || to[subset] == nil {
			continue
		}
		update, err := updateOf(podtemplate.PolicyOf(after), from[subset], to[subset])
		if err != nil {
			return err
		}
		if update != nil {
			update.Subset, update.Pods = subset, n
			m.Updates, pods = append(m.Updates, *update), pods+n
		}
	}
	if pods == 0 {
		return nil
	}
	for i := range c.cellsNow {
		if c.cellsNow[i].Cluster == m.Name {
			m.MayUpdate += c.cellsNow[i].Granted.Updated
		}
	}
	m.MayUpdate = min(m.MayUpdate, pods)
	return nil
}

// notes are sentences about pods that the changes of members do not tell.
func (c *compared) notes(members []Member) []string {
	var notes []string
	inPlace := false
	for i := range members {
		inPlace = inPlace || slices.ContainsFunc(members[i].Updates, func(u Update) bool { return u.How == InPlace })
	}
	if inPlace && c.needsGate() {
		notes = append(notes, "adopted pods without the readiness gate "+string(apps.InPlaceUpdateReady)+" are replaced, "+
			"not updated in place; with podUpdatePolicy InPlaceOnly they keep their template")
	}
	changed := func(m Member) bool { return m.Action == Change && len(m.Fields) > 0 }
	if c.kind.GVK == apps.SidecarSetKind && slices.ContainsFunc(members, changed) {
		notes = append(notes, "which pods change is not known here, because a SidecarSet selects pods of other workloads: "+
			"images reach running pods in place, within updateStrategy, and other fields reach new pods; with "+
			"flotilla.recreate IfNeeded, pods that differ in more than images are created again")
	}
	return notes
}

// needsGate reports whether only pods with the readiness gate are updated in place.
func (c *compared) needsGate() bool {
	switch c.kind.GVK.GroupKind() {
	case apps.DaemonSetKind.GroupKind(), apps.StatefulSetKind.GroupKind():
		return true
	case apps.UnitedDeploymentKind.GroupKind():
		for _, manifest := range c.after {
			object, err := c.decode(manifest)
			ud, ok := object.(*apps.UnitedDeployment)
			return err == nil && ok && ud.Spec.Template.AdvancedStatefulSetTemplate != nil
		}
	}
	return false
}

func (c *compared) decode(manifest []byte) (client.Object, error) {
	object := c.kind.New()
	if err := json.Unmarshal(manifest, object); err != nil {
		return nil, fmt.Errorf("read a %s: %w", c.kind.GVK.Kind, err)
	}
	return object, nil
}

// updateOf returns how a pod of one template gets another one, nil where both mean the same.
func updateOf(policy podtemplate.Policy, from, to *corev1.PodTemplateSpec) (*Update, error) {
	a, err := history.Canonical(*from)
	if err != nil {
		return nil, err
	}
	b, err := history.Canonical(*to)
	if err != nil || bytes.Equal(a, b) {
		return nil, err
	}
	switch policy {
	case podtemplate.Recreate:
		return &Update{How: Recreate}, nil
	case podtemplate.OnDelete:
		return &Update{How: OnDelete}, nil
	}
	change, refusal, err := inplace.Diff(from, to)
	switch {
	case err != nil:
		return nil, err
	case refusal != "" && policy == podtemplate.InPlaceOnly:
		return &Update{How: Impossible, Field: refusal}, nil
	case refusal != "":
		return &Update{How: Recreate, Field: refusal}, nil
	}
	restarts := slices.AppendSeq(slices.Collect(maps.Keys(change.Images)), maps.Keys(change.Environment))
	slices.Sort(restarts)
	return &Update{How: InPlace, Restarts: slices.Compact(restarts)}, nil
}
