//go:build e2e

package walk

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/e2e/page"
)

const (
	canaryPage = "docs/tasks/canary-over-clusters.md"
	// most is how many commands a newcomer types at most from nothing to the end of the canary.
	most = 12
	// patience is how long one command may take; make up builds our programs.
	patience = 6 * time.Minute
)

// walker is a person with a shell in a fresh copy of the repository.
type walker struct {
	*testing.T
	folder string
	env    []string
	typed  int
}

// TestWalk reaches the canary by the commands of the documents alone, and finishes it. The rest of the page's commands
// for this workload work too. Then each of five mistakes is answered with what to do.
func TestWalk(t *testing.T) {
	w := newWalker(t)
	readme, canary := w.console("README.md"), w.console(canaryPage)
	w.follow(readme, "Try it")
	w.follow(canary, "", "With a CloneSet")
	w.expectCanary(3)
	w.follow(canary, "Continue, and finish")
	if w.typed > most {
		t.Errorf("%d commands from nothing to the end of the canary, want at most %d", w.typed, most)
	}
	if all := slices.Concat(sections(readme), sections(canary)); !slices.Contains(all, "Try it") ||
		!slices.Contains(all, "With a CloneSet") || !slices.Contains(all, "Continue, and finish") {
		t.Errorf("the documents have commands under %q: correct the names of sections in this test", all)
	}
	w.follow(canary, "With `flotilla rollout`", "History")

	for _, m := range mistakes() {
		t.Run(m.name, func(t *testing.T) {
			(&walker{T: t, folder: w.folder, env: w.env}).make(m)
		})
	}
}

// sections returns the headings that have commands.
func sections(lines []page.Line) []string {
	var all []string
	for _, line := range lines {
		all = append(all, line.Heading)
	}
	return slices.Compact(all)
}

// newWalker copies the repository without what was built, but with the test control plane, which takes minutes to
// build. What the person started ends with the test.
func newWalker(t *testing.T) *walker {
	t.Helper()
	bin, err := fleet.FindBinaries()
	if err != nil {
		t.Fatalf("%v: run make walk", err)
	}
	w := &walker{T: t, folder: filepath.Join(t.TempDir(), "flotilla")}
	if err := copyTree(filepath.Join("..", ".."), w.folder); err != nil {
		t.Fatal(err)
	}
	if err := linkTree(bin, filepath.Join(w.folder, ".bin")); err != nil {
		t.Fatal(err)
	}
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if !slices.Contains([]string{"KUBECONFIG", "FLOTILLA_BIN", "MAKEFLAGS", "MAKELEVEL", "MFLAGS"}, name) {
			w.env = append(w.env, variable)
		}
	}
	// The copy has no history to read the version from. With that of the programs which are built nothing is linked anew.
	if version := os.Getenv("FLOTILLA_VERSION"); version != "" {
		w.env = append(w.env, "MAKEFLAGS= -- VERSION="+version)
	}
	t.Cleanup(func() {
		// The test's own context has ended.
		if out, err := w.shell(context.WithoutCancel(t.Context()), "make down"); err != nil {
			t.Errorf("make down: %v\n%s", err, out)
		}
	})
	return w
}

// copyTree copies a folder without those whose names begin with a dot.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		switch {
		case entry.IsDir() && name != "." && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		case entry.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(target, filepath.Join(to, name))
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), text, info.Mode().Perm())
	})
}

// linkTree makes a folder with links to the programs of another one, and a copy of what says how they were built.
func linkTree(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, entry := range entries {
		if !entry.Type().IsRegular() {
			continue
		}
		if err := os.Symlink(filepath.Join(from, entry.Name()), filepath.Join(to, entry.Name())); err != nil {
			return err
		}
	}
	return os.CopyFS(filepath.Join(to, ".built"), os.DirFS(filepath.Join(from, ".built")))
}

func (w *walker) console(name string) []page.Line {
	w.Helper()
	lines, err := page.Console(filepath.Join("..", "..", filepath.FromSlash(name)))
	if err != nil {
		w.Fatal(err)
	}
	return lines
}

// follow runs the commands of sections of a page. None may fail.
func (w *walker) follow(lines []page.Line, headings ...string) {
	w.Helper()
	for _, line := range lines {
		if !slices.Contains(headings, line.Heading) {
			continue
		}
		w.typed++
		began := time.Now()
		out, err := w.shell(w.Context(), line.Command)
		if err != nil {
			w.Fatalf("$ %s\n%v\n%s", line.Command, err, out)
		}
		w.Logf("%5.1f s  $ %s", time.Since(began).Seconds(), line.Command)
	}
}

// shell runs a command. What it exports holds for those after it.
func (w *walker) shell(ctx context.Context, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	environment := filepath.Join(filepath.Dir(w.folder), "environment")
	cmd := exec.CommandContext(ctx, "bash", "-c", command+"\nstatus=$?; env -0 > \"$0\"; exit $status", environment)
	cmd.Dir, cmd.Env = w.folder, w.env
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return out.String(), err
	}
	if strings.HasPrefix(command, "export ") {
		text, err := os.ReadFile(environment)
		if err != nil {
			return out.String(), err
		}
		w.env = strings.Split(strings.TrimRight(string(text), "\x00"), "\x00")
	}
	return out.String(), nil
}

