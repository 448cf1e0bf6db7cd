package images

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// waiting is the status of a tag whose next attempt has not begun.
func (f Facts) waiting(e *entry, status v1beta1.ImageTagStatus) v1beta1.ImageTagStatus {
	status.Phase, status.Progress, status.CompletionTime, status.ImageID = v1beta1.ImagePhaseWaiting, 0, nil, ""
	status.Message = e.message()
	return status
}

// pulling is the status of a tag that is being pulled. A pull that takes too long is cancelled.
func (f Facts) pulling(e *entry, status v1beta1.ImageTagStatus, plan *Plan) v1beta1.ImageTagStatus {
	end := e.running.Since.Add(e.timeout())
	if !f.Now.Before(end) {
		plan.Stop = append(plan.Stop, Stop{Key: e.Key, Why: fmt.Sprintf("not pulled within timeoutSeconds, which is %d",
			int64(e.timeout()/time.Second))})
	} else {
		plan.again(end)
	}
	status.Phase, status.Progress, status.CompletionTime = v1beta1.ImagePhasePulling, min(e.running.Progress, 99), nil
	if status.StartTime == nil {
		status.StartTime = seconds(e.running.Since)
	}
	if deadline, has := e.deadline(); has {
		plan.again(status.StartTime.Add(deadline))
	}
	return status
}

// succeeded is the status of a tag that the node has.
func (f Facts) succeeded(e *entry, status v1beta1.ImageTagStatus) v1beta1.ImageTagStatus {
	status.Phase, status.Progress, status.Message = v1beta1.ImagePhaseSucceeded, 100, ""
	status.ImageID = e.Image + "@" + e.present
	status.CompletionTime = seconds(f.Now)
	if e.record.Pulled {
		status.CompletionTime = seconds(e.record.EndedAt)
	}
	if status.StartTime == nil {
		status.StartTime = status.CompletionTime
	}
	return status
}

// failed is the status of a tag that is not pulled again before its version changes.
func (f Facts) failed(status v1beta1.ImageTagStatus, message string) v1beta1.ImageTagStatus {
	status.Phase, status.Progress, status.ImageID, status.Message = v1beta1.ImagePhaseFailed, 0, "", message
	status.CompletionTime = seconds(f.Now)
	return status
}

// seconds returns a time as an API server keeps it.
func seconds(at time.Time) *metav1.Time {
	return new(metav1.NewTime(at.Truncate(time.Second)))
}

// start adds an attempt for a tag.
func (p *Plan) start(f Facts, e *entry) {
	p.Start = append(p.Start, Pull{Key: e.Key, Version: e.spec.Version, Timeout: e.timeout(),
		Secrets: e.image.PullSecrets, Sandbox: e.image.SandboxConfig})
	p.again(f.Now.Add(e.timeout()))
	e.status.Phase = v1beta1.ImagePhasePulling
	if e.status.StartTime == nil {
		e.status.StartTime = seconds(f.Now)
	}
}

// report writes the status of all tags, and counts them.
func (p *Plan) report(f Facts, entries []entry) {
	status := &p.Status
	status.Desired, status.Succeeded, status.Failed, status.Pulling, status.Waiting = int32(len(entries)), 0, 0, 0, 0
	for _, e := range entries {
		switch e.status.Phase {
		case v1beta1.ImagePhaseSucceeded:
			status.Succeeded++
		case v1beta1.ImagePhaseFailed:
			status.Failed++
		case v1beta1.ImagePhasePulling:
			status.Pulling++
		case v1beta1.ImagePhaseWaiting:
			status.Waiting++
		}
		if status.ImageStatuses == nil {
			status.ImageStatuses = map[string]v1beta1.ImageStatus{}
		}
		image := status.ImageStatuses[e.Image]
		image.Tags = append(image.Tags, e.status)
		status.ImageStatuses[e.Image] = image
	}
	for _, image := range status.ImageStatuses {
		slices.SortFunc(image.Tags, func(a, b v1beta1.ImageTagStatus) int { return cmp.Compare(a.Tag, b.Tag) })
	}
	if status.FirstSyncStatus == nil && status.Desired > 0 && status.Succeeded+status.Failed == status.Desired {
		status.FirstSyncStatus = firstSync(status, f.Now)
	}
}

// firstSync is the end of the first pulls of the node.
func firstSync(status *v1beta1.NodeImageStatus, now time.Time) *v1beta1.SyncStatus {
	end := &v1beta1.SyncStatus{SyncAt: *seconds(now), Status: v1beta1.SyncStatusSucceeded}
	if status.Failed > 0 {
		end.Status = v1beta1.SyncStatusFailed
		end.Message = fmt.Sprintf("%d of %d tags could not be pulled", status.Failed, status.Desired)
	}
	return end
}
