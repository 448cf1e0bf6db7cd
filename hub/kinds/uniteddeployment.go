package kinds

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/topology/division"
	"github.com/flotilla-dev/flotilla/topology/lending"
)

// subsetFailure is the published condition of a UnitedDeployment that cannot carry out its order.
const subsetFailure = string(apps.SubsetFailure)

// childFailed is its reason while the controller of a child fails to create or update pods.
const childFailed = "ChildFailed"

func unitedDeploymentKind() Kind {
	children := "spec.template.*.spec."
	deployments := "spec.template.deploymentTemplate.spec."
	guarded := []string{
		"spec.replicas", "spec.selector", "spec.topology", "spec.updateStrategy.manualUpdate",
		children + "selector", deployments + "strategy", deployments + "paused",
	}
	return Kind{
		GVK:            apps.UnitedDeploymentKind,
		New:            func() Object { return &apps.UnitedDeployment{} },
		NewList:        func() ObjectList { return &apps.UnitedDeploymentList{} },
		Read:           readUnitedDeployment,
		Template:       unitedDeploymentTemplate(),
		Render:         renderUnitedDeployment,
		Former:         formerSubsets(),
		UpdateStrategy: func(o Object) any { return o.(*apps.UnitedDeployment).Spec.UpdateStrategy },
		Guarded:        append(guarded, limitPaths(children+"updateStrategy.rollingUpdate")...),
		Reflect:        reflectUnitedDeployment,
		Observe:        observeUnitedDeployment,
		Failures:       []Failure{{Type: subsetFailure, OwnReason: true, Creates: true, Reason: childFailed}},
		Status:         unitedDeploymentStatus,
		StatusOf:       func(o Object) any { return &o.(*apps.UnitedDeployment).Status },
	}
}

func readUnitedDeployment(o Object) (Workload, *Rejection) {
	ud := o.(*apps.UnitedDeployment)
	w := NewWorkload(ud, apps.UnitedDeploymentKind, ud.Spec.Replicas)
	if err := ud.Spec.Template.Err(field.NewPath("spec", "template")); err != nil {
		return w, undecodable(w.Key, err)
	}
	template, strategy, rejection := readTemplate(w.Key, &ud.Spec.Template)
	if rejection != nil {
		return w, rejection
	}
	if rejection := checkSelector(w.Key, ud.Spec.Selector, template.Labels); rejection != nil {
		return w, rejection
	}
	if len(ud.Spec.Topology.Subsets) == 0 {
		return w, &Rejection{
			InvalidSubsets,
			fmt.Sprintf("%s has no subsets; give spec.topology.subsets at least one", w.Key.Sentence()),
		}
	}
	w.Requests = PodRequests(template)
	if t := ud.Spec.Template.CloneSetTemplate; t != nil {
		w.Paused = isPaused(t.Spec.UpdateStrategy)
	}
	if t := ud.Spec.Template.AdvancedStatefulSetTemplate; t != nil {
		w.Paused = rollingOf(&t.Spec).Paused
	}
	if w.Template, w.Kept, rejection = keptOf(w.Key, ud.Spec.Template, ud.Spec.RevisionHistoryLimit); rejection != nil {
		return w, rejection
	}
	if ud.Spec.Template.CloneSetTemplate == nil {
		w.NoWaves = "the policy's rollout.waves and rollout.steps hold for CloneSets alone: members update the Deployments " +
			"and StatefulSets of a UnitedDeployment alongside each other; use cloneSetTemplate"
	}
	var partitions map[string]int32
	if manual := ud.Spec.UpdateStrategy.ManualUpdate; manual != nil {
		partitions = manual.Partitions
	}
	if rejection := checkPartitions(w.Key, partitions, ud.Spec.Topology.Subsets); rejection != nil {
		return w, rejection
	}
	var patches, bare [][]byte
	for i := range ud.Spec.Topology.Subsets {
		s := &ud.Spec.Topology.Subsets[i]
		if wrong := wrongTerm("nodeSelectorTerm", &s.NodeSelectorTerm); wrong != "" {
			return w, &Rejection{InvalidSubsets, fmt.Sprintf("subset %q of %s: %s", s.Name, w.Key.Sentence(), wrong)}
		}
		if len(s.Patch.Raw) > 0 {
			bare = append(bare, s.Patch.Raw)
			patches = append(patches, append([]byte(s.Name+"="), s.Patch.Raw...))
		}
		stays := partitions[s.Name]
		if ud.Spec.Template.DeploymentTemplate != nil {
			stays = 0 // a Deployment has no partition
		}
		w.Subsets = append(w.Subsets, Subset{
			Subset: division.Subset{Name: s.Name, Replicas: s.Replicas, Min: s.MinReplicas, Max: s.MaxReplicas},
			Term:   s.NodeSelectorTerm,
			Amounts: func(n int32) lending.Amounts {
				a := strategy(n)
				a.Updated = n - min(max(stays, 0), n)
				return a
			},
		})
	}
	readStrategy(&w, &ud.Spec.Topology.ScheduleStrategy)
	if t := ud.Spec.Template.CloneSetTemplate; t != nil {
		w.Remarks = append(w.Remarks, remarkOnScale("template.cloneSetTemplate.spec.scaleStrategy", &t.Spec.ScaleStrategy)...)
	}
	w.Needs = NeedsOf(template, bare...)
	w.Revision, rejection = revisionOf(w.Key, *template, patches...)
	return w, rejection
}

