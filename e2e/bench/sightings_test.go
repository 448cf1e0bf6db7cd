package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestSightingsKeepTheFirstTime(t *testing.T) {
	s := newSightings()
	east, west := sight{"east", "bench", "web", sawObject}, sight{"west", "bench", "web", sawObject}
	s.mark(east)
	first, err := s.await(t.Context(), []sight{east})
	if err != nil {
		t.Fatal(err)
	}
	go s.mark(east, west)
	both, err := s.await(t.Context(), []sight{west, east})
	if err != nil {
		t.Fatal(err)
	}
	if !both[1].Equal(first[0]) {
		t.Errorf("east was seen at %v, and later at %v", first[0], both[1])
	}
	if both[0].Before(first[0]) {
		t.Errorf("west at %v was seen after east at %v", both[0], first[0])
	}
}

func TestSightingsThatDoNotCome(t *testing.T) {
	s := newSightings()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wanted := []sight{{"east", "bench", "web", sawGone}}
	if _, err := s.await(ctx, wanted); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want the context's", err)
	}
	if text := s.missing(wanted); !strings.Contains(text, "gone of bench/web in east") {
		t.Errorf("%q does not say what is missing", text)
	}
}

func TestBoundNamesPhaseAndWhatWasSeen(t *testing.T) {
	b := &bench{options: options{deadline: time.Millisecond}}
	ctx, cancel, explain := b.bound(t.Context(), "scale-out")
	defer cancel()
	<-ctx.Done()
	err := explain(ctx.Err(), func() string { return "ready 3 of 5" })
	if err == nil || !strings.Contains(err.Error(), "scale-out: stuck for 1ms; seen last: ready 3 of 5") {
		t.Errorf("error %v does not tell phase, time and what was seen", err)
	}
}