// expectCanary holds that so many pods run the new image over all members, and that more than one member has some.
func (w *walker) expectCanary(pods int) {
	w.Helper()
	const images = " -n shop get pods -l app=api -o jsonpath='{range .items[*]}{.spec.containers[0].image}{\"\\n\"}{end}'"
	updated, all, members := 0, 0, 0
	for _, member := range []string{"east", "west", "south"} {
		out, err := w.shell(w.Context(), "kubectl --kubeconfig .try/kubeconfigs/"+member+".yaml"+images)
		if err != nil {
			w.Fatalf("%v\n%s", err, out)
		}
		n := strings.Count(out, "httpd:2.4.64")
		updated, all = updated+n, all+strings.Count(out, "httpd:")
		if n > 0 {
			members++
		}
	}
	if updated != pods || all != 30 || members < 2 {
		w.Errorf("%d of %d pods run the new image, in %d members; want %d of 30", updated, all, members, pods)
	}
	cells, err := w.shell(w.Context(), "kubectl -n shop get wp cloneset-api -o "+
		"jsonpath='{range .spec.cells[*]}{.granted.updated}{\"\\n\"}{end}'")
	if sum := 0; err != nil {
		w.Error(err)
	} else {
		for _, field := range strings.Fields(cells) {
			n := 0
			if _, err := fmt.Sscan(field, &n); err != nil {
				w.Errorf("%q: %v", field, err)
			}
			sum += n
		}
		if sum != pods {
			w.Errorf("the cells are granted %q, want %d together", cells, pods)
		}
	}
}

// strangerPolicy names a cluster that does not exist.
const strangerPolicy = `apiVersion: topology.flotilla.dev/v1alpha1
kind: FederationPolicy
metadata: {name: typo, namespace: shop}
spec:
  workloads: [{kind: CloneSet, name: other}]
  clusters: {names: [eest]}
`

// mistake is what a newcomer does wrong, the command that shows what it led to, and what that must say.
type mistake struct {
	name, does, looks string
	wants             []string
	// undoes ends what the mistake left, "" for nothing.
	undoes string
}

func mistakes() []mistake {
	return []mistake{
		{name: "a namespace without the label",
			does: "kubectl create namespace lab; sed 's/namespace: shop/namespace: lab/' e2e/samples/4-api.yaml | " +
				"kubectl apply -f -",
			wants: []string{"no member gets this CloneSet: namespace lab has no label topology.flotilla.dev/federated=true",
				"kubectl label namespace lab topology.flotilla.dev/federated=true"},
			undoes: "kubectl delete namespace lab --wait=false"},
		{name: "an image that does not exist",
			does: "flotilla set image clone/api -n shop api=httpd:does-not-exist", looks: "flotilla tree clone/api -n shop",
			wants:  []string{"ImagePullBackOff: container api cannot pull image httpd:does-not-exist", "see pod api-"},
			undoes: "flotilla rollout undo clone/api -n shop"},
		{name: "a partition without its sign",
			does: `kubectl -n shop patch clone/api --type=merge -p ` +
				`'{"spec":{"updateStrategy":{"rollingUpdate":{"partition":"50"}}}}'`,
			wants: []string{"partition is 50: it must be an integer of 0 or more, without quotes, or a percentage from 0%"}},
		{name: "an unknown cluster in a policy",
			does:  "kubectl apply -f - <<'END'\n" + strangerPolicy + "END",
			looks: "flotilla check",
			wants: []string{"FederationPolicy shop/typo",
				"there is no member eest; correct the name, or let that member join"},
			undoes: "kubectl -n shop delete fp/typo"},
		{name: "the context of a member",
			does: "KUBECONFIG=.try/kubeconfigs/east.yaml:.try/kubeconfigs/hub.yaml flotilla tree",
			wants: []string{
				`context "east" reaches member east, not the hub; the hub is context "hub": add --context hub`}},
	}
}

// make makes a mistake, and waits until what is said of it is what must be.
func (w *walker) make(m mistake) {
	w.Helper()
	// The mistake itself may succeed or fail.
	said, _ := w.shell(w.Context(), m.does)
	for _, want := range m.wants {
		if m.looks == "" && !strings.Contains(said, want) {
			w.Errorf("$ %s\n%s\nit does not say %q", m.does, said, want)
		}
	}
	if m.looks != "" {
		fleet.Eventually(w, time.Minute, "$ "+m.looks, func(ctx context.Context) string {
			said, _ := w.shell(ctx, m.looks) // it fails where it finds something
			for _, want := range m.wants {
				if !strings.Contains(said, want) {
					return fmt.Sprintf("%s\nit does not say %q", said, want)
				}
			}
			return ""
		}, nil)
	}
	if m.undoes != "" {
		if out, err := w.shell(w.Context(), m.undoes); err != nil {
			w.Errorf("$ %s\n%v\n%s", m.undoes, err, out)
		}
	}
}
