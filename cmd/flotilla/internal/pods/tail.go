package pods

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
)

const (
	// firstPause and longestPause are how long a log is left alone before it is opened again.
	firstPause, longestPause = 200 * time.Millisecond, 5 * time.Second
)

// source is a log: that of a container of a pod in a member.
type source struct {
	member    *reached
	pod       *corev1.Pod
	container string
	prefix    string
	joined    bool // the pod appeared after the verb began
	several   bool
}

func (s *source) id() string {
	return s.member.name + "/" + string(s.pod.UID) + s.pod.Name + "/" + s.container
}

// title names the log in a sentence.
func (s *source) title() string {
	if s.several {
		return s.member.name + "/" + s.pod.Name + "/" + s.container
	}
	return s.member.name + "/" + s.pod.Name
}

// open asks for the log. The member has its time to begin the answer, and all time to end it. A followed log that has
// nothing to show has all time to begin, too: kubelets send no headers before the first line.
func (s *source) open(ctx context.Context, options *corev1.PodLogOptions) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(s.member.patience, func() {
		if !options.Follow {
			cancel(context.DeadlineExceeded)
		}
	})
	stream, err := s.member.streams.CoreV1().Pods(s.pod.Namespace).GetLogs(s.pod.Name, options).Stream(ctx)
	if !late.Stop() && !options.Follow && err == nil {
		stream.Close()
		err = context.DeadlineExceeded
	}
	if err != nil {
		if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			err = context.DeadlineExceeded
		}
		cancel(nil)
		return nil, err
	}
	return &cancelled{stream, cancel}, nil
}

// unread returns the sentence about a log that cannot be read. It is the same for all pods where the member is the
// reason.
func (s *source) unread(err error) error {
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || isConnection(err) {
		return s.member.failed("read logs of pods in namespace "+s.pod.Namespace, err)
	}
	return s.member.failed(fmt.Sprintf("read the log of %s/%s", s.pod.Name, s.container), err)
}

// cancelled is a stream that ends its request when it is closed.
type cancelled struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

// Close ends the request.
func (c *cancelled) Close() error {
	c.cancel(nil)
	return c.ReadCloser.Close()
}

// tail follows one log. A stream that ends before its container is opened again, from where it was left.
type tail struct {
	source
	log   *logOptions
	out   *lines
	clock clock.Clock
	at    position
	began time.Time
	// rest is the beginning of a line whose end was not read.
	rest []byte
	// empty: the log had no line when it was opened, so all lines are new.
	empty bool
	// refused is why the member lets the user read no log.
	refused error
	// remark is the last line without a time: the kubelet writes such in place of a log.
	remark string
}

// run prints the log until its container has ended for good, or the context ends. ended says how it ended; it is empty
// where the context ended. A writer that fails is an error.
func (t *tail) run(ctx context.Context) (ended string, err error) {
	t.began = t.clock.Now()
	pause, last := firstPause, false
	for ctx.Err() == nil {
		before := t.at.newest
		failure := t.once(ctx)
		t.empty = t.empty || t.isEmpty(failure)
		var broken *writeError
		switch {
		case errors.As(failure, &broken):
			return "", broken.err
		case apierrors.IsForbidden(failure), apierrors.IsUnauthorized(failure):
			t.refused = t.unread(failure)
			return "", nil
		}
		over, how := t.state(ctx)
		switch {
		case ctx.Err() != nil:
			return "", nil
		case over && isLast(last, how, failure):
			return how, t.writeRest()
		case over && !last:
			// A stream can end before the container: what it wrote after that is read now.
			last, pause = true, firstPause
			continue
		case t.at.newest.After(before):
			pause = firstPause
		}
		select {
		case <-ctx.Done():
		case <-t.clock.After(pause):
		}
		pause = min(2*pause, longestPause)
	}
	return "", nil
}

// isEmpty reports whether a reading shows that there was no line: a container that has not started, or a log that ends
// without one. A log of which nothing was wanted does not show it.
func (t *tail) isEmpty(failure error) bool {
	return t.at.newest.IsZero() &&
		(apierrors.IsBadRequest(failure) || failure == nil && len(t.rest) == 0 && (!t.log.tailed || t.log.tail != 0))
}

// isLast reports whether a log that has ended was read to its end: it was known before the reading that it has, or it
// cannot be read again.
func isLast(known bool, how string, failure error) bool {
	return known && failure == nil || how == deleted || isAnswer(failure)
}

// isAnswer reports whether an API server refused a request.
func isAnswer(err error) bool {
	var answered apierrors.APIStatus
	return errors.As(err, &answered)
}

// writeError is the error of the writer, as opposed to those of the member.
type writeError struct{ err error }

func (w *writeError) Error() string { return w.err.Error() }

// options returns what is asked for: at first what the user wants, later what comes after the last line.
func (t *tail) options() *corev1.PodLogOptions {
	options := t.log.of(t.container)
	options.Timestamps = true
	all := t.joined || t.empty
	if all {
		options.TailLines = nil // all lines are new
	}
	waited := int64(0)
	if passed := t.clock.Since(t.began); passed >= firstPause { // it is not the first time
		waited = int64((passed + time.Second - 1) / time.Second)
	}
	if options.SinceSeconds != nil {
		*options.SinceSeconds += waited // the same moment, by the clock of the node
	}
	switch since := t.at.resume(); {
	case since != nil:
		options.TailLines, options.SinceSeconds, options.SinceTime = nil, nil, since
	case t.log.tailed && t.log.tail == 0 && !all && waited > 1:
		// Nothing was wanted of what was there.
		options.TailLines, options.SinceSeconds, options.SinceTime = nil, &waited, nil
	}
	return options
}

