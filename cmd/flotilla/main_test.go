package main

import (
	"strings"
	"testing"
)

func TestExitCodes(t *testing.T) {
	nothing := t.TempDir()
	for _, test := range []struct {
		args string
		want int
	}{
		{"version", 0},
		{"try", 0},
		{"try down --dir " + nothing + "/none", 0},
		{"try status --dir " + nothing, exitFailed},
		{"try nope", exitUsage},
		{"nope", exitUsage},
		{"try up --nope", exitUsage},
		{"try stop", exitUsage},
		{"try down more", exitUsage},
	} {
		if got := run(t.Context(), strings.Fields(test.args)); got != test.want {
			t.Errorf("flotilla %s: exit code %d, want %d", test.args, got, test.want)
		}
	}
}