// readStrategy takes over the strategy Adaptive.
func readStrategy(w *Workload, s *apps.UnitedDeploymentScheduleStrategy) {
	if s.Type != apps.AdaptiveUnitedDeploymentScheduleStrategyType {
		return
	}
	w.Adaptive = &Adaptive{Critical: defaultCritical, Closed: defaultClosed}
	times := s.Adaptive
	if times == nil {
		return
	}
	if times.RescheduleCriticalSeconds != nil {
		w.Adaptive.Critical = max(time.Duration(*times.RescheduleCriticalSeconds)*time.Second, leastTime)
	}
	if times.UnschedulableDuration != nil {
		w.Adaptive.Closed = max(time.Duration(*times.UnschedulableDuration)*time.Second, leastTime)
	}
	if times.ReserveUnschedulablePods {
		w.Remarks = append(
			w.Remarks,
			"scheduleStrategy.adaptive.reserveUnschedulablePods is not carried out on the hub; pods that find no node move to "+
				"other subsets",
		)
	}
}

// checkPartitions refuses a partition of a subset that does not exist: it would be a slip of the pen that updates pods.
func checkPartitions(key wire.Key, partitions map[string]int32, subsets []apps.Subset) *Rejection {
	for _, name := range slices.Sorted(maps.Keys(partitions)) {
		if !slices.ContainsFunc(subsets, func(s apps.Subset) bool { return s.Name == name }) {
			return &Rejection{
				InvalidSubsets,
				fmt.Sprintf(
					"spec.updateStrategy.manualUpdate.partitions of %s names subset %q, which does not exist; correct the name or "+
						"remove the entry",
					key.Sentence(),
					name,
				),
			}
		}
	}
	return nil
}

func renderUnitedDeployment(o Object, order *Order) (Manifest, error) {
	annotations, err := subsetLimits(order.Cells)
	if err != nil {
		return Manifest{}, err
	}
	return Manifest{Spec: unitedDeploymentSpec(o.(*apps.UnitedDeployment), order.Cells), Annotations: annotations}, nil
}

