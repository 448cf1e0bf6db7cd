package kinds

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
)

func resourceDistributionKind() Kind {
	kind := Kind{
		GVK:                apps.ResourceDistributionKind,
		Mode:               PerMember,
		NoPods:             true,
		ClusterScoped:      true,
		New:                func() Object { return &apps.ResourceDistribution{} },
		NewList:            func() ObjectList { return &apps.ResourceDistributionList{} },
		Read:               readResourceDistribution,
		Render:             renderResourceDistribution,
		Reflect:            reflectResourceDistribution,
		Observe:            observeResourceDistribution,
		AnswersWhenStalled: true,
		Status:             resourceDistributionStatus,
		StatusOf:           func(o Object) any { return &o.(*apps.ResourceDistribution).Status },
	}
	for _, published := range apps.ResourceDistributionConditions() {
		kind.Failures = append(kind.Failures, Failure{Type: string(published)})
	}
	return kind
}

// The reasons of Ready.
const (
	distributed = "Distributed"
	noNamespace = "NoNamespace"
)

func readResourceDistribution(o Object) (Workload, *Rejection) {
	d := o.(*apps.ResourceDistribution)
	w := NewWorkload(d, apps.ResourceDistributionKind, nil)
	spec, err := json.Marshal(&d.Spec)
	if err != nil {
		return w, undecodable(w.Key, err)
	}
	w.Revision = history.Hash(spec, nil)
	w.NoWaves = "the policy's rollout.waves and rollout.steps do not hold for ResourceDistributions: a change of " +
		w.Key.Sentence() + " reaches all members at once"
	return w, nil
}

func renderResourceDistribution(o Object, _ *Order) (Manifest, error) {
	return Manifest{Spec: o.(*apps.ResourceDistribution).Spec.DeepCopy()}, nil
}

func reflectResourceDistribution(r *Reflected) (Usage, error) {
	status := apps.ResourceDistributionStatus{}
	if err := json.Unmarshal(r.Status, &status); err != nil {
		return Usage{}, err
	}
	return Usage{InUse: []work.SubsetUse{work.ResourceDistributionUse(&status)}, Answered: r.Seen && r.Current}, nil
}

func observeResourceDistribution(o Object) Observed {
	return Observed{Generation: o.(*apps.ResourceDistribution).Status.ObservedGeneration, NoDeadline: true}
}

func resourceDistributionStatus(o Object, s *Sum, now time.Time) bool {
	d := o.(*apps.ResourceDistribution)
	out := *d.Status.DeepCopy()
	out.ObservedGeneration, out.Desired, out.Succeeded, out.Failed = s.ObservedGeneration, 0, 0, 0
	failed := map[apps.ResourceDistributionConditionType][]string{}
	for _, data := range s.Statuses {
		var status apps.ResourceDistributionStatus
		if json.Unmarshal(data, &status) != nil {
			continue
		}
		out.Desired += within(status.Desired, wire.MaxPods)
		out.Succeeded += within(status.Succeeded, wire.MaxPods)
		out.Failed += within(status.Failed, wire.MaxPods)
		for _, c := range status.Conditions {
			if c.Status == metav1.ConditionTrue {
				failed[c.Type] = append(failed[c.Type], c.FailedNamespaces...)
			}
		}
	}
	var all []apps.ResourceDistributionCondition
	for _, published := range apps.ResourceDistributionConditions() {
		c := apps.ResourceDistributionCondition{Type: published, Status: metav1.ConditionFalse,
			Reason: apps.ReasonResourceDistributionSucceeded}
		if cause := s.Failures[string(published)]; cause != nil {
			namespaces := failed[published]
			slices.Sort(namespaces)
			namespaces = slices.Compact(namespaces)
			c.Status, c.Reason, c.Message = metav1.ConditionTrue, cause.Reason, cause.Message
			c.FailedNamespaces = namespaces[:min(len(namespaces), apps.MostFailedNamespaces)]
		}
		all = append(all, c)
	}
	for _, c := range s.Conditions {
		if c.Type == apps.ConditionProgressing || c.Status == "" {
			continue
		}
		common := apps.ResourceDistributionCondition{Type: apps.ResourceDistributionConditionType(c.Type),
			Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message}
		switch {
		case c.Reason != conditions.ReasonAllAvailable:
		case out.Desired == 0:
			common.Reason, common.Message = noNamespace, fmt.Sprintf("targets select no namespace of %d members",
				len(s.Statuses))
		default:
			common.Reason = distributed
			common.Message = fmt.Sprintf("all %d namespaces of %d members have the copy", out.Desired, len(s.Statuses))
		}
		all = append(all, common)
	}
	out.Conditions = apps.KeepTransitions(out.Conditions, all, now)
	changed := !equality.Semantic.DeepEqual(&d.Status, &out)
	d.Status = out
	return changed
}