// isSame reports whether the pod, after its log was opened, is still the one that is meant: a log is opened by the name
// of its pod, which the next pod can have.
func (t *tail) isSame(ctx context.Context) (bool, error) {
	pod, err := t.member.core.CoreV1().Pods(t.pod.Namespace).Get(ctx, t.pod.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return true, nil // there is no next pod, or it cannot be seen
	case err != nil:
		return false, err
	}
	return pod.UID == t.pod.UID, nil
}

// left returns what was read of a line whose end has not come, nil for none. A log that goes on has the line again; that
// of the next container does not.
func (t *tail) left() []byte {
	stamp, _, found := bytes.Cut(t.rest, []byte(" "))
	if _, err := time.Parse(time.RFC3339Nano, string(stamp)); !found || err != nil {
		return nil
	}
	return bytes.Clone(t.rest)
}

// addLeft adds the last line of a container that has ended within it.
func (t *tail) addLeft(batch, left []byte) []byte {
	if len(left) == 0 {
		return batch
	}
	if line, fresh := t.take(left); fresh {
		return append(bytes.TrimRight(addLine(batch, t.prefix, line), "\n"), '\n')
	}
	return batch
}

// once opens the log and prints it to the end of the stream: nil for a clean end.
func (t *tail) once(ctx context.Context) error {
	stream, err := t.open(ctx, t.options())
	if err != nil {
		return err
	}
	defer stream.Close()
	if same, err := t.isSame(ctx); err != nil || !same {
		return err
	}
	return t.read(stream)
}

// read prints a stream to its end: nil for a clean end.
func (t *tail) read(stream io.Reader) error {
	left := t.left()
	reader, fresh := newLineReader(stream), false
	var batch []byte
	for {
		line, begins, err := reader.next()
		if err != nil {
			if failed := t.out.write(t.endOf(batch, left, line, begins, fresh)); failed != nil {
				return &writeError{failed}
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if begins {
			continued := bytes.HasPrefix(line, left)
			if line, fresh = t.take(line); fresh && !continued {
				batch = t.addLeft(batch, left)
			}
		}
		if fresh {
			batch, left = addLine(batch, t.prefix, line), nil
		}
		if len(batch) >= fullBatch || len(batch) > 0 && !reader.ready() {
			if err := t.out.write(batch); err != nil {
				return &writeError{err}
			}
			batch = batch[:0]
		}
	}
}

// endOf adds what is printed at the end of a stream, and keeps the line whose end has not come.
func (t *tail) endOf(batch, left, line []byte, begins, fresh bool) []byte {
	switch {
	case len(line) == 0:
		t.rest = left
	case !begins && fresh:
		t.rest = nil
		return addLine(batch, t.prefix, line)
	case bytes.HasPrefix(left, line):
		t.rest = left // it was cut earlier than before
	default:
		if !bytes.HasPrefix(line, left) {
			batch = t.addLeft(batch, left)
		}
		t.rest = append(t.rest[:0], line...)
	}
	return batch
}

// take returns the line as it is printed, and whether it was not printed yet.
func (t *tail) take(line []byte) ([]byte, bool) {
	stamp, text, found := bytes.Cut(line, []byte(" "))
	at, err := time.Parse(time.RFC3339Nano, string(stamp))
	if !found || err != nil {
		fresh := t.remark != string(line)
		t.remark = string(line)
		return line, fresh
	}
	if t.log.timestamps {
		text = line
	}
	return text, t.at.take(at)
}

// writeRest writes what was read of the last line of a log that has ended.
func (t *tail) writeRest() error {
	if len(t.rest) == 0 {
		return nil
	}
	line, fresh := t.take(t.rest)
	if !fresh {
		return nil
	}
	return t.out.write(addLine(nil, t.prefix, line))
}

// deleted is how the log of a pod ends that does not exist any more.
const deleted = "was deleted"

// state reports whether the container has ended for good, and how. A member that does not answer says no.
func (t *tail) state(ctx context.Context) (over bool, how string) {
	pod, err := t.member.core.CoreV1().Pods(t.pod.Namespace).Get(ctx, t.pod.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && pod.UID != t.pod.UID:
		return true, deleted
	case err != nil:
		return false, ""
	}
	return endOf(pod, t.container)
}

// endOf reports whether a container has ended and is not started again, and how. It is pure.
func endOf(pod *corev1.Pod, container string) (over bool, how string) {
	var ended *corev1.ContainerStateTerminated
	for _, list := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses,
		pod.Status.EphemeralContainerStatuses} {
		for i := range list {
			if list[i].Name == container {
				ended = list[i].State.Terminated
			}
		}
	}
	final := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	switch {
	case ended == nil && final:
		return true, "has ended: " + string(pod.Status.Phase)
	case ended == nil || !final && pod.DeletionTimestamp == nil && restarts(pod, container, ended):
		return false, ""
	}
	return true, fmt.Sprintf("has ended with exit code %d", ended.ExitCode)
}

// restarts reports whether the kubelet starts a container again that has ended.
func restarts(pod *corev1.Pod, container string, ended *corev1.ContainerStateTerminated) bool {
	policy := pod.Spec.RestartPolicy
	for i := range pod.Spec.EphemeralContainers {
		if pod.Spec.EphemeralContainers[i].Name == container {
			return false
		}
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.Name != container {
			continue
		}
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			return true
		}
		return ended.ExitCode != 0 && policy != corev1.RestartPolicyNever
	}
	switch policy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return ended.ExitCode != 0
	}
	return true
}