// unitedDeploymentSpec is the spec of a member's UnitedDeployment: the subsets that have cells there, each with a
// number.
func unitedDeploymentSpec(ud *apps.UnitedDeployment, cells []topology.Cell) *apps.UnitedDeploymentSpec {
	spec := ud.Spec.DeepCopy()
	subsets, partitions := []apps.Subset{}, map[string]int32{}
	var total int32
	for i := range spec.Topology.Subsets {
		subset := &spec.Topology.Subsets[i]
		own := CellsOf(cells, subset.Name)
		if len(own) == 0 {
			continue
		}
		replicas, granted, _ := Total(own)
		total += replicas
		if stays := replicas - granted.Updated; stays > 0 {
			partitions[subset.Name] = stays
		}
		subset.Replicas, subset.MinReplicas, subset.MaxReplicas = new(intstr.FromInt32(replicas)), nil, nil
		subset.NodeSelectorTerm.MatchExpressions = withoutDecided(subset.NodeSelectorTerm.MatchExpressions)
		subsets = append(subsets, *subset)
	}
	spec.Replicas = &total
	spec.Topology = apps.Topology{Subsets: subsets}
	spec.UpdateStrategy.ManualUpdate = nil
	if len(partitions) > 0 {
		spec.UpdateStrategy.ManualUpdate = &apps.ManualUpdate{Partitions: partitions}
	}
	return spec
}

// subsetLimits is the annotation that holds each child to what its subset is granted. The amounts are
// written as granted: the member's controller turns 0 and 0 into a pause.
func subsetLimits(cells []topology.Cell) (map[string]string, error) {
	limits := map[string]topology.SubsetLimit{}
	for i := range cells {
		c := &cells[i]
		limits[c.Subset] = topology.SubsetLimit{
			MaxUnavailable: c.Granted.Unavailable,
			MaxSurge:       c.Granted.Surge,
			Paused:         c.Waiting,
		}
	}
	data, err := json.Marshal(limits)
	if err != nil {
		return nil, fmt.Errorf("encode the limits of the subsets: %w", err)
	}
	return map[string]string{topology.AnnotationSubsetLimits: string(data)}, nil
}

func unitedDeploymentTemplate() *Template {
	set := func(o Object, raw []byte) (Object, error) {
		template, err := decodeTemplate[apps.SubsetTemplate](raw)
		if err != nil {
			return nil, err
		}
		out := o.(*apps.UnitedDeployment).DeepCopy()
		out.Spec.Template = template
		return out, nil
	}
	revision := func(o Object) string {
		w, rejection := readUnitedDeployment(o)
		if rejection != nil {
			return ""
		}
		return w.Revision
	}
	return &Template{
		Set:      set,
		Restore:  restorePodTemplate,
		Revision: revision,
		// The revision covers the patches of the subsets too, of which only today's are known.
		StillApplies: func(o Object, raw []byte, of string) bool {
			out, err := set(o, raw)
			return err == nil && revision(out) == of
		},
		RevisionData: func(raw []byte) ([]byte, error) { return revisionData[apps.SubsetTemplate](raw) },
		Canonical:    history.CanonicalData[apps.SubsetTemplate],
	}
}

// restorePodTemplate returns a UnitedDeployment with the pod template of a previous template; nil where that does not
// make the revision, because the patches of its subsets changed meanwhile. Limits, replicas and subsets stay.
func restorePodTemplate(o Object, raw []byte, revision string) Object {
	ud := o.(*apps.UnitedDeployment)
	previous, err := decodeTemplate[apps.SubsetTemplate](raw)
	if err != nil || previous.CloneSetTemplate == nil || ud.Spec.Template.CloneSetTemplate == nil {
		return nil // other templates have no waves
	}
	out := ud.DeepCopy()
	out.Spec.Template.CloneSetTemplate.Spec.Template = previous.CloneSetTemplate.Spec.Template
	if w, rejection := readUnitedDeployment(out); rejection != nil || w.Revision != revision {
		return nil
	}
	return out
}

func reflectUnitedDeployment(r *Reflected) (Usage, error) {
	status := apps.UnitedDeploymentStatus{}
	if err := json.Unmarshal(r.Status, &status); err != nil {
		return Usage{}, err
	}
	return Usage{InUse: work.UnitedDeploymentUse(&status), Answered: r.ObservedSequence >= r.Sequence}, nil
}

