package kinds

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
	"github.com/flotilla-dev/flotilla/topology/division"
)

// workloadSpreadDivider returns the divider by which a WorkloadSpread divides CloneSets into its subsets.
func workloadSpreadDivider() *Divider {
	return &Divider{
		GVK:     apps.GroupVersion.WithKind("WorkloadSpread"),
		New:     func() Object { return &apps.WorkloadSpread{} },
		NewList: func() ObjectList { return &apps.WorkloadSpreadList{} },
		Target:  spreadTarget(apps.CloneSetKind),
		Read:    readSpread,
		Hash:    func(o Object) (string, error) { return spreadHash(o.(*apps.WorkloadSpread)) },
	}
}

// unusedSpreads returns the divider of StatefulSets, which no WorkloadSpread divides on a hub: each member has ordinals
// of its own, and subsets are ranges of ordinals. Remarks say so.
func unusedSpreads() *Divider {
	divider := workloadSpreadDivider()
	divider.Target = spreadTarget(apps.StatefulSetKind)
	divider.Read = func(_ *Workload, _ Object, spreads []Object) (*Division, []string, *Rejection) {
		var remarks []string
		for _, ws := range spreads {
			remarks = append(remarks, fmt.Sprintf("WorkloadSpread %s is not used, because a hub divides a StatefulSet over "+
				"members alone; delete it, and create it in the members, where it counts the ordinals of each", ws.GetName()))
		}
		return nil, remarks, nil
	}
	return divider
}

// spreadTarget returns the function that returns the workload of the kind that a WorkloadSpread names.
func spreadTarget(kind schema.GroupVersionKind) func(Object) (wire.Key, bool) {
	return func(o Object) (wire.Key, bool) {
		ref := o.(*apps.WorkloadSpread).Spec.TargetReference
		if ref == nil || ref.Kind != kind.Kind {
			return wire.Key{}, false
		}
		if version, err := schema.ParseGroupVersion(ref.APIVersion); err != nil || version.Group != kind.Group {
			return wire.Key{}, false
		}
		return wire.Key{Group: kind.Group, Kind: kind.Kind, Namespace: o.GetNamespace(), Name: ref.Name}, true
	}
}

func spreadHash(ws *apps.WorkloadSpread) (string, error) {
	data, err := json.Marshal(ws.Spec)
	if err != nil {
		return "", fmt.Errorf("encode WorkloadSpread %s/%s: %w", ws.Namespace, ws.Name, err)
	}
	return history.Hash(data, nil), nil
}

