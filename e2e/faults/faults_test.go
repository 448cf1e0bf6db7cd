package main

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

// TestMain is the child where the environment says so: the run starts its own program.
func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	if server := os.Getenv(envServer); server != "" {
		if err := runChild(context.Background(), server, os.Getenv(envBreak)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const (
	// limit is how long anything may take on a busy machine.
	limit = 3 * time.Minute
	// late is for how long such a machine may leave the controller standing.
	late = 10 * time.Second
)

// TestFaults plays one episode with the controller as it is, and shorter ones with controllers made wrong, which must
// be found out.
func TestFaults(t *testing.T) {
	for _, test := range []struct {
		broken       string
		length, late time.Duration
	}{{"", 20 * time.Second, late}, {breakDouble, 10 * time.Second, 0}} {
		t.Run("broken="+test.broken, func(t *testing.T) {
			cluster := fleet.ForTest(t, fleetConfig()).Members()[0]
			s, err := run(t.Context(), options{length: test.length, seed: 1, deadline: limit, broken: test.broken, most: 20,
				late: test.late}, cluster, t.Output())
			s.write(t.Output())
			if err != nil && test.broken == "" {
				t.Error(err)
			}
			if err := s.verdict(test.broken); err != nil {
				t.Error(err)
			}
			if s.disruptions == 0 || s.creations == 0 || s.writes == 0 {
				t.Error("nothing was checked")
			}
		})
	}
}