func observeUnitedDeployment(o Object) Observed {
	ud := o.(*apps.UnitedDeployment)
	out := Observed{
		Generation: ud.Status.ObservedGeneration, UpdateRevision: ud.Status.UpdatedRevision,
		CurrentRevision: ud.Status.CurrentRevision,
		Desired:         ptr.Deref(ud.Spec.Replicas, defaultReplicas),
	}
	switch t := ud.Spec.Template; {
	case t.CloneSetTemplate != nil:
		update := t.CloneSetTemplate.Spec.UpdateStrategy
		out.OnDelete, out.Paused = update.Type == apps.OnDeleteCloneSetUpdateStrategyType, isPaused(update)
	case t.DeploymentTemplate != nil:
		out.Paused = t.DeploymentTemplate.Spec.Paused
	case t.StatefulSetTemplate != nil:
		out.OnDelete = t.StatefulSetTemplate.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType
	case t.AdvancedStatefulSetTemplate != nil:
		spec := &t.AdvancedStatefulSetTemplate.Spec
		out.OnDelete, out.Paused = onDelete(spec), rollingOf(spec).Paused
	}
	return out
}

func unitedDeploymentStatus(o Object, s *Sum, now time.Time) bool {
	ud := o.(*apps.UnitedDeployment)
	out := *ud.Status.DeepCopy()
	w := s.Whole
	out.ObservedGeneration = s.ObservedGeneration
	out.Replicas, out.ReadyReplicas, out.UpdatedReplicas, out.UpdatedReadyReplicas = w.Replicas, w.Ready, w.Updated,
		w.UpdatedReady
	out.LabelSelector = selectorText(ud.Spec.Selector)
	out.UpdatedRevision, out.CurrentRevision = s.UpdateRevision, s.CurrentRevision
	out.SubsetStatuses = nil
	for _, name := range subsetNames(ud, s) {
		c, ok := s.Subsets[name]
		if !ok {
			continue
		}
		out.SubsetStatuses = append(out.SubsetStatuses, apps.SubsetStatus{
			Name: name, Replicas: c.Replicas, ReadyReplicas: c.Ready, Partition: max(c.Desired-c.ExpectedUpdated, 0),
			DesiredReplicas: c.Desired, AvailableReplicas: c.Available,
			UpdatedReplicas: c.Updated, UpdatedReadyReplicas: c.UpdatedReady, UpdatedAvailableReplicas: c.UpdatedAvailable,
		})
	}
	out.Conditions = conditions.Merge(out.Conditions, now, append(s.Conditions, subsetConditions(s)...)...)
	changed := !equality.Semantic.DeepEqual(&ud.Status, &out)
	ud.Status = out
	return changed
}