// readSpread returns what the WorkloadSpreads of a CloneSet say, nil where none is for its pods, and remarks about
// those that do not hold.
func readSpread(w *Workload, object Object, spreads []Object) (*Division, []string, *Rejection) {
	if len(spreads) == 0 {
		return nil, nil, nil
	}
	set, ws := object.(*apps.CloneSet), spreads[0].(*apps.WorkloadSpread)
	spec := &ws.Spec
	title := "WorkloadSpread " + ws.Name
	var remarks []string
	for _, younger := range spreads[1:] {
		remarks = append(
			remarks,
			fmt.Sprintf("WorkloadSpread %s is not used, because the older %s names the same CloneSet; delete one of them",
				younger.GetName(), ws.Name),
		)
	}
	if filter := spec.TargetFilter; filter != nil {
		if len(filter.ReplicasPathList) > 0 {
			remarks = append(
				remarks,
				fmt.Sprintf("targetFilter.replicasPathList of %s is not used on the hub: percentages are of spec.replicas", title),
			)
		}
		selector, err := metav1.LabelSelectorAsSelector(filter.Selector)
		if err != nil {
			return nil, nil, &Rejection{
				InvalidSpread,
				fmt.Sprintf("targetFilter.selector of %s for %s cannot be used: %v; correct it",
					title, w.Key.Sentence(), err),
			}
		}
		if filter.Selector != nil && !selector.Matches(labels.Set(set.Spec.Template.Labels)) {
			return nil, append(remarks, fmt.Sprintf(
				"%s is not used: its targetFilter.selector does not match the labels of the pod template", title)), nil
		}
	}
	hash, err := spreadHash(ws)
	if err != nil {
		return nil, nil, &Rejection{
			InvalidSpread,
			fmt.Sprintf("%s for %s cannot be used: %v; correct it", title, w.Key.Sentence(), err),
		}
	}
	out := &Division{
		Ref: topology.SpreadReference{
			Name: ws.Name,
			Hash: hash,
		}, Adaptive: spreadStrategy(&spec.ScheduleStrategy), Remarks: remarks,
		SelectorName: "requiredNodeSelector in WorkloadSpread " + ws.Name,
		RemovedFormat: "WorkloadSpread " + ws.Name +
			" no longer has the subsets of some replicas: %s; they run on and go first at scale-in",
	}
	left := int64(w.Replicas)
	for i := range spec.Subsets {
		s := &spec.Subsets[i]
		// A floor of none makes even subsets without a limit be filled in their order.
		part := Subset{Subset: division.Subset{Name: s.Name, Min: new(intstr.FromInt32(0))}}
		if s.RequiredNodeSelector != nil {
			if wrong := wrongTerm("requiredNodeSelector", s.RequiredNodeSelector); wrong != "" {
				return nil, nil, &Rejection{
					InvalidSpread,
					fmt.Sprintf("subset %q of %s for %s: %s", s.Name, title, w.Key.Sentence(), wrong),
				}
			}
			part.Term = *s.RequiredNodeSelector
		}
		if s.MaxReplicas == nil {
			left = 0
		} else {
			limit, err := budget.Scaled(*s.MaxReplicas, w.Replicas, budget.Up)
			if err != nil {
				return nil, nil, &Rejection{InvalidSpread, fmt.Sprintf("maxReplicas of subset %q of %s for %s: %v", s.Name,
					title, w.Key.Sentence(), err)}
			}
			part.Max, left = new(intstr.FromInt32(limit)), left-int64(limit)
		}
		out.Parts = append(out.Parts, part)
	}
	if left > 0 {
		out.Parts = append(out.Parts, Subset{Subset: division.Subset{Min: new(intstr.FromInt32(0))}})
		out.Remarks = append(
			out.Remarks,
			fmt.Sprintf("%d replicas are above the sum of the maxReplicas of %s and run in no subset of it", left, title),
		)
	}
	return out, nil, nil
}

// spreadStrategy returns the strategy Adaptive of a WorkloadSpread, nil where pods wait for ever: as published, also
// where no time is given. A subset is closed for a time that cannot be chosen.
func spreadStrategy(s *apps.WorkloadSpreadScheduleStrategy) *Adaptive {
	if s.Type != apps.AdaptiveWorkloadSpreadScheduleStrategyType || s.Adaptive == nil {
		return nil
	}
	critical := ptr.Deref(s.Adaptive.RescheduleCriticalSeconds, 0)
	if critical <= 0 {
		return nil
	}
	return &Adaptive{Critical: time.Duration(critical) * time.Second, Closed: defaultClosed}
}

// memberSubsets returns the annotation that tells a member's CloneSet in which subsets its pods run, and how many in
// each.
func memberSubsets(ws *apps.WorkloadSpread, cells []topology.Cell) (map[string]string, error) {
	subsets := []apps.WorkloadSpreadSubset{}
	for i := range ws.Spec.Subsets {
		subset := ws.Spec.Subsets[i].DeepCopy()
		var replicas int32
		has := false
		for j := range cells {
			if cells[j].SpreadSubset == subset.Name {
				replicas, has = replicas+cells[j].Replicas, true
			}
		}
		if !has {
			continue
		}
		subset.MaxReplicas = new(intstr.FromInt32(replicas))
		subset.RequiredNodeSelector = stripDecided(subset.RequiredNodeSelector)
		subsets = append(subsets, *subset)
	}
	if len(subsets) == 0 {
		return nil, nil // all of its pods are above the sum of the caps
	}
	data, err := json.Marshal(subsets)
	if err == nil {
		data, err = json.Marshal(topology.MemberSpread{Name: ws.Name, Subsets: data})
	}
	if err != nil {
		return nil, fmt.Errorf("encode WorkloadSpread %s/%s: %w", ws.Namespace, ws.Name, err)
	}
	return map[string]string{topology.AnnotationSpread: string(data)}, nil
}

// stripDecided removes from a node selector the requirements that the hub has decided; nil where nothing is left.
func stripDecided(term *corev1.NodeSelectorTerm) *corev1.NodeSelectorTerm {
	if term == nil {
		return nil
	}
	out := term.DeepCopy()
	out.MatchExpressions = withoutDecided(out.MatchExpressions)
	if len(out.MatchExpressions) == 0 && len(out.MatchFields) == 0 {
		return nil
	}
	return out
}
