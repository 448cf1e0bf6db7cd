package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/e2e/harness"
	"github.com/flotilla-dev/flotilla/e2e/judge"
)

// A machine under load stands still now and then, and so do single programs on it. That is measured in three ways, and
// never guessed: ticks of this process, answers of every program and API server, and the times that API servers wrote
// into what they told.
const (
	tick = 100 * time.Millisecond
	// noticed is the shortest delay that counts: what is shorter is in every time of the checker anyway.
	noticed = 200 * time.Millisecond
	// asking is the time between two questions to a program, waiting how long one waits for the answer.
	asking, waiting = 250 * time.Millisecond, 5 * time.Second
)

// gap returns the stall between two ticks, if there was one.
func gap(last, now time.Time) (judge.Stall, bool) {
	due := last.Add(tick)
	return judge.Stall{From: due, To: now, Machine: true}, now.Sub(due) > noticed
}

// measureStalls measures stalls of this process until ctx ends.
func (r *recorder) measureStalls(ctx context.Context) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := time.Now() // and not what the ticker says: it is sent before this process gets to run
		if s, ok := gap(last, now); ok {
			r.note(judge.Entry{Stall: &s, Note: "the machine stood still"})
		}
		last = now
	}
}

// heartbeat is something that answers on HTTP.
type heartbeat struct {
	cluster, what, url string
	client             *http.Client
}

// heartbeats returns those of every program and API server.
func heartbeats(h *harness.Harness) ([]heartbeat, error) {
	var out []heartbeat
	for _, c := range h.Fleet.Clusters() {
		config := c.RESTConfig()
		config.Timeout = waiting
		answers, err := rest.HTTPClientFor(config)
		if err != nil {
			return nil, fmt.Errorf("connect to %s: %w", c.Name, err)
		}
		out = append(out, heartbeat{c.Name, "the API server", config.Host + "/livez/ping", answers})
	}
	plain := &http.Client{Timeout: waiting}
	for _, name := range h.Fleet.Programs() {
		url, err := h.Fleet.HealthURL(name)
		if err != nil {
			return nil, err
		}
		out = append(out, heartbeat{"", name, url + "/healthz", plain})
	}
	return out, nil
}

// ask asks again and again until ctx ends, and notes answers that come late. What does not answer at all was ended on
// purpose.
func (r *recorder) ask(ctx context.Context, p heartbeat) {
	for pause(ctx, asking) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, http.NoBody)
		if err != nil {
			return // no address
		}
		sent := time.Now()
		response, err := p.client.Do(request)
		now := time.Now()
		var late net.Error
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && (!errors.As(err, &late) || !late.Timeout()):
			continue
		case err == nil:
			_, _ = io.Copy(io.Discard, response.Body) // the connection is used again
			response.Body.Close()
		}
		if now.Sub(sent) > noticed {
			r.note(judge.Entry{Cluster: p.cluster, Stall: &judge.Stall{From: sent, To: now}, Note: p.what + " did not answer"})
		}
	}
}

// lateness returns the time from when an API server wrote a version of an object until this process was told; false
// where it does not say when. Its times are in seconds.
func lateness(before, after client.Object, now time.Time) (judge.Stall, bool) {
	wrote := written(after)
	if before != nil && !wrote.After(written(before)) {
		return judge.Stall{}, false // the change left no time
	}
	latest := wrote.Add(time.Second)
	return judge.Stall{From: latest, To: now}, now.Sub(latest) > noticed
}

// written returns the newest of the times that an API server notes in an object.
func written(object client.Object) time.Time {
	at := object.GetCreationTimestamp().Time
	for _, m := range object.GetManagedFields() {
		if m.Time != nil {
			at = judge.Later(at, m.Time.Time)
		}
	}
	return at
}
