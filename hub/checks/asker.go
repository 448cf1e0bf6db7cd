package checks

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/topology/waves"
)

const (
	// atOnce is how many questions are under way together: addresses that do not answer hold up other checks only.
	atOnce = 32
	// answerBuffer lets a burst of answers go on while the reader starts.
	answerBuffer = 1024
)

// Asker asks addresses as long as decisions want it, and holds what was answered last. Its methods are safe for
// concurrent use.
type Asker struct {
	clock  clock.PassiveClock
	after  func(time.Duration) <-chan time.Time
	fetch  func(context.Context, *topology.WaveHTTP) (unmet, says string)
	slots  chan struct{}
	events chan event.TypedGenericEvent[wire.Key]

	mu   sync.Mutex
	base context.Context // of Start; nil before it
	asks map[wire.Key]map[string]*question
}

// question is one that is asked again and again.
type question struct {
	http   *topology.WaveHTTP
	cancel context.CancelFunc
	answer *waves.Answer // nil before the first
}

// NewAsker returns an Asker that asks by HTTP. reachLocal lets it ask the hub's own machine and link.
func NewAsker(clk clock.PassiveClock, reachLocal bool) *Asker {
	return newAsker(clk, clock.RealClock{}.After, func(ctx context.Context, q *topology.WaveHTTP) (string, string) {
		found := fetch(ctx, q, reachLocal)
		return found.unmet, found.says
	})
}

func newAsker(
	clk clock.PassiveClock,
	after func(time.Duration) <-chan time.Time,
	fetch func(context.Context, *topology.WaveHTTP) (string, string),
) *Asker {
	return &Asker{
		clock: clk, after: after, fetch: fetch, slots: make(chan struct{}, atOnce),
		events: make(chan event.TypedGenericEvent[wire.Key], answerBuffer),
		asks:   map[wire.Key]map[string]*question{},
	}
}

// Start lets questions be asked until ctx ends.
func (a *Asker) Start(ctx context.Context) error {
	a.mu.Lock()
	a.base = ctx
	a.mu.Unlock()
	<-ctx.Done()
	return nil
}

// NeedLeaderElection lets it start before the controllers that have something asked.
func (a *Asker) NeedLeaderElection() bool { return false }

// Source wakes a controller for each workload that an answer is for.
func (a *Asker) Source() source.TypedSource[wire.Key] {
	return source.TypedChannel(
		a.events,
		handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, key wire.Key) []wire.Key { return []wire.Key{key} }),
	)
}

// Answers returns the last answers for a workload, by the ids of the questions.
func (a *Asker) Answers(key wire.Key) map[string]waves.Answer {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	answers := map[string]waves.Answer{}
	for id, q := range a.asks[key] {
		if q.answer != nil {
			answers[id] = *q.answer
		}
	}
	return answers
}

// Want has these questions asked for a workload, and no others any more. A question that changed is another one.
func (a *Asker) Want(key wire.Key, asks []waves.Ask) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.base == nil || len(asks) == 0 && len(a.asks[key]) == 0 {
		return
	}
	before, now := a.asks[key], map[string]*question{}
	for _, ask := range asks {
		if q := before[ask.ID]; q != nil && equality.Semantic.DeepEqual(q.http, ask.HTTP) {
			now[ask.ID] = q
			delete(before, ask.ID)
			continue
		}
		ctx, cancel := context.WithCancel(a.base)
		q := &question{http: ask.HTTP.DeepCopy(), cancel: cancel}
		now[ask.ID] = q
		go a.run(ctx, key, q)
	}
	for _, q := range before {
		q.cancel()
	}
	a.asks[key] = now
	if len(now) == 0 {
		delete(a.asks, key)
	}
}

// run asks one question until ctx ends.
func (a *Asker) run(ctx context.Context, key wire.Key, q *question) {
	interval := durationOf(q.http.Interval, defaultInterval)
	for {
		select {
		case a.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		unmet, says := a.fetch(ctx, q.http)
		<-a.slots
		if ctx.Err() != nil {
			return // nobody wants it any more
		}
		a.took(q, unmet, says)
		next := a.after(interval)
		select {
		case a.events <- event.TypedGenericEvent[wire.Key]{Object: key}:
		case <-ctx.Done():
			return
		}
		select {
		case <-next:
		case <-ctx.Done():
			return
		}
	}
}

// took remembers an answer.
func (a *Asker) took(q *question, unmet, says string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	answer := &waves.Answer{At: a.clock.Now(), Unmet: unmet, Says: says}
	if unmet != "" {
		answer.Failures = 1
		if q.answer != nil {
			answer.Failures += q.answer.Failures
		}
	}
	q.answer = answer
}
