// Package images decides which images a node pulls next, from its NodeImage, what the container runtime has, and the
// pulls so far. It is pure: the daemon pulls, and writes the status.
package images

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

const (
	defaultTimeout = 600 * time.Second
	defaultBackoff = 3
	// longestWait bounds the wait after a failed attempt. The first wait is one second, each later one twice as long.
	longestWait = 30 * time.Second
	// longestWaitForSpace is longestWait after an attempt whose image the node has removed.
	longestWaitForSpace = 5 * time.Minute
	// longest bounds activeDeadlineSeconds, whose nanoseconds might not fit.
	longest = 90 * 365 * 24 * time.Hour
)

// Key names what is pulled.
type Key struct {
	Image, Tag string
}

// Reference returns what the container runtime pulls: the image with its tag, or with its digest.
func (k Key) Reference() string {
	if strings.Contains(k.Tag, ":") {
		return k.Image + "@" + k.Tag
	}
	return k.Image + ":" + k.Tag
}

// Running is an attempt to pull that has not ended.
type Running struct {
	Version int64
	Since   time.Time
	// Progress is in percent, 0 where the runtime does not report it.
	Progress int32
}

// Record is what the daemon remembers of the ended attempts of one version. It is lost when the daemon restarts; the
// status then counts alone.
type Record struct {
	Version int64
	// Attempts is how many failed, Pulls how many succeeded: the node may have removed the image since.
	Attempts, Pulls int
	// EndedAt is when the last attempt ended, Message what it failed with, "" after a success.
	EndedAt time.Time
	Message string
	// Pulled reports whether the last attempt succeeded.
	Pulled bool
}

// Facts are what a plan is made of.
type Facts struct {
	Spec   v1beta1.NodeImageSpec
	Status v1beta1.NodeImageStatus
	// Present are the images of the container runtime, listed after the last attempt ended: their IDs by what
	// Key.Reference returns.
	Present map[string]string
	// Unknown are tags of which the runtime did not say in time whether it has them. Their statuses stay.
	Unknown map[Key]bool
	Running map[Key]Running
	Records map[Key]Record
	// Workers is how many pulls may run at the same time, at least 1.
	Workers int
	Now     time.Time
}

// Pull is an attempt to start.
type Pull struct {
	Key
	Version int64
	Timeout time.Duration
	Secrets []v1beta1.PullSecretReference
	Sandbox *v1beta1.SandboxConfig
}

// Stop is an attempt to cancel. It occupies its worker until it has ended.
type Stop struct {
	Key
	Why string
}

// Plan is what one pass does.
type Plan struct {
	Start []Pull
	Stop  []Stop
	// Status is the next status. It keeps what it does not describe, such as the conditions.
	Status v1beta1.NodeImageStatus
	// Next is when to plan again although nothing was reported; zero: not before something is.
	Next time.Time
}

// entry is one tag of the spec, and what is known of it.
type entry struct {
	Key
	image   v1beta1.ImageSpec
	spec    v1beta1.ImageTagSpec
	status  v1beta1.ImageTagStatus // of the version of the spec, else empty
	record  Record                 // of the version of the spec, else empty
	running Running
	pulling bool // any version
	present string
}

// Make returns the plan.
func Make(f Facts) Plan {
	plan := Plan{Status: *f.Status.DeepCopy()}
	plan.Status.ImageStatuses = nil
	entries := f.entries()
	plan.stopOrphans(f, entries)
	free := f.Workers - len(f.Running)
	for i := range entries {
		e := &entries[i]
		e.status = f.decide(e, &plan)
		if e.status.Phase == v1beta1.ImagePhaseWaiting && !e.pulling && !f.Unknown[e.Key] && free > 0 &&
			f.due(e, &plan) {
			free--
			plan.start(f, e)
		}
	}
	plan.report(f, entries)
	return plan
}

// entries returns the tags in the order in which they are pulled: the oldest requests first.
func (f Facts) entries() []entry {
	var all []entry
	for name, image := range f.Spec.Images {
		for _, tag := range image.Tags {
			e := entry{Key: Key{Image: name, Tag: tag.Tag}, image: image, spec: tag}
			e.present = f.Present[e.Reference()]
			if record := f.Records[e.Key]; record.Version == tag.Version {
				e.record = record
			}
			e.running, e.pulling = f.Running[e.Key]
			for _, status := range f.Status.ImageStatuses[name].Tags {
				if status.Tag == tag.Tag && status.Version == tag.Version {
					e.status = status
				}
			}
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b entry) int {
		return cmp.Or(requested(a).Compare(requested(b)), cmp.Compare(a.Image, b.Image), cmp.Compare(a.Tag, b.Tag))
	})
	return all
}

// requested returns when a job asked for the tag.
func requested(e entry) time.Time {
	if e.spec.CreatedAt == nil {
		return time.Time{}
	}
	return e.spec.CreatedAt.Time
}

// stopOrphans cancels pulls of tags that left the spec, in a stable order.
func (p *Plan) stopOrphans(f Facts, entries []entry) {
	wanted := map[Key]bool{}
	for _, e := range entries {
		wanted[e.Key] = true
	}
	for key := range f.Running {
		if !wanted[key] {
			p.Stop = append(p.Stop, Stop{Key: key, Why: "no job asks for the image any more"})
		}
	}
	slices.SortFunc(p.Stop, func(a, b Stop) int { return cmp.Compare(a.Reference(), b.Reference()) })
}