// subsetNames are the subsets in the user's order, and after them removed ones that still have pods.
func subsetNames(ud *apps.UnitedDeployment, s *Sum) []string {
	var names []string
	for i := range ud.Spec.Topology.Subsets {
		names = append(names, ud.Spec.Topology.Subsets[i].Name)
	}
	for _, name := range s.PlacedSubsets {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// subsetConditions are the published conditions about subsets.
func subsetConditions(s *Sum) []conditions.Condition {
	provisioned := conditions.Condition{
		Type:   string(apps.SubsetProvisioned),
		Status: corev1.ConditionFalse,
		Reason: "Provisioning",
	}
	if s.Provisioned {
		provisioned.Status, provisioned.Reason = corev1.ConditionTrue, "Provisioned"
	}
	updated := conditions.Condition{Type: string(apps.SubsetUpdated), Status: corev1.ConditionFalse, Reason: "Updating"}
	if s.UpToDate {
		updated.Status, updated.Reason = corev1.ConditionTrue, "Updated"
	}
	failure := conditions.Remove(subsetFailure)
	if s.Cause != nil {
		failure = conditions.Condition{
			Type:    subsetFailure,
			Status:  corev1.ConditionTrue,
			Reason:  s.Cause.Reason,
			Message: s.Cause.Message,
		}
	}
	return []conditions.Condition{provisioned, updated, failure}
}

// FormerSubsets keeps subsets in the manifests of members while their pods are evacuated, though the user's object no
// longer has them. Their definition is taken from the manifest that the member has.
type FormerSubsets struct {
	// In reports whether some of the cells are of subsets that the workload no longer has.
	In func(o Object, cells []topology.Cell) bool
	// Read returns the subsets of a manifest by name.
	Read func(manifest []byte) (map[string]map[string]any, error)
	// Add returns the manifest with the former subsets of the cells, as existing has them. It returns no manifest
	// where the member would have no subset at all.
	Add func(manifest []byte, cells []topology.Cell, existing map[string]map[string]any) ([]byte, error)
}

func formerSubsets() *FormerSubsets {
	return &FormerSubsets{In: hasFormerSubsets, Read: subsetsIn, Add: withFormerSubsets}
}

func subsetsIn(manifest []byte) (map[string]map[string]any, error) {
	var read struct {
		Spec struct {
			Topology struct {
				Subsets []map[string]any `json:"subsets"`
			} `json:"topology"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(manifest, &read); err != nil {
		return nil, err
	}
	byName := map[string]map[string]any{}
	for _, s := range read.Spec.Topology.Subsets {
		if name, ok := s["name"].(string); ok {
			byName[name] = s
		}
	}
	return byName, nil
}

func hasFormerSubsets(o Object, cells []topology.Cell) bool {
	ud := o.(*apps.UnitedDeployment)
	return slices.ContainsFunc(cells, func(c topology.Cell) bool {
		return !slices.ContainsFunc(ud.Spec.Topology.Subsets, func(s apps.Subset) bool { return s.Name == c.Subset })
	})
}

// withFormerSubsets adds the subsets of existing that the manifest lacks and the member has cells of, with the
// replicas of its cells. It returns no manifest where the member would have no subset at all.
func withFormerSubsets(manifest []byte, cells []topology.Cell, existing map[string]map[string]any) ([]byte, error) {
	var whole map[string]any
	if err := json.Unmarshal(manifest, &whole); err != nil {
		return nil, fmt.Errorf("read the manifest that a removed subset goes into: %w", err)
	}
	spec := objectIn(whole, "spec")
	division := objectIn(spec, "topology")
	subsets, _ := division["subsets"].([]any)
	replicas, _ := spec["replicas"].(float64)
	partitions := map[string]any{}
	for i := range cells {
		c := &cells[i]
		told := slices.ContainsFunc(subsets, func(s any) bool { return nameOf(s) == c.Subset })
		if subset, ok := existing[c.Subset]; ok && !told {
			subset = maps.Clone(subset)
			subset["replicas"] = c.Replicas
			subsets, replicas = append(subsets, subset), replicas+float64(c.Replicas)
			if stays := c.Replicas - c.Granted.Updated; stays > 0 {
				partitions[c.Subset] = stays
			}
		}
	}
	if len(subsets) == 0 {
		return nil, nil
	}
	division["subsets"], spec["replicas"] = subsets, int64(replicas)
	if len(partitions) > 0 {
		maps.Copy(objectIn(objectIn(objectIn(spec, "updateStrategy"), "manualUpdate"), "partitions"), partitions)
	}
	data, err := json.Marshal(whole)
	if err != nil {
		return nil, fmt.Errorf("encode the manifest with a removed subset: %w", err)
	}
	return data, nil
}

// objectIn returns the object under a key of another one, which gets an empty one if it has none.
func objectIn(in map[string]any, key string) map[string]any {
	inner, ok := in[key].(map[string]any)
	if !ok {
		inner = map[string]any{}
		in[key] = inner
	}
	return inner
}

func nameOf(subset any) string {
	fields, _ := subset.(map[string]any)
	name, _ := fields["name"].(string)
	return name
}
