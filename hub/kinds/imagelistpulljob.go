package kinds

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
)

// imageListPullJobKind is the kind whose members make an ImagePullJob for each image. The parallelism of each image is
// over the nodes of all members: a member may pull each image on as many nodes at a time as it is granted.
func imageListPullJobKind() Kind {
	return Kind{
		GVK:                apps.ImageListPullJobKind,
		Mode:               PerMember,
		NoPods:             true,
		New:                func() Object { return &apps.ImageListPullJob{} },
		NewList:            func() ObjectList { return &apps.ImageListPullJobList{} },
		Read:               readImageListPullJob,
		Render:             renderImageListPullJob,
		Budget:             true,
		Guarded:            []string{"spec.parallelism", "spec.completionPolicy"},
		Reflect:            reflectImageListPullJob,
		Shown:              shownBroadcastJob,
		Observe:            observeImageListPullJob,
		AnswersWhenStalled: true,
		Expires:            imageListPullJobExpires,
		Status:             imageListPullJobStatus,
		StatusOf:           func(o Object) any { return &o.(*apps.ImageListPullJob).Status },
	}
}

// mostFailedImages bounds status.failedImageStatuses: an image has an entry for each member where nodes lack it.
const mostFailedImages = 1000

// imageListPullJobExpires returns when a job of the hub that has ended is over its ttlSecondsAfterFinished.
func imageListPullJobExpires(o Object) (time.Time, bool) {
	job := o.(*apps.ImageListPullJob)
	end, ttl := job.Status.CompletionTime, job.Spec.CompletionPolicy.TTLSecondsAfterFinished
	if end == nil || ttl == nil || !meta.IsStatusConditionTrue(job.Status.Conditions, apps.ConditionFederated) {
		return time.Time{}, false
	}
	return end.Add(time.Duration(*ttl) * time.Second), true
}

func readImageListPullJob(o Object) (Workload, *Rejection) {
	job := o.(*apps.ImageListPullJob)
	w := NewWorkload(job, apps.ImageListPullJobKind, nil)
	rejection := readPulls(&w, &job.Spec.ImagePullJobTemplate)
	return w, rejection
}

func renderImageListPullJob(o Object, order *Order) (Manifest, error) {
	spec := o.(*apps.ImageListPullJob).Spec.DeepCopy()
	renderPulls(&spec.ImagePullJobTemplate, order)
	return Manifest{Spec: spec}, nil
}

func reflectImageListPullJob(r *Reflected) (Usage, error) {
	status := apps.ImageListPullJobStatus{}
	if err := json.Unmarshal(r.Status, &status); err != nil {
		return Usage{}, err
	}
	return Usage{InUse: []work.SubsetUse{work.ImageListPullJobUse(&status)}, Answered: r.Seen && r.Current}, nil
}

func observeImageListPullJob(o Object) Observed {
	return Observed{Generation: o.(*apps.ImageListPullJob).Status.ObservedGeneration, NoDeadline: true}
}

// imageListPullJobStatus writes the sum. That of a job that has ended stays.
func imageListPullJobStatus(o Object, s *Sum, now time.Time) bool {
	job := o.(*apps.ImageListPullJob)
	out := *job.Status.DeepCopy()
	out.ObservedGeneration, out.ObservedSequence, out.Flotilla = s.ObservedGeneration, 0, nil
	all := withoutProgressing(s.Conditions)
	if out.CompletionTime != nil {
		if !isDeleted(all) {
			all = slices.DeleteFunc(all, func(c conditions.Condition) bool { return c.Type != apps.ConditionFederated })
		}
	} else {
		nodes := sumLists(&out, job, s)
		if s.Job != nil && s.Job.End != nil {
			out.CompletionTime, out.Active = &s.Job.End.Time, 0
		}
		if s.Job != nil {
			settleLists(&out, job, s, nodes, all)
		}
	}
	for _, c := range all {
		set(&out.Conditions, c, now)
	}
	changed := !equality.Semantic.DeepEqual(&job.Status, &out)
	job.Status = out
	return changed
}

