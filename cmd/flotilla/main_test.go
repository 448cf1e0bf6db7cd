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
		{"--version", 0},
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

func TestVersion(t *testing.T) {
	var said []string
	for _, args := range []string{"version", "--version"} {
		command, out := newCommand(), &strings.Builder{}
		command.SetArgs([]string{args})
		command.SetOut(out)
		if err := command.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		said = append(said, out.String())
	}
	if said[0] != said[1] || !strings.HasPrefix(said[0], "v") || strings.Count(said[0], "\n") != 1 {
		t.Errorf("version says %q, --version %q", said[0], said[1])
	}
}
