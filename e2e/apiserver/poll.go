package apiserver

import (
	"testing"
	"time"
)

// pollInterval is short beside what a controller takes, and long beside a read from an API server.
const pollInterval = 20 * time.Millisecond

// Eventually calls check until it returns "". It fails the test after limit, with what check returned last.
func Eventually(t testing.TB, limit time.Duration, what string, check func() string) {
	t.Helper()
	deadline := time.Now().Add(limit)
	last := ""
	for time.Now().Before(deadline) {
		if last = check(); last == "" {
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(pollInterval):
		}
	}
	t.Fatalf("%s: %s", what, last)
}
