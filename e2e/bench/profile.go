package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// profileSeconds is how long a CPU profile runs: about as long as the shorter phases of 500 pods on two cores.
const profileSeconds = 4

// profile starts a CPU profile of a cluster's API server, if a folder for profiles was given. The returned function
// waits for it and stores it under the phase's name.
func (b *bench) profile(ctx context.Context, c *connection, phase string) (store func() error) {
	if b.profiles == "" {
		return func() error { return nil }
	}
	type answer struct {
		data []byte
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		data, err := c.core.Discovery().RESTClient().Get().AbsPath("/debug/pprof/profile").
			Param("seconds", fmt.Sprint(profileSeconds)).DoRaw(ctx)
		answers <- answer{data, err}
	}()
	return func() error {
		got := <-answers
		if got.err != nil {
			return fmt.Errorf("profile the API server of %s: %w", c.cluster.Name, got.err)
		}
		name := strings.NewReplacer(" ", "-", ",", "", "/", "-", "×", "x").Replace(phase) + ".pprof"
		if err := os.MkdirAll(b.profiles, 0o755); err != nil {
			return fmt.Errorf("store profile: %w", err)
		}
		return os.WriteFile(filepath.Join(b.profiles, name), got.data, 0o644)
	}
}
