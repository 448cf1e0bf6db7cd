package images

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/cri"
)

const (
	// recheckAfter is how often the daemon looks whether pulled images are still on the node.
	recheckAfter = 5 * time.Minute
	// retryAfter is the first wait after a failed pass, longestRetry the longest; and retryAfter is the wait while the
	// runtime does not answer.
	retryAfter   = 2 * time.Second
	longestRetry = 30 * time.Second
	// writeTimeout bounds a write to the API server, askTimeout a question to the runtime, and lookTimeout all questions
	// of one pass.
	writeTimeout = 30 * time.Second
	askTimeout   = 2 * time.Second
	lookTimeout  = 10 * time.Second
	// reasonFailed is the reason of events on jobs, as OpenKruise has it.
	reasonFailed = "PullImageFailed"
	// mostOwners bounds the jobs that get an event of one tag.
	mostOwners = 3
)

// worker pulls what the node's NodeImage asks for. All fields but env belong to the goroutine of Start; a pull has one
// of its own and reports by ended.
type worker struct {
	env     nodedaemon.Env
	workers int
	meter   *meter
	puller  puller
	changed *nodedaemon.Signal
	ended   chan outcome

	running map[Key]*attempt
	records map[Key]Record
	// present are the images that the runtime last reported, by reference.
	present map[string]string
	// silent: the runtime did not say in time of some images whether it has them.
	silent bool
	// planned is the latest status of the NodeImage with this uid, written or not.
	uid     types.UID
	planned v1beta1.NodeImageStatus
	// own is the NodeImage as the latest write returned it.
	own      *v1beta1.NodeImage
	writes   writes
	failures int
}

// attempt is a pull that has not ended.
type attempt struct {
	Running
	cancel context.CancelFunc
	// why is why it was stopped, "" if it was not.
	why string
}

// outcome is how an attempt ended.
type outcome struct {
	Key
	err error
	// lost reports whether the runtime went away meanwhile. Such an attempt does not count.
	lost bool
}

func newWorker(env nodedaemon.Env, workers int, m *meter) *worker {
	return &worker{
		env: env, workers: workers, meter: m, puller: puller{images: env.Images, live: env.Live},
		changed: nodedaemon.NewSignal(), ended: make(chan outcome, workers),
		running: map[Key]*attempt{}, records: map[Key]Record{}, present: map[string]string{},
		writes: writes{open: map[Key]openTag{}},
	}
}

// Start pulls until the context ends, and then waits until all pulls have ended.
func (w *worker) Start(ctx context.Context) error {
	err := nodedaemon.WatchNamed(ctx, w.env.Cache, &v1beta1.NodeImage{}, w.env.Clock, w.changed, w.env.Log)
	if err != nil {
		return err
	}
	w.run(ctx)
	return nil
}

// run is Start once the cache has the NodeImage.
func (w *worker) run(ctx context.Context) {
	for ctx.Err() == nil {
		w.wait(ctx, w.pass(ctx))
	}
	for len(w.running) > 0 { // their contexts have ended
		delete(w.running, (<-w.ended).Key)
	}
}

// wait returns when there is something to do: at the latest after that time, 0 for any.
func (w *worker) wait(ctx context.Context, most time.Duration) {
	var over <-chan time.Time
	if most > 0 {
		timer := w.env.Clock.NewTimer(most)
		defer timer.Stop()
		over = timer.C()
	}
	select {
	case <-ctx.Done():
	case <-w.changed.C():
	case <-over:
	case o := <-w.ended:
		w.end(o)
		for len(w.ended) > 0 {
			w.end(<-w.ended)
		}
	}
}

// pass does what there is to do now. It returns when to look again at the latest, 0 for not before something happens.
func (w *worker) pass(ctx context.Context) time.Duration {
	next, err := w.reconcile(ctx)
	if err == nil {
		w.failures = 0
		return next
	}
	if ctx.Err() != nil {
		return 0
	}
	w.env.Log.Info("pulls are not reported yet; trying again", "reason", err.Error())
	const enough = 5 // doublings to the longest wait
	wait := min(retryAfter<<min(w.failures, enough), longestRetry)
	w.failures++
	return wait
}

