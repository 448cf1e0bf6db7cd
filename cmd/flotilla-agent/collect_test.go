package main

import "testing"

func TestCollectionPercent(t *testing.T) {
	const mib = 1 << 20
	for live, want := range map[uint64]int{
		0: 100, 20 * mib: 100, 64 * mib: 100, 100 * mib: 64, 160 * mib: 40, 1000 * mib: 40,
	} {
		if got := collectionPercent(live); got != want {
			t.Errorf("%d MiB in use: %d %%, want %d %%", live/mib, got, want)
		}
	}
}
