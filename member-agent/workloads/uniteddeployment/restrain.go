package uniteddeployment

import (
	"math"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kruise "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/budget"
)

// restrain bounds how many ready pods the children may take down in an update, with the strategy Adaptive: no more than
// the limits of all subsets together allow to be missing of n. Pods that wait or start in the subset to which they
// moved are missing too, and no child's own limit counts them: the child that had them has fewer replicas, and is
// complete. Pods that find a node in no subset are not waited for. now are the children that have the pods of each
// subset.
func (p *plan) restrain(o *observed, now []*child, n int32) {
	downs := make([]down, 0, len(p.subsets))
	var ready, hope, byPlain, byDesired int64
	for i := range p.subsets {
		s := &p.subsets[i]
		d := down{subset: s}
		if now[i] != nil {
			d.ready = min(now[i].pods.available, s.desired)
		}
		value := o.allowed(i)
		plain, err := budget.Scaled(*value, s.plain, budget.Up)
		if err != nil {
			return // the child's controller says so
		}
		desired, _ := budget.Scaled(*value, s.desired, budget.Up) // it could be read before
		ready, hope = ready+int64(d.ready), hope+int64(s.hope())
		byPlain, byDesired = byPlain+int64(min(plain, s.plain)), byDesired+int64(min(desired, s.desired))
		if s.live == nil || !s.updating(o.revision) || !takesDown(s.live.object) && !o.wantsDown() {
			continue
		}
		most, err := budget.Scaled(*allowReserved(value, "", s.order(o, i)), s.desired, budget.Up)
		if err != nil {
			return
		}
		if s.live.kind == statefulSetKind {
			// It takes the next pod down whichever others are not ready.
			d.want = min(d.ready, max(1, most))
			d.may, d.own = d.want, s.desired-d.ready
			downs = append(downs, d)
			continue
		}
		d.want = d.below(s.desired, max(most, least(s.live.object)))
		d.may = d.want
		if has := liveUnavailable(s.live.object); has != nil {
			if most, err = budget.Scaled(*has, s.live.replicas, budget.Up); err == nil {
				d.may = d.below(s.desired, most)
			}
		}
		if !takesDown(s.live.object) {
			d.may = 0
		}
		downs = append(downs, d)
	}
	left := int32(min(max(0, ready-min(int64(n), hope)+min(byPlain, byDesired)), math.MaxInt32))
	// What a child may do now comes first, and counts until it has seen that it may not.
	for i := range downs {
		d := &downs[i]
		d.give = min(d.want, d.may, max(0, left+d.own))
		left -= d.give
	}
	for i := range downs {
		left -= max(0, downs[i].may-downs[i].give)
	}
	for i := range downs {
		d := &downs[i]
		more := max(0, min(d.want-d.give, left))
		d.give, left = d.give+more, left-more
		if d.give < d.want {
			d.subset.lack = new(d.subset.desired - d.ready + d.give)
			d.subset.held = d.give == 0
		}
	}
}

// down is how many ready pods of a subset an update may take down.
type down struct {
	subset *subsetPlan
	ready  int32 // of the replicas that it is to have
	want   int32 // by the child's limit
	may    int32 // by what the child has in its spec now
	// missing pods that do not keep it from going on: its controller may have to pass ready pods to reach them
	own  int32
	give int32
}

// below returns how many of the ready pods may go where so many of the replicas may be unavailable.
func (d *down) below(replicas, unavailable int32) int32 {
	return min(d.ready, max(0, int32(min(int64(d.ready)-int64(replicas)+int64(unavailable), int64(d.ready)))))
}

// hope is how many of its pods may get ready: all, or of a closed subset those that have nodes.
func (s *subsetPlan) hope() int32 {
	switch {
	case !s.gate.closed:
		return s.desired + s.later
	case s.reserved > 0:
		return max(0, s.desired-s.waiting)
	}
	return min(s.desired, s.placed)
}

// allowed returns maxUnavailable of the children of a subset.
func (o *observed) allowed(subset int) *intstr.IntOrString {
	if limit, ok := o.limits[o.ud.Spec.Topology.Subsets[subset].Name]; ok {
		return new(intstr.FromInt32(max(0, limit.MaxUnavailable)))
	}
	if value := o.templateUnavailable(); value != nil {
		return value
	}
	if o.ud.Spec.Template.DeploymentTemplate != nil {
		return new(intstr.FromString(deploymentShare))
	}
	if sets := o.ud.Spec.Template.StatefulSetTemplate; sets != nil {
		if rolling := sets.Spec.UpdateStrategy.RollingUpdate; rolling != nil && rolling.MaxUnavailable != nil {
			return rolling.MaxUnavailable
		}
		return new(intstr.FromInt32(1))
	}
	if o.ud.Spec.Template.AdvancedStatefulSetTemplate != nil {
		return new(intstr.FromInt32(1))
	}
	return new(intstr.FromString(cloneSetShare))
}