// reconcile gathers, plans, starts and stops pulls, and writes the status. It returns as pass does.
func (w *worker) reconcile(ctx context.Context) (time.Duration, error) {
	image, err := w.read(ctx)
	if err != nil {
		return 0, err
	}
	if image == nil {
		for _, a := range w.running {
			a.stop("the node has no NodeImage any more")
		}
		return 0, nil
	}
	if image.UID != w.uid {
		w.uid, w.planned, w.records = image.UID, *image.Status.DeepCopy(), map[Key]Record{}
		w.writes = writes{open: map[Key]openTag{}}
	}
	facts := Facts{
		Spec: image.Spec, Status: w.planned, Running: map[Key]Running{}, Records: w.records, Workers: w.workers,
		Now: w.env.Clock.Now(),
	}
	for key, a := range w.running {
		facts.Running[key] = a.Running
	}
	w.forget(image.Spec)
	var answers bool
	answers, facts.Unknown = w.look(ctx, facts)
	facts.Present = w.present
	if !answers {
		facts.Workers = 0 // an attempt would fail at once
	}
	plan := Make(facts)
	for _, stop := range plan.Stop {
		w.running[stop.Key].stop(stop.Why)
	}
	for _, pull := range plan.Start {
		w.start(ctx, pull)
	}
	w.planned = plan.Status
	w.planned.Conditions = nil // the daemon's reporter has them
	next := untilNext(plan, facts.Now, answers && len(facts.Unknown) == 0)
	return next, w.write(ctx, image)
}

// untilNext returns when to plan again, 0 for not before something happens. answers: the runtime said of all images
// whether it has them.
func untilNext(plan Plan, now time.Time, answers bool) time.Duration {
	var next time.Duration
	sooner := func(d time.Duration) {
		if next == 0 || d < next {
			next = d
		}
	}
	if plan.Status.Succeeded > 0 {
		sooner(recheckAfter)
	}
	if !plan.Next.IsZero() {
		sooner(max(plan.Next.Sub(now), time.Millisecond))
	}
	if !answers {
		sooner(retryAfter)
	}
	return next
}

// read returns the NodeImage, as the cache has it or as it was last written if that is newer; nil if there is none.
func (w *worker) read(ctx context.Context) (*v1beta1.NodeImage, error) {
	image := &v1beta1.NodeImage{}
	if err := w.env.Client.Get(ctx, types.NamespacedName{Name: w.env.Node}, image); err != nil {
		if apierrors.IsNotFound(err) {
			w.own = nil
			return nil, nil
		}
		return nil, fmt.Errorf("read NodeImage %s: %w", w.env.Node, err)
	}
	if w.own == nil || w.own.UID != image.UID {
		return image, nil
	}
	order, err := resourceversion.CompareResourceVersion(image.ResourceVersion, w.own.ResourceVersion)
	if err == nil && order < 0 {
		return w.own.DeepCopy(), nil
	}
	return image, nil
}

// forget drops what is known of tags that left the spec.
func (w *worker) forget(spec v1beta1.NodeImageSpec) {
	wanted, references := map[Key]bool{}, map[string]bool{}
	for name, image := range spec.Images {
		for _, tag := range image.Tags {
			key := Key{Image: name, Tag: tag.Tag}
			wanted[key], references[key.Reference()] = true, true
		}
	}
	for key := range w.records {
		if !wanted[key] {
			delete(w.records, key)
		}
	}
	for reference := range w.present {
		if !references[reference] {
			delete(w.present, reference)
		}
	}
}

// look asks the runtime which of the images it has. It reports whether the runtime answered; if it did not, what it
// last reported holds, and after a restart of the daemon what the status has. Of images that it did not answer in time
// nothing is known.
func (w *worker) look(ctx context.Context, f Facts) (answers bool, unknown map[Key]bool) {
	ctx, cancel := context.WithTimeout(cri.Quiet(ctx), lookTimeout)
	defer cancel()
	answers, unknown = true, map[Key]bool{}
	known := tags(f.Status)
	for name, image := range f.Spec.Images {
		for _, tag := range image.Tags {
			key := Key{Image: name, Tag: tag.Tag}
			reference := key.Reference()
			last := known[key]
			if _, pulls := f.Running[key]; pulls ||
				last.Version == tag.Version && last.Phase == v1beta1.ImagePhaseFailed {
				continue
			}
			if answers {
				id, err := w.id(ctx, reference)
				if err == nil {
					w.present[reference] = id
					continue
				}
				if answers = status.Code(err) != codes.Unavailable; answers {
					unknown[key] = true
				}
			}
			if _, asked := w.present[reference]; !asked && last.Phase == v1beta1.ImagePhaseSucceeded {
				w.present[reference] = strings.TrimPrefix(last.ImageID, name+"@")
			}
		}
	}
	if silent := len(unknown) > 0; silent != w.silent {
		w.silent = silent
		w.env.Log.Info("the container runtime was asked which images it has", "answersInTime", !silent,
			"unknown", len(unknown))
	}
	return answers, unknown
}

