package try

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/check"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/hub"
)

// healthy holds that the check finds nothing wrong in a try-out that is up.
func healthy(t *testing.T, dir string) {
	t.Helper()
	f, err := fleet.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	scheme, err := hub.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	found, err := check.Text(t.Context(), f.Hub().RESTConfig(), scheme)
	if err != nil || !strings.Contains(found, "\n0 errors, 0 warnings;") || !strings.Contains(found, "+ flotilla-hub: ") {
		t.Errorf("the check finds (%v):\n%s", err, found)
	}
}

// TestUpStatusDown goes the whole way of the try-out with the programs in .bin.
func TestUpStatusDown(t *testing.T) {
	bin, err := fleet.FindBinaries()
	if err != nil {
		t.Fatalf("this test needs a real control plane: %v", err)
	}
	dir := filepath.Join(t.TempDir(), "try")
	o := &options{dir: dir, bin: bin, programs: bin, timeout: 5 * time.Minute, output: "json", owned: true}
	t.Cleanup(func() {
		if err := fleet.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	call := func(verb func(*cobra.Command) error) (out, talk string, err error) {
		t.Helper()
		cmd, stdout, stderr := &cobra.Command{}, &strings.Builder{}, &strings.Builder{}
		cmd.SetContext(t.Context())
		cmd.SetOut(stdout)
		cmd.SetErr(stderr)
		err = verb(cmd)
		return stdout.String(), stderr.String(), err
	}
	tree := func(out string) *Tree {
		t.Helper()
		tree := &Tree{}
		if err := json.Unmarshal([]byte(out), tree); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		return tree
	}

	if _, _, err := call(o.status); err == nil || !strings.Contains(err.Error(), "try up") {
		t.Errorf("status before up: %v, want the command that starts it", err)
	}
	out, talk, err := call(o.up)
	if err != nil {
		t.Fatalf("up: %v\n%s", err, talk)
	}
	first := tree(out)
	if len(first.Members) != 3 || len(first.Workloads) != 2 {
		t.Fatalf("want three members and two workloads: %s", out)
	}
	for _, w := range first.Workloads {
		if p := w.Pods; p.Placed != p.Desired || p.Ready != p.Desired || p.Updated != p.Desired || p.Missing != 0 ||
			w.Waiting != "" || len(w.Images) != 1 {
			t.Errorf("%s is not as asked: %+v", w.Name, w)
		}
	}

	healthy(t, dir)

	out, talk, err = call(o.up)
	if err != nil {
		t.Fatalf("up again: %v\n%s", err, talk)
	}
	if again := tree(out); len(again.Workloads) != 2 || !strings.Contains(talk, "kept as it is") {
		t.Errorf("up again changed something: %s", talk)
	}
	if out, _, err = call(o.status); err != nil || len(tree(out).Workloads) != 2 {
		t.Errorf("status: %v", err)
	}
	if _, _, err := call(o.down); err != nil {
		t.Errorf("down: %v", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("down left its folder")
	}
	if _, _, err := call(o.down); err != nil {
		t.Errorf("down a second time: %v", err)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	empty := t.TempDir()
	for _, test := range []struct {
		name string
		o    options
		want string
	}{
		{"no programs of ours", options{programs: empty, output: "text"}, "make programs"},
		{"an unknown output", options{output: "yaml"}, "text or json"},
		{"no folder of samples", options{samples: filepath.Join(empty, "no"), output: "text"}, "--samples"},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.o.dir, test.o.timeout = filepath.Join(empty, "try"), time.Minute
			if test.o.samples != "" {
				test.o.programs = t.TempDir()
				for _, name := range []string{fleet.HubProgram, fleet.AgentProgram} {
					if err := os.WriteFile(filepath.Join(test.o.programs, name), nil, 0o700); err != nil {
						t.Fatal(err)
					}
				}
			}
			cmd := &cobra.Command{}
			cmd.SetContext(t.Context())
			cmd.SetErr(&strings.Builder{})
			if err := test.o.up(cmd); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want it to name %q", err, test.want)
			}
		})
	}
}
