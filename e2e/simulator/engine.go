package simulator

import (
	"cmp"
	"container/heap"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"
)

// epoch is when every world begins.
var epoch = time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC)

// engine holds the time and what is to come.
type engine struct {
	seed  uint64
	queue timeline
	seq   int

	mu     sync.Mutex
	now    time.Time
	calls  []*call
	yields []chan struct{}

	telling bool
	story   strings.Builder
}

// call is a request of the controller that waits for its answer.
type call struct {
	process *Process
	label   string
	do      func(fault) error
	answer  chan error
	done    bool
}

// moment is something that happens at a time.
type moment struct {
	at  time.Time
	seq int
	do  func()
}

type timeline []moment

func (t timeline) Len() int { return len(t) }
func (t timeline) Less(i, j int) bool {
	if !t[i].at.Equal(t[j].at) {
		return t[i].at.Before(t[j].at)
	}
	return t[i].seq < t[j].seq
}
func (t timeline) Swap(i, j int) { t[i], t[j] = t[j], t[i] }

// Push is for package heap.
func (t *timeline) Push(x any) {
	if m, ok := x.(moment); ok {
		*t = append(*t, m)
	}
}

// Pop is for package heap.
func (t *timeline) Pop() any {
	last := (*t)[len(*t)-1]
	*t = (*t)[:len(*t)-1]
	return last
}

// Random returns a stream of random numbers of its own for a purpose, so that one purpose does not move another one's.
func (e *engine) Random(purpose string) *rand.Rand {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(purpose))
	return rand.New(rand.NewPCG(e.seed, sum.Sum64()))
}

// Now returns the time of the world.
func (e *engine) Now() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.now
}

// Elapsed returns how long the world has existed.
func (e *engine) Elapsed() time.Duration { return e.Now().Sub(epoch) }

// After lets something happen after d. Things of one moment happen in the order in which they were said.
func (e *engine) After(d time.Duration, do func()) {
	e.seq++
	heap.Push(&e.queue, moment{at: e.Now().Add(max(0, d)), seq: e.seq, do: do})
}

// Tell writes a line of the story, if one is told.
func (e *engine) Tell(format string, args ...any) {
	if e.telling {
		fmt.Fprintf(&e.story, "%8.3fs  %s\n", e.Elapsed().Seconds(), fmt.Sprintf(format, args...))
	}
}

// next lets the next thing happen. It tells whether there was one.
func (e *engine) next() bool {
	if len(e.queue) == 0 {
		return false
	}
	m, _ := heap.Pop(&e.queue).(moment)
	e.mu.Lock()
	e.now = m.at
	e.mu.Unlock()
	m.do()
	return true
}

// ask hands a request to the world and waits for the answer. Goroutines of the controller call it.
func (e *engine) ask(c *call) error {
	c.answer = make(chan error, 1)
	e.mu.Lock()
	e.calls = append(e.calls, c)
	e.mu.Unlock()
	return <-c.answer
}

// settle waits until every goroutine of the controller waits for the world, and returns their new requests in an order
// that does not depend on goroutines. Goroutines that asked for the time go on one by one: so what they take from
// shared state before their next request does not depend on goroutines either.
func (e *engine) settle() []*call {
	for {
		synctest.Wait()
		e.mu.Lock()
		if len(e.yields) > 0 {
			first := e.yields[0]
			e.yields = e.yields[1:]
			e.mu.Unlock()
			close(first)
			continue
		}
		calls := e.calls
		e.calls = nil
		e.mu.Unlock()
		slices.SortFunc(calls, func(a, b *call) int { return cmp.Compare(a.label, b.label) })
		return calls
	}
}

// Clock is the clock for the controller. Only goroutines of the controller may call Since.
type Clock struct{ engine *engine }

// Now returns the time of the world.
func (c Clock) Now() time.Time { return c.engine.Now() }

// Since returns how much time of the world has passed since t. The caller waits until all others wait.
func (c Clock) Since(t time.Time) time.Duration {
	turn := make(chan struct{})
	c.engine.mu.Lock()
	c.engine.yields = append(c.engine.yields, turn)
	c.engine.mu.Unlock()
	<-turn
	return c.engine.Now().Sub(t)
}