// id returns the ID of an image on the node, "" if the node does not have it or the runtime cannot tell. It errs if the
// runtime does not answer, with code Unavailable, or not in time.
func (w *worker) id(ctx context.Context, reference string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answer, err := w.env.Images.ImageStatus(ctx, &runtimeapi.ImageSpec{Image: reference}, false)
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return "", fmt.Errorf("ask the runtime for %s: %w", reference, err)
	default:
		return answer.GetImage().GetId(), nil
	}
}

// start starts an attempt.
func (w *worker) start(ctx context.Context, pull Pull) {
	ctx, cancel := context.WithCancel(ctx)
	begin := w.env.Clock.Now()
	w.running[pull.Key] = &attempt{Running: Running{Version: pull.Version, Since: begin}, cancel: cancel}
	w.meter.pulling.Set(float64(len(w.running)))
	w.env.Log.V(1).Info("pulling", "image", pull.Reference(), "version", pull.Version)
	go func() {
		err := w.puller.pull(ctx, pull)
		o := outcome{Key: pull.Key, err: err}
		if err != nil && ctx.Err() == nil {
			o.lost = w.gone(ctx)
		}
		w.ended <- o
	}()
}

// gone reports whether the runtime does not answer.
func (w *worker) gone(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(cri.Quiet(ctx), lookTimeout)
	defer cancel()
	_, err := w.env.Runtime.Version(ctx, "")
	return status.Code(err) == codes.Unavailable
}

// stop has an attempt end.
func (a *attempt) stop(why string) {
	if a.why == "" {
		a.why = why
	}
	a.cancel()
}

// end records how an attempt ended.
func (w *worker) end(o outcome) {
	a := w.running[o.Key]
	a.cancel()
	delete(w.running, o.Key)
	w.meter.pulling.Set(float64(len(w.running)))
	record := w.records[o.Key]
	if record.Version != a.Version {
		record = Record{Version: a.Version}
	}
	now := w.env.Clock.Now()
	record.EndedAt, record.Pulled, record.Message = now, o.err == nil, ""
	switch {
	case o.err == nil:
		record.Pulls++
	case !o.lost:
		record.Attempts++
	}
	how := outcomePulled
	switch {
	case o.err == nil:
		w.meter.seconds.Observe(now.Sub(a.Since).Seconds())
	case a.why != "":
		how, record.Message = outcomeStopped, a.why
	default:
		how, record.Message = outcomeFailed, o.err.Error()
	}
	w.meter.attempts.WithLabelValues(how).Inc()
	w.records[o.Key] = record
	w.env.Log.V(1).Info("a pull ended", "image", o.Reference(), "outcome", how, "message", record.Message)
}

// write writes the planned status where it is worth a write, and then the events of tags that have failed.
func (w *worker) write(ctx context.Context, image *v1beta1.NodeImage) error {
	last := *image.Status.DeepCopy()
	last.Conditions = nil
	if !w.writes.due(last, w.planned) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	next := image.DeepCopy()
	next.Status = *w.planned.DeepCopy()
	next.Status.Conditions = image.Status.Conditions
	if err := w.env.Client.Status().Patch(ctx, next, client.MergeFrom(image)); err != nil {
		if apierrors.IsNotFound(err) {
			return nil // the next event says so
		}
		return fmt.Errorf("write the status of NodeImage %s: %w", w.env.Node, err)
	}
	w.own = next
	w.writes.written(last, w.planned)
	w.events(last, image.Spec)
	return nil
}

// events writes events on the owners of tags that failed with this write.
func (w *worker) events(last v1beta1.NodeImageStatus, spec v1beta1.NodeImageSpec) {
	before := tags(last)
	for key, tag := range tags(w.planned) {
		previous := before[key]
		if tag.Phase != v1beta1.ImagePhaseFailed ||
			previous.Phase == v1beta1.ImagePhaseFailed && previous.Version == tag.Version {
			continue
		}
		for _, owner := range owners(spec, key) {
			w.env.Events.Eventf(&corev1.ObjectReference{APIVersion: owner.APIVersion, Kind: owner.Kind,
				Namespace: owner.Namespace, Name: owner.Name, UID: owner.UID}, nil, corev1.EventTypeWarning, reasonFailed,
				"PullImage", "%s",
				nodedaemon.Note(fmt.Sprintf("Node %s: %s: %s", w.env.Node, key.Reference(), tag.Message)))
		}
	}
}

// owners returns the jobs that a tag is pulled for, not all of many.
func owners(spec v1beta1.NodeImageSpec, key Key) []v1beta1.JobReference {
	all := spec.Images[key.Image].Tags
	i := slices.IndexFunc(all, func(tag v1beta1.ImageTagSpec) bool { return tag.Tag == key.Tag })
	if i < 0 {
		return nil
	}
	return all[i].OwnerReferences[:min(len(all[i].OwnerReferences), mostOwners)]
}