// wantsDown reports whether the children are to take ready pods down by themselves.
func (o *observed) wantsDown() bool {
	switch t := &o.ud.Spec.Template; {
	case t.CloneSetTemplate != nil:
		return takesDown(&kruise.CloneSet{Spec: t.CloneSetTemplate.Spec})
	case t.DeploymentTemplate != nil:
		return takesDown(&appsv1.Deployment{Spec: t.DeploymentTemplate.Spec.DeploymentSpec})
	case t.StatefulSetTemplate != nil:
		return takesDown(&appsv1.StatefulSet{Spec: t.StatefulSetTemplate.Spec.StatefulSetSpec})
	case t.AdvancedStatefulSetTemplate != nil:
		return takesDown(&kruise.StatefulSet{Spec: t.AdvancedStatefulSetTemplate.Spec})
	}
	return false
}

// freeze keeps the StatefulSet of a subset whose update waits from updating pods: only its partition can do that.
func (s *subsetPlan) freeze(asked *order) {
	if !s.held || s.live == nil || s.live.kind != statefulSetKind {
		return
	}
	limit := topology.SubsetLimit{}
	if asked.limit != nil {
		limit = *asked.limit
	}
	limit.Paused = true
	asked.limit = &limit
}

// takesDown reports whether a child's controller takes ready pods down by itself, and only as many as its spec allows.
func takesDown(object client.Object) bool {
	switch o := object.(type) {
	case *kruise.CloneSet:
		return o.Spec.UpdateStrategy.Type != kruise.OnDeleteCloneSetUpdateStrategyType
	case *appsv1.Deployment:
		return o.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType
	case *appsv1.StatefulSet:
		return o.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType
	case *kruise.StatefulSet:
		return o.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType
	}
	return false
}

// surges reports whether a child makes updated pods before it takes others down.
func surges(object client.Object) bool {
	var surge *intstr.IntOrString
	switch o := object.(type) {
	case *kruise.CloneSet:
		if o.Spec.UpdateStrategy.RollingUpdate != nil {
			surge = o.Spec.UpdateStrategy.RollingUpdate.MaxSurge
		}
	case *appsv1.Deployment:
		if surge = new(intstr.FromString(deploymentShare)); o.Spec.Strategy.RollingUpdate != nil &&
			o.Spec.Strategy.RollingUpdate.MaxSurge != nil {
			surge = o.Spec.Strategy.RollingUpdate.MaxSurge
		}
	}
	return surge != nil && *surge != intstr.FromInt32(0) && *surge != intstr.FromString("0%")
}

// least is what a child may at least take down: its controller takes one if its limits are 0.
func least(object client.Object) int32 {
	if surges(object) {
		return 0
	}
	return 1
}

// limit makes a child take down no more than lack allows. Where that is nothing, and no pod comes before another goes,
// its update pauses.
func limit(object client.Object, lack int32) {
	pause := lack <= 0 && !surges(object)
	value := new(intstr.FromInt32(max(lack, least(object))))
	switch o := object.(type) {
	case *kruise.CloneSet:
		if o.Spec.UpdateStrategy.RollingUpdate == nil {
			o.Spec.UpdateStrategy.RollingUpdate = &kruise.RollingUpdateCloneSetStrategy{}
		}
		o.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = value
		o.Spec.UpdateStrategy.RollingUpdate.Paused = o.Spec.UpdateStrategy.RollingUpdate.Paused || pause
	case *appsv1.Deployment:
		if o.Spec.Strategy.RollingUpdate == nil {
			o.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{}
		}
		o.Spec.Strategy.RollingUpdate.MaxUnavailable = value
		o.Spec.Paused = o.Spec.Paused || pause
	case *kruise.StatefulSet:
		if o.Spec.UpdateStrategy.RollingUpdate == nil {
			o.Spec.UpdateStrategy.RollingUpdate = &kruise.RollingUpdateStatefulSetStrategy{}
		}
		o.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(mostAtOnce(&o.Spec, value.IntVal)))
		o.Spec.UpdateStrategy.RollingUpdate.Paused = o.Spec.UpdateStrategy.RollingUpdate.Paused || pause
	case *appsv1.StatefulSet: // where the least is too much its partition freezes it
		if rolling := o.Spec.UpdateStrategy.RollingUpdate; rolling != nil && rolling.MaxUnavailable != nil {
			rolling.MaxUnavailable = value
		}
	}
}
