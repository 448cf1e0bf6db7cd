package pods

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// lastLines is how long logs have to write whole lines when the user ends the verb. A terminal that takes nothing more
// must not keep it.
const lastLines = time.Second

// followed follows many logs, a limited number at once.
type followed struct {
	log   *logOptions
	out   *lines
	notes *notes
	stop  context.CancelCauseFunc

	mu sync.Mutex
	// open is how many logs are followed now. known are those that are followed, wait or have ended, by their ids; the
	// ids of a pod are forgotten with the pod.
	open  int
	known map[string]bool
	// following are those that are followed now; one whose pod was forgotten meanwhile is true.
	following map[string]bool
	// waiting are the logs that are followed when others end.
	waiting []source
	// full: it was said that logs are left out.
	full bool
	// said are the sentences about members that refuse their logs.
	said  []string
	tails sync.WaitGroup
}

// sayOnce says a sentence that is the same for all pods of a member.
func (a *followed) sayOnce(sentence string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Contains(a.said, sentence) {
		a.said = append(a.said, sentence)
		a.notes.say("%s", sentence)
	}
}

// followAll follows the logs, and those of pods that appear later, until the context ends. A single pod's end ends it.
func (l *logOptions) followAll(ctx context.Context, f *fleet, t *target, sources []source, out io.Writer) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	all := &followed{log: l, out: &lines{out: out}, notes: f.notes, stop: stop, known: map[string]bool{},
		following: map[string]bool{}}
	for _, s := range sortedSources(sources) {
		all.add(ctx, s)
	}
	all.sayLeftOut(len(sources))
	if len(sources) == 0 {
		f.notes.say("There are no logs yet; they join when pods appear")
	}
	var watchers sync.WaitGroup
	if t.pod == "" {
		for _, r := range f.members {
			watchers.Go(func() { all.watch(ctx, r, t) })
		}
	}
	done := make(chan struct{})
	go func() {
		watchers.Wait()
		all.tails.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		select {
		case <-done:
		case <-l.clock.After(lastLines):
		}
	}
	var broken *writeError
	if errors.As(context.Cause(ctx), &broken) {
		return broken.err
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	if t.pod != "" && ctx.Err() == nil && len(all.said) > 0 {
		return t.nothing(nil)
	}
	return nil // the user has seen enough
}

// watch adds the logs of pods that appear in a member.
func (a *followed) watch(ctx context.Context, r *reached, t *target) {
	w := &watcher{listing: podListing(r, t), member: r, notes: a.notes, clock: a.log.clock}
	w.seen = func(object runtime.Object) {
		pod, ok := object.(*corev1.Pod)
		if !ok {
			return
		}
		some, err := a.log.sources(r, pod, t)
		if err != nil {
			return // it has no such container
		}
		for _, s := range some {
			s.joined = true // those that are known are not added again
			a.add(ctx, s)
		}
	}
	w.gone = func(object runtime.Object) {
		if pod, ok := object.(*corev1.Pod); ok {
			a.forget(r, pod)
		}
	}
	w.run(ctx)
}

// add follows a log, now or when there is room for it. One that is known is left alone.
func (a *followed) add(ctx context.Context, s source) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known[s.id()] {
		if a.following[s.id()] {
			a.following[s.id()] = false // its pod was seen again
		}
		return
	}
	a.known[s.id()] = true
	if a.open >= a.log.most {
		a.waiting = append(a.waiting, s)
		if s.joined && !a.full {
			a.full = true
			a.notes.say("More logs have appeared than --max-streams %d follows at once; they join when others end",
				a.log.most)
		}
		return
	}
	a.start(ctx, s)
}

// start follows a log. The lock is held.
func (a *followed) start(ctx context.Context, s source) {
	a.open++
	a.following[s.id()] = false
	a.tails.Go(func() {
		t := &tail{source: s, log: a.log, out: a.out, clock: a.log.clock}
		how, err := t.run(ctx)
		if err != nil {
			a.stop(&writeError{err})
			return
		}
		switch {
		case t.refused != nil:
			a.sayOnce(t.refused.Error())
		case how != "":
			a.notes.say("%s %s", s.title(), how)
		}
		a.next(ctx, s.id())
	})
}

// next follows a log that waits in place of one that has ended.
func (a *followed) next(ctx context.Context, ended string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open--
	if a.following[ended] {
		delete(a.known, ended)
	}
	delete(a.following, ended)
	if len(a.waiting) > 0 && ctx.Err() == nil {
		s := a.waiting[0]
		a.waiting = a.waiting[1:]
		a.start(ctx, s)
	}
}

// forget forgets the logs of a pod that does not exist any more. One that is followed ends by itself.
func (a *followed) forget(r *reached, pod *corev1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	kept := a.waiting[:0]
	for _, s := range a.waiting {
		if s.member.name != r.name || s.pod.UID != pod.UID {
			kept = append(kept, s)
		}
	}
	a.waiting = kept
	for _, name := range containersOf(pod) {
		s := source{member: r, pod: pod, container: name}
		if _, open := a.following[s.id()]; open {
			a.following[s.id()] = true // until its end, lest it be followed twice
			continue
		}
		delete(a.known, s.id())
	}
}

// sayLeftOut says how many logs are not followed yet.
func (a *followed) sayLeftOut(of int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := len(a.waiting); n > 0 {
		a.full = true
		a.notes.say("There are %d logs, and %d are left out, because --max-streams is %d: they join when others end. "+
			"Give --max-streams %d to follow all, or narrow with -C", of, n, a.log.most, of)
	}
}
