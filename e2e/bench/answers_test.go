package main

import (
	"strings"
	"testing"
)

func TestAnswers(t *testing.T) {
	read := func(text string) answers {
		out := answers{buckets: map[float64]float64{}}
		for line := range strings.SplitSeq(text, "\n") {
			if err := out.add(line); err != nil {
				t.Fatal(err)
			}
		}
		return out
	}
	before := read("# HELP x\nflotilla_pod_admission_seconds_bucket{le=\"0.001\"} 10\n" +
		"flotilla_pod_admission_seconds_bucket{le=\"+Inf\"} 20\nflotilla_pod_admission_seconds_count 20")
	after := read("flotilla_pod_admission_seconds_bucket{le=\"0.001\"} 109\n" +
		"flotilla_pod_admission_seconds_bucket{le=\"0.01\"} 120\nflotilla_pod_admission_seconds_bucket{le=\"+Inf\"} 120\n" +
		"flotilla_pod_admission_seconds_sum 0.5\nflotilla_pod_admission_seconds_count 120\n" +
		"flotilla_pod_admission_cache_waits_total 3\nother 5")
	got := after.since(before)
	if got.count != 100 || got.waits != 3 || got.sum != 0.5 || got.quantile(0.99) != 0.001 || got.quantile(0.995) != 0.01 {
		t.Errorf("%+v, P99 %v", got, got.quantile(0.99))
	}
}

// TestSidesTakeTurns: each side has as many creations, each one of its rounds, and none is always first.
func TestSidesTakeTurns(t *testing.T) {
	seen, first := map[side]map[int]bool{}, map[side]int{}
	rounds := 8 * len(sides())
	for i := range rounds * len(sides()) {
		s, round := sideOf(i)
		if seen[s] == nil {
			seen[s] = map[int]bool{}
		}
		seen[s][round] = true
		if i%len(sides()) == 0 {
			first[s]++
		}
	}
	for _, s := range sides() {
		if len(seen[s]) != rounds || first[s] != rounds/len(sides()) {
			t.Errorf("%s: %d rounds, first in %d", s, len(seen[s]), first[s])
		}
	}
}