// decide returns the status of a tag, and cancels its pull where that must not go on.
func (f Facts) decide(e *entry, plan *Plan) v1beta1.ImageTagStatus {
	if f.lost(e) {
		e.status = v1beta1.ImageTagStatus{} // its deadline counts anew
	}
	status := e.status
	status.Tag, status.Version = e.Tag, e.spec.Version
	switch {
	case status.Phase == v1beta1.ImagePhaseSucceeded || status.Phase == v1beta1.ImagePhaseFailed:
		return status
	case e.pulling && e.running.Version != e.spec.Version:
		plan.Stop = append(plan.Stop, Stop{Key: e.Key, Why: "a job asks for another version"})
		return f.waiting(e, status)
	case f.unknown(e):
		status.Phase = cmp.Or(status.Phase, v1beta1.ImagePhaseWaiting)
		return status
	case !e.pulling && f.has(e): // also after the deadline
		return f.succeeded(e, status)
	case f.overdue(e):
		if e.pulling {
			plan.Stop = append(plan.Stop, Stop{Key: e.Key, Why: "activeDeadlineSeconds is over"})
		}
		return f.failed(status, fmt.Sprintf("not pulled within activeDeadlineSeconds, which is %d%s",
			*e.spec.PullPolicy.ActiveDeadlineSeconds, after(e.message())))
	case e.pulling:
		return f.pulling(e, status, plan)
	case e.record.Attempts > e.backoffLimit():
		return f.failed(status, fmt.Sprintf("%d attempts failed%s", e.record.Attempts, after(e.message())))
	}
	return f.waiting(e, status)
}

// after returns what an attempt failed with, to follow a sentence.
func after(message string) string {
	if message == "" {
		return ""
	}
	return ": " + message
}

// lost reports whether an image that was pulled is gone, and has to be pulled again: the kubelet removes images that
// no pod uses when it needs their space.
func (f Facts) lost(e *entry) bool {
	return e.status.Phase == v1beta1.ImagePhaseSucceeded && e.present == "" && !f.Unknown[e.Key] && !f.expired(e)
}

// expired reports whether the time to live of an ended pull is over, so that its image is of no interest any more.
func (f Facts) expired(e *entry) bool {
	policy := e.spec.PullPolicy
	if policy == nil || policy.TTLSecondsAfterFinished == nil || e.status.CompletionTime == nil {
		return false
	}
	return !f.Now.Before(e.status.CompletionTime.Add(time.Duration(*policy.TTLSecondsAfterFinished) * time.Second))
}

// unknown reports whether nothing can be decided, because the runtime did not say whether it has the image. The
// deadline holds all the same, unless the image was pulled.
func (f Facts) unknown(e *entry) bool {
	return f.Unknown[e.Key] && !e.pulling && (e.record.Pulled || !f.overdue(e))
}

// has reports whether the node has the image as asked.
func (f Facts) has(e *entry) bool {
	return e.present != "" && (e.record.Pulled || e.spec.ImagePullPolicy != v1beta1.PullAlways)
}

// overdue reports whether all attempts together took too long. A clock that was set back does not end a pull.
func (f Facts) overdue(e *entry) bool {
	deadline, has := e.deadline()
	return has && e.status.StartTime != nil && !f.Now.Before(e.status.StartTime.Add(deadline))
}

// deadline returns how long all attempts together may take, false for any time.
func (e *entry) deadline() (time.Duration, bool) {
	policy := e.spec.PullPolicy
	if policy == nil || policy.ActiveDeadlineSeconds == nil {
		return 0, false
	}
	return time.Duration(min(*policy.ActiveDeadlineSeconds, int64(longest/time.Second))) * time.Second, true
}

// message says why the last attempt was of no use.
func (e *entry) message() string {
	if e.record.Pulled && e.present == "" {
		return "the node removed the image after the pull; free space on its disk"
	}
	return e.record.Message
}

func (e *entry) backoffLimit() int {
	if policy := e.spec.PullPolicy; policy != nil && policy.BackoffLimit != nil {
		return int(*policy.BackoffLimit)
	}
	return defaultBackoff
}

func (e *entry) timeout() time.Duration {
	if policy := e.spec.PullPolicy; policy != nil && policy.TimeoutSeconds != nil {
		return time.Duration(*policy.TimeoutSeconds) * time.Second
	}
	return defaultTimeout
}

// due reports whether the wait after the last attempt is over. If not, the plan is made again when it is. A
// last attempt in the future is that of a clock that was set back since.
func (f Facts) due(e *entry, plan *Plan) bool {
	attempts := e.record.Attempts + e.record.Pulls
	if attempts == 0 || f.Now.Before(e.record.EndedAt) {
		return true
	}
	const enough = 10 // doublings to more than any wait
	wait, longest := time.Second<<min(attempts-1, enough), longestWait
	if e.record.Pulled { // so that the daemon and a node without space do not pull and remove an image all the time
		longest = longestWaitForSpace
	}
	wait = min(wait, longest)
	at := e.record.EndedAt.Add(wait)
	if !f.Now.Before(at) {
		return true
	}
	plan.again(at)
	return false
}

// again has the plan made again at a time.
func (p *Plan) again(at time.Time) {
	if p.Next.IsZero() || at.Before(p.Next) {
		p.Next = at
	}
}
