package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flotilla-dev/flotilla/e2e/judge"
)

// TestACrashIsSeenOnceHoweverMuchIsSaidAfterIt holds that a crash belongs to the run in which it was, and that no run
// overlooks one since the program, started again, said more than any number of last lines.
func TestACrashIsSeenOnceHoweverMuchIsSaidAfterIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hub.log")
	l := logs{"hub": path, "not started": path + ".not"}
	write := func(text string) {
		file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = file.WriteString(text)
		}
		if err == nil {
			err = file.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write("begins\n")
	first := l.sizes()
	write("panic: no such thing\n" + strings.Repeat("goes on\n", 2000))
	if found := l.crashes(first); len(found) != 1 || found[0].Rule != judge.RuleCrash {
		t.Errorf("found %v, want the crash", found)
	}
	second := l.sizes()
	write("goes on\n")
	if found := l.crashes(second); len(found) != 0 {
		t.Errorf("the next run has the crash of the one before: %v", found)
	}
}
