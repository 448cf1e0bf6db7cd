package main

import (
	"io"
	"os"
	"testing"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/flotilla-dev/flotilla/e2e/hostile/objects"
)

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// TestHostile is the quick part: make hostile has the million.
func TestHostile(t *testing.T) {
	if err := inProcess(t.Context(), options{seed: 1, count: 2000, workers: 2, mostHeapMiB: 512}, io.Discard); err != nil {
		t.Fatal(err)
	}
}

// TestMet holds that hostile objects come far: a world that refused all at the door would prove nothing.
func TestMet(t *testing.T) {
	generator, err := objects.New(3)
	if err != nil {
		t.Fatal(err)
	}
	w, err := newWorld(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const count = 500
	for range count {
		if err := w.meet(t.Context(), generator.Next()); err != nil {
			t.Fatal(err)
		}
	}
	if w.taken < count/4 {
		t.Errorf("%d of %d objects came as far as a decision", w.taken, count)
	}
}
