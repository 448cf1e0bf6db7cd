package imagelistpulljob

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
)

const (
	// labelHash is on the children: the hash of the template that they were made of.
	labelHash = "controller-revision-hash"
	// longestBase is how much of the name of a job the names of its children have.
	longestBase = 52
)

// Facts are what a plan is made of.
type Facts struct {
	Job *v1beta1.ImageListPullJob
	// Children are the ImagePullJobs that the job controls.
	Children []*v1beta1.ImagePullJob
	Now      time.Time
}

// Plan is what one pass does.
type Plan struct {
	Create []*v1beta1.ImagePullJob
	// Delete are children of images, or of a template, that the job does not have any more.
	Delete []*v1beta1.ImagePullJob
	Status v1beta1.ImageListPullJobStatus
	// Held is why the first child that only a person can help does not go on; nil for none.
	Held *conditions.Cause
	// Expired: the time to live of the job is over.
	Expired bool
	// Next is when to plan again although no object changes; zero: not before one does.
	Next time.Time
}

// Make returns the plan. It fails if the template cannot be encoded.
func Make(f Facts) (Plan, error) {
	plan := Plan{Status: *f.Job.Status.DeepCopy()}
	if plan.Status.CompletionTime != nil {
		plan.expire(f)
		return plan, nil
	}
	hash, err := hashOf(&f.Job.Spec.ImagePullJobTemplate)
	if err != nil {
		return plan, err
	}
	status := &plan.Status
	if status.StartTime == nil {
		status.StartTime = new(metav1.NewTime(f.Now.Truncate(time.Second)))
	}
	wanted := map[string]bool{}
	for _, image := range f.Job.Spec.Images {
		wanted[image] = true
	}
	have := map[string]*v1beta1.ImagePullJob{}
	for _, child := range f.Children {
		switch image := child.Spec.Image; {
		case !wanted[image] || child.Labels[labelHash] != hash || have[image] != nil:
			if child.DeletionTimestamp == nil {
				plan.Delete = append(plan.Delete, child)
			}
		default:
			have[image] = child
		}
	}
	for _, image := range f.Job.Spec.Images {
		if have[image] == nil {
			plan.Create = append(plan.Create, child(f.Job, image, hash))
		}
	}
	slices.SortFunc(plan.Delete, func(a, b *v1beta1.ImagePullJob) int { return cmp.Compare(a.Name, b.Name) })
	plan.count(f, have)
	if status.Completed == status.Desired && f.Job.Spec.CompletionPolicy.Type != v1beta1.NeverCompletionPolicyType {
		status.CompletionTime = new(metav1.NewTime(f.Now.Truncate(time.Second)))
		plan.expire(f)
	}
	return plan, nil
}

// count sums the children up. A child of type Never counts as completed while all its nodes have ended.
func (p *Plan) count(f Facts, have map[string]*v1beta1.ImagePullJob) {
	status := &p.Status
	status.Desired, status.Active, status.Completed, status.Succeeded = int32(len(f.Job.Spec.Images)), 0, 0, 0
	status.FailedImageStatuses = nil
	for _, image := range f.Job.Spec.Images {
		child := have[image]
		if child == nil {
			continue
		}
		s := &child.Status
		ended := s.CompletionTime != nil ||
			f.Job.Spec.CompletionPolicy.Type == v1beta1.NeverCompletionPolicyType && s.Desired > 0 &&
				s.Desired == s.Succeeded+s.Failed
		if !ended {
			status.Active++
			if c := meta.FindStatusCondition(s.Conditions, v1beta1.ConditionStalled); p.Held == nil && c != nil &&
				c.Status == metav1.ConditionTrue {
				p.Held = &conditions.Cause{Reason: c.Reason, Message: "ImagePullJob " + child.Name + ": " + c.Message}
			}
		} else if status.Completed++; s.Failed == 0 {
			status.Succeeded++
		}
		if s.Failed > 0 {
			status.FailedImageStatuses = append(status.FailedImageStatuses, v1beta1.FailedImageStatus{
				ImagePullJob: child.Name, Name: image, Message: fmt.Sprintf(
					"Please check for details which nodes failed by 'kubectl get ImagePullJob %s'.", child.Name)})
		}
	}
}

// expire says when the job is deleted.
func (p *Plan) expire(f Facts) {
	ttl := f.Job.Spec.CompletionPolicy.TTLSecondsAfterFinished
	if ttl == nil {
		return
	}
	if p.Next = p.Status.CompletionTime.Add(time.Duration(*ttl) * time.Second); !f.Now.Before(p.Next) {
		p.Expired, p.Next = true, time.Time{}
	}
}

// hashOf returns the hash of what all children share.
func hashOf(template *v1beta1.ImagePullJobTemplate) (string, error) {
	data, err := json.Marshal(template)
	if err != nil {
		return "", fmt.Errorf("encode the template of its ImagePullJobs: %w", err)
	}
	sum := fnv.New32a()
	_, _ = sum.Write(data) // it never fails
	return rand.SafeEncodeString(strconv.FormatUint(uint64(sum.Sum32()), 10)), nil
}

// child returns the ImagePullJob of an image. Its name follows from the image and the hash. It is deleted with the job,
// not after a time of its own: the job still counts it.
func child(job *v1beta1.ImageListPullJob, image, hash string) *v1beta1.ImagePullJob {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(string(job.UID) + hash + image)) // it never fails
	labels := maps.Clone(job.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[labelHash] = hash
	out := &v1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{
		Namespace: job.Namespace,
		Name: job.Name[:min(len(job.Name), longestBase)] + "-" +
			rand.SafeEncodeString(strconv.FormatUint(uint64(sum.Sum32()), 10)),
		Labels:          labels,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, v1beta1.ImageListPullJobKind)},
	}}
	out.Spec.Image = image
	out.Spec.ImagePullJobTemplate = *job.Spec.ImagePullJobTemplate.DeepCopy()
	out.Spec.CompletionPolicy.TTLSecondsAfterFinished = nil
	return out
}
