package dashboard

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// board holds the newest fleet. Streams read it; none keeps another one up.
type board struct {
	mu      sync.Mutex
	fleet   *Fleet
	changed chan struct{}
}

func newBoard(hub string) *board {
	return &board{fleet: &Fleet{Hub: hub, Loading: true}, changed: make(chan struct{})}
}

// publish makes a fleet the newest one.
func (b *board) publish(f *Fleet) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fleet = f
	close(b.changed)
	b.changed = make(chan struct{})
}

// newest returns the newest fleet, and a channel that is closed when there is a newer one.
func (b *board) newest() (*Fleet, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fleet, b.changed
}

// mostSent is how many views are remembered for streams that come back.
const mostSent = 64

// sent remembers the views that were sent last, by the ids of their events.
type sent struct {
	mu    sync.Mutex
	views map[string]sentView
	order []string
	next  int64
	epoch string
}

type sentView struct {
	query query
	parts parts
}

// add remembers a view and returns the id of its event.
func (s *sent) add(q query, view parts) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	id := fmt.Sprintf("%s-%d", s.epoch, s.next)
	s.views[id] = sentView{q, view}
	s.order = append(s.order, id)
	if len(s.order) > mostSent {
		delete(s.views, s.order[0])
		s.order = s.order[1:]
	}
	return id
}

// find returns the view that was sent with an id for the same query, nil if it is not remembered.
func (s *sent) find(id string, q query) parts {
	s.mu.Lock()
	defer s.mu.Unlock()
	if view, ok := s.views[id]; ok && view.query == q {
		return view.parts
	}
	return nil
}

// event is the data of an event: a snapshot has all parts in Set, a change those that differ from the view with the id
// Base.
type event struct {
	Base string                     `json:"base,omitempty"`
	Set  map[string]json.RawMessage `json:"set,omitempty"`
	Drop []string                   `json:"drop,omitempty"`
}

// differences returns what makes the view after of the view before; false if they are the same. It is pure.
func differences(before, after parts) (event, bool) {
	e := event{Set: map[string]json.RawMessage{}}
	for name, data := range after {
		if string(before[name]) != string(data) {
			e.Set[name] = data
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			e.Drop = append(e.Drop, name)
		}
	}
	return e, len(e.Set)+len(e.Drop) > 0
}

// pace is the timing of streams.
type pace struct {
	// settle is how long a change waits for others, heartbeat is the longest silence, and patience is how long a write may
	// take: a client that reads slower is cut off, and comes back for a snapshot.
	settle, heartbeat, patience time.Duration
}

// stream writes one view and its changes until the client or the server ends. It keeps the last view only, so a slow
// client costs no memory: it skips what it was too slow for.
type stream struct {
	out     io.Writer
	control *http.ResponseController
	// zip compresses what out gets; nil for a client that reads no gzip.
	zip   *gzip.Writer
	sent  *sent
	pace  pace
	query query
	// base and id are the view that the client has.
	base parts
	id   string
}

// run writes events. known is the id of the last event that the client has, empty for none.
func (s *stream) run(request *http.Request, b *board, known string) {
	if known != "" {
		s.base, s.id = s.sent.find(known, s.query), known
	}
	ctx := request.Context()
	heartbeat := time.NewTicker(s.pace.heartbeat)
	defer heartbeat.Stop()
	if s.write(": connected\n\n") != nil {
		return
	}
	for {
		fleet, changed := b.newest()
		if s.show(fleet) != nil {
			return
		}
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				return
			case <-heartbeat.C:
				if s.write(": heartbeat\n\n") != nil {
					return
				}
			case <-changed:
				waiting = false
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(s.pace.settle):
		}
	}
}

// show sends what the client lacks of a fleet.
func (s *stream) show(f *Fleet) error {
	view := viewOf(f, s.query)
	name, e := "snapshot", event{Set: view}
	if s.base != nil {
		changes, some := differences(s.base, view)
		if !some {
			return nil
		}
		name, e = "change", changes
		e.Base = s.id
	}
	data, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode an event: %w", err)
	}
	id := s.sent.add(s.query, view)
	if err := s.write(fmt.Sprintf("id: %s\nevent: %s\ndata: %s\n\n", id, name, data)); err != nil {
		return err
	}
	s.base, s.id = view, id
	return nil
}

// write writes a text at once. It errs if the client does not take it in time.
func (s *stream) write(text string) error {
	if err := s.control.SetWriteDeadline(time.Now().Add(s.pace.patience)); err != nil {
		return fmt.Errorf("set the deadline of a write: %w", err)
	}
	if _, err := s.out.Write([]byte(text)); err != nil {
		return fmt.Errorf("write an event: %w", err)
	}
	if s.zip != nil {
		if err := s.zip.Flush(); err != nil {
			return fmt.Errorf("write an event: %w", err)
		}
	}
	if err := s.control.Flush(); err != nil {
		return fmt.Errorf("write an event: %w", err)
	}
	return nil
}