// sumLists writes the sums of the statuses of member objects, and returns the number of their nodes. An image has ended
// when it has in all members. A status that cannot be read counts as empty.
func sumLists(out *apps.ImageListPullJobStatus, job *apps.ImageListPullJob, s *Sum) (nodes int32) {
	images := int32(len(job.Spec.Images))
	out.Desired, out.Completed, out.Succeeded, out.FailedImageStatuses = images, images, images, nil
	if len(s.Statuses) == 0 {
		out.Completed, out.Succeeded = 0, 0
	}
	failed := map[string]bool{}
	for i, data := range s.Statuses {
		var status apps.ImageListPullJobStatus
		if json.Unmarshal(data, &status) != nil {
			status = apps.ImageListPullJobStatus{}
		}
		out.Completed = min(out.Completed, within(status.Completed, images))
		out.Succeeded = min(out.Succeeded, within(status.Succeeded, images))
		if status.Flotilla != nil {
			nodes += within(status.Flotilla.Nodes, wire.MaxPods)
		}
		for _, image := range status.FailedImageStatuses {
			if !slices.Contains(job.Spec.Images, image.Name) || len(image.ImagePullJob) > wire.MaxName {
				continue
			}
			failed[image.Name] = true
			out.FailedImageStatuses = append(out.FailedImageStatuses, apps.FailedImageStatus{
				ImagePullJob: s.member(i) + "/" + image.ImagePullJob, Name: image.Name,
				Message: fmt.Sprintf("Some nodes of member %s could not pull it: see ImagePullJob %s there.", s.member(i),
					image.ImagePullJob)})
		}
		if began := status.StartTime; began != nil && (out.StartTime == nil || began.Before(out.StartTime)) {
			out.StartTime = began
		}
	}
	out.Succeeded = min(out.Succeeded, images-int32(len(failed)))
	out.Active = out.Desired - out.Completed
	out.FailedImageStatuses = out.FailedImageStatuses[:min(len(out.FailedImageStatuses), mostFailedImages)]
	return nodes
}

// settleLists sets Ready, Reconciling and Stalled, unless they say what stands in the way, or that members do not
// answer.
func settleLists(
	out *apps.ImageListPullJobStatus, job *apps.ImageListPullJob, s *Sum, nodes int32, list []conditions.Condition,
) {
	text := fmt.Sprintf("%d of %d images are on all %d nodes of %d members, the pulls of %d have not ended",
		out.Succeeded, out.Desired, nodes, len(s.Statuses), out.Active)
	switch {
	case isDeleted(list), s.Job.End == nil && (s.Cause != nil || s.Job.Elsewhere):
	case s.Job.End != nil && out.Succeeded < out.Desired:
		if failed := out.FailedImageStatuses; len(failed) > 0 {
			text += fmt.Sprintf("; %s is not: see ImagePullJob %s", failed[0].Name, failed[0].ImagePullJob)
		}
		settle(list, corev1.ConditionFalse, false, imagePullFailed, text)
		stall(list, imagePullFailed, text)
	case s.Job.End != nil:
		settle(list, corev1.ConditionTrue, false, imagePulled, text)
	case nodes == 0:
		settle(list, corev1.ConditionFalse, true, noNodeSelected, fmt.Sprintf(
			"the job selects no node of %d members that can pull", len(s.Statuses)))
	case out.Active == 0 && job.Spec.CompletionPolicy.Type == apps.NeverCompletionPolicyType:
		settle(list, corev1.ConditionTrue, false, "NodesDone",
			text+"; completionPolicy.type is Never, so the job waits for more nodes")
	case isZero(job.Spec.Parallelism):
		settle(list, corev1.ConditionFalse, true, "ParallelismZero", text+"; parallelism is 0: raise it")
	default:
		settle(list, corev1.ConditionFalse, true, imagePulling, text)
	}
}
