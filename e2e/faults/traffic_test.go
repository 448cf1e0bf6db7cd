package main

import (
	"testing"
	"time"
)

var began = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)

func TestDeliveries(t *testing.T) {
	at := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }
	d := &deliveries{}
	d.add(10, at(1))
	d.add(9, at(2)) // a list from a cache that is behind
	d.add(20, at(3))
	d.reset(at(5))
	d.add(30, at(7))
	for _, test := range []struct {
		version uint64
		by      int
		want    bool
	}{{10, 0, false}, {10, 1, true}, {20, 2, false}, {20, 4, true}, {20, 5, false}, {20, 6, false}, {20, 7, true},
		{31, 9, false}} {
		if got := d.informed(test.version, at(test.by)); got != test.want {
			t.Errorf("informed of %d after %d s: %t, want %t", test.version, test.by, got, test.want)
		}
	}
}

func TestAsks(t *testing.T) {
	at := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }
	a := newAsks()
	a.add("p", at(1), false) // refused
	a.add("p", at(5), true)
	a.add("p", at(6), true)
	a.add("p", at(7), false)
	for _, test := range []struct {
		pod        string
		done, want int
	}{{"p", 0, 0}, {"p", 2, 1}, {"p", 7, 5}, {"p", 9, 5}, {"q", 9, 9}} {
		if got := a.first(test.pod, at(test.done)); !got.Equal(at(test.want)) {
			t.Errorf("%s carried out after %d s was asked for at %s, want after %d s", test.pod, test.done, got, test.want)
		}
	}
}
