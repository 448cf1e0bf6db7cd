package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// compiler stands for `go build -o DIR/ …` in the Makefile: it writes three programs in two parts, and between the
// parts it waits until the other make is there too.
const compiler = `#!/bin/sh
until [ "$1" = -o ]; do shift; done
out=$2
for p in flotilla flotilla-hub flotilla-agent; do printf 'first half,' > "$out/$p"; done
touch "$MEET/$$"
n=0
until [ "$(ls "$MEET" | wc -l)" -ge 2 ]; do n=$((n+1)); [ $n -lt 2400 ] || exit 1; sleep 0.05; done
for p in flotilla flotilla-hub flotilla-agent; do printf ' second half' >> "$out/$p"; done
`

// TestTwoMakesAtOnce holds that two makes that build the programs at the same time leave whole programs, and nothing
// else.
func TestTwoMakesAtOnce(t *testing.T) {
	bin, meet, stub := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "compiler")
	if err := os.WriteFile(stub, []byte(compiler), 0o700); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			command := exec.CommandContext(t.Context(), "make", "-C", filepath.Join("..", ".."), "programs", "BIN="+bin,
				"BUILD="+stub)
			command.Env = append(os.Environ(), "MEET="+meet)
			if out, err := command.CombinedOutput(); err != nil {
				t.Errorf("make programs: %v\n%s", err, out)
			}
		})
	}
	wg.Wait()
	entries, err := os.ReadDir(bin)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
		if text, _ := os.ReadFile(filepath.Join(bin, entry.Name())); string(text) != "first half, second half" {
			t.Errorf("%s holds %q", entry.Name(), text)
		}
	}
	if got := strings.Join(names, " "); got != "flotilla flotilla-agent flotilla-hub" {
		t.Errorf("in the folder are %s", got)
	}
}
