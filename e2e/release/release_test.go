//go:build e2e

package release

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

// patience is how long one command may take.
const patience = 5 * time.Minute

// released returns the folder of the release.
func released(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("FLOTILLA_RELEASE")
	if _, err := os.Stat(filepath.Join(dir, "SHA256SUMS")); dir == "" || err != nil {
		t.Fatalf("there is no release in %q: run make release, then make release-test", dir)
	}
	return dir
}

// only returns the one file of the release that a pattern matches.
func only(t *testing.T, dir, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(files) != 1 {
		t.Fatalf("%s matches %q, want one file (%v)", pattern, files, err)
	}
	return files[0]
}

func sumOf(t *testing.T, file string) string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// TestFiles holds that the release has every file that docs/tasks/releases.md lists, for every program and platform,
// and that the checksums are those of all files.
func TestFiles(t *testing.T) {
	dir := released(t)
	images := []string{"flotilla-agent", "flotilla-capi", "flotilla-hub", "flotilla-node"}
	for _, program := range images {
		only(t, dir, program+"_v*_oci.tar")
	}
	for _, chart := range append([]string{"flotilla-crds"}, images...) {
		only(t, dir, chart+"-[0-9]*.tgz")
	}
	for _, arch := range []string{"amd64", "arm64"} {
		only(t, dir, "flotilla-programs_v*_linux_"+arch+".tar.gz")
		for _, system := range []string{"linux", "darwin"} {
			only(t, dir, "flotilla_v*_"+system+"_"+arch+".tar.gz")
			only(t, dir, "flotilla_v*_"+system+"_"+arch+".cdx.json")
		}
		for _, program := range images {
			only(t, dir, program+"_v*_linux_"+arch+".cdx.json")
		}
	}
	sums, err := os.Open(filepath.Join(dir, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	defer sums.Close()
	listed := []string{"SHA256SUMS"}
	for lines := bufio.NewScanner(sums); lines.Scan(); {
		sum, name, _ := strings.Cut(lines.Text(), "  ")
		listed = append(listed, name)
		if now := sumOf(t, filepath.Join(dir, name)); now != sum {
			t.Errorf("SHA256SUMS has %s for %s, it has %s", sum, name, now)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if !slices.Contains(listed, entry.Name()) {
			t.Errorf("SHA256SUMS does not have %s", entry.Name())
		}
	}
}

// TestImages holds that each image is there for both architectures.
func TestImages(t *testing.T) {
	dir := released(t)
	files, err := filepath.Glob(filepath.Join(dir, "*_oci.tar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		blobs := map[string][]byte{}
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		const largest = 1 << 20 // manifests and indexes are smaller; layers are not read
		each(t, f, func(h *tar.Header, content io.Reader) {
			if h.Typeflag != tar.TypeReg || h.Size > largest {
				return
			}
			text, err := io.ReadAll(content)
			if err != nil {
				t.Fatal(err)
			}
			blobs[path.Base(path.Clean(h.Name))] = text
		})
		f.Close()
		got := architectures(t, blobs, blobs["index.json"])
		if slices.Sort(got); !slices.Equal(got, []string{"linux/amd64", "linux/arm64"}) {
			t.Errorf("%s is for %q", filepath.Base(file), got)
		}
	}
}

// architectures returns the platforms of an index of OCI, also of the indexes in it.
func architectures(t *testing.T, blobs map[string][]byte, text []byte) []string {
	t.Helper()
	var index struct {
		Manifests []struct {
			Digest   string
			Platform *struct{ OS, Architecture string }
		}
	}
	if err := json.Unmarshal(text, &index); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	var all []string
	for _, m := range index.Manifests {
		if m.Platform != nil {
			all = append(all, m.Platform.OS+"/"+m.Platform.Architecture)
			continue
		}
		all = append(all, architectures(t, blobs, blobs[strings.TrimPrefix(m.Digest, "sha256:")])...)
	}
	return all
}

// TestKrew holds what krew asks of a manifest: a version, each platform once, and the archive's checksum and files.
func TestKrew(t *testing.T) {
	dir := released(t)
	text, err := os.ReadFile(filepath.Join(dir, "flotilla.krew.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var m struct {
		APIVersion, Kind string
		Metadata         struct{ Name string }
		Spec             struct {
			Version, ShortDescription string
			Platforms                 []struct {
				Selector         struct{ MatchLabels struct{ OS, Arch string } }
				URI, SHA256, Bin string
				Files            []struct{ From, To string }
			}
		}
	}
	if err := yaml.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	if m.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || m.Kind != "Plugin" ||
		m.Metadata.Name != "flotilla" || m.Spec.ShortDescription == "" ||
		!regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`).MatchString(m.Spec.Version) {
		t.Errorf("krew does not take this:\n%s", text)
	}
	var platforms []string
	for _, p := range m.Spec.Platforms {
		platforms = append(platforms, p.Selector.MatchLabels.OS+"/"+p.Selector.MatchLabels.Arch)
		archive := filepath.Join(dir, path.Base(p.URI))
		if sum := sumOf(t, archive); sum != p.SHA256 {
			t.Errorf("%s has the sum %s, its manifest has %s", p.URI, sum, p.SHA256)
		}
		names := namesOf(t, archive)
		for _, file := range p.Files {
			if !slices.Contains(names, file.From) {
				t.Errorf("%s has %q, and no %s", p.URI, names, file.From)
			}
		}
		if !slices.Contains(names, p.Bin) {
			t.Errorf("%s has %q, and no program %s", p.URI, names, p.Bin)
		}
	}
	if slices.Sort(platforms); !slices.Equal(platforms,
		[]string{"darwin/amd64", "darwin/arm64", "linux/amd64", "linux/arm64"}) {
		t.Errorf("the manifest is for %q", platforms)
	}
}

// each visits the entries of a tar file.
func each(t *testing.T, from io.Reader, visit func(*tar.Header, io.Reader)) {
	t.Helper()
	for archive := tar.NewReader(from); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		visit(h, archive)
	}
}

// eachOf visits the entries of a tar.gz file.
func eachOf(t *testing.T, file string, visit func(*tar.Header, io.Reader)) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	raw, err := gzip.NewReader(f)
	if err != nil {
		t.Fatalf("%s: %v", filepath.Base(file), err)
	}
	each(t, raw, visit)
}

func namesOf(t *testing.T, file string) []string {
	t.Helper()
	var names []string
	eachOf(t, file, func(h *tar.Header, _ io.Reader) { names = append(names, h.Name) })
	return names
}

// unpack writes the files of an archive into a new folder.
func unpack(t *testing.T, file, to string) {
	t.Helper()
	eachOf(t, file, func(h *tar.Header, content io.Reader) {
		name := filepath.Join(to, filepath.FromSlash(h.Name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeSymlink {
			if err := os.Symlink(h.Linkname, name); err != nil {
				t.Fatal(err)
			}
			return
		}
		out, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_EXCL, h.FileInfo().Mode().Perm())
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(out, content)
		if err := errors.Join(err, out.Close()); err != nil {
			t.Fatal(err)
		}
	})
}

// machine is a person on a machine without Go, with the archives of the release.
type machine struct {
	*testing.T
	folder string
	env    []string
}

// newMachine unpacks the archives for this machine's architecture as docs/tasks/releases.md says.
func newMachine(t *testing.T) *machine {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the try-out needs Linux")
	}
	dir, m := released(t), &machine{T: t, folder: t.TempDir()}
	platform := "_" + runtime.GOOS + "_" + runtime.GOARCH + ".tar.gz"
	unpack(t, only(t, dir, "flotilla_v*"+platform), m.folder)
	unpack(t, only(t, dir, "flotilla-programs_v*"+platform), filepath.Join(m.folder, "programs"))
	bin, err := fleet.FindBinaries()
	if err != nil {
		t.Fatalf("%v: run make release-test", err)
	}
	control, err := filepath.Abs(bin)
	if err != nil {
		t.Fatal(err)
	}
	tools, home := filepath.Join(m.folder, "tools"), filepath.Join(m.folder, "home")
	for _, name := range []string{tools, home} {
		if err := os.Mkdir(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok",
		"kwokctl"} {
		if err := os.Symlink(filepath.Join(control, name), filepath.Join(tools, name)); err != nil {
			t.Fatal(err)
		}
	}
	m.env = []string{"PATH=" + tools, "HOME=" + home}
	return m
}

// run runs a program of the folder, and returns what it prints.
func (m *machine) run(ctx context.Context, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(m.folder, name), args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = m.folder, m.env, time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

func (m *machine) must(name string, args ...string) string {
	m.Helper()
	began := time.Now()
	out, err := m.run(m.Context(), name, args...)
	if err != nil {
		m.Fatalf("$ %s %s\n%v\n%s", name, strings.Join(args, " "), err, out)
	}
	m.Logf("%5.1f s  $ %s %s", time.Since(began).Seconds(), name, strings.Join(args, " "))
	return out
}

// TestTryOut holds that the archives alone, with a control plane in the PATH, give a try-out with all pods, and that
// nothing of it is left at its end.
func TestTryOut(t *testing.T) {
	m := newMachine(t)
	t.Cleanup(func() {
		// The test's own context has ended.
		if out, err := m.run(context.WithoutCancel(t.Context()), "flotilla", "try", "down"); err != nil {
			t.Errorf("try down: %v\n%s", err, out)
		}
	})
	up := m.must("flotilla", "try", "up", "--programs", "programs")
	kubeconfig := regexp.MustCompile(`export (KUBECONFIG=\S+)`).FindStringSubmatch(up)
	if kubeconfig == nil {
		t.Fatalf("try up does not say where its kubeconfig is:\n%s", up)
	}
	m.env = append(m.env, kubeconfig[1])
	// Also by the name that kubectl looks for.
	for _, program := range []string{"flotilla", "kubectl-flotilla"} {
		tree := m.must(program, "tree")
		for _, pattern := range []string{`CloneSet shop/api +9 +9 +9 +9 `, `UnitedDeployment shop/web +12 +12 +12 +12 `} {
			if !regexp.MustCompile(pattern).MatchString(tree) {
				t.Errorf("the tree has nothing like %q:\n%s", pattern, tree)
			}
		}
	}
	if said := m.must("flotilla", "check"); !strings.Contains(said, "0 errors, 0 warnings") {
		t.Errorf("the check finds:\n%s", said)
	}
	m.must("flotilla", "try", "down")
	left, err := filepath.Glob(filepath.Join(m.folder, "home", ".cache", "flotilla", "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("it left %q (%v)", left, err)
	}
}

// TestCompletions holds that a shell reads the completion script in the archive, and completes flotilla with it.
func TestCompletions(t *testing.T) {
	m := newMachine(t)
	scripts := map[string]string{
		"bash": "source completions/flotilla.bash && complete -p flotilla",
		"zsh":  "autoload -U compinit && compinit -u && source completions/flotilla.zsh && echo $_comps[flotilla]",
		"fish": "source completions/flotilla.fish; complete -C 'flotilla roll'",
	}
	for shell, script := range scripts {
		t.Run(shell, func(t *testing.T) {
			program, err := exec.LookPath(shell)
			if err != nil {
				text, err := os.ReadFile(filepath.Join(m.folder, "completions", "flotilla."+shell))
				if err != nil || !strings.Contains(string(text), "flotilla") {
					t.Errorf("no script for a shell that is not here: %v", err)
				}
				return
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, program, "-c", script)
			cmd.Dir, cmd.Env = m.folder, append(os.Environ(), "PATH="+m.folder+":"+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "flotilla") && !strings.Contains(string(out), "rollout") {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	if text, err := os.ReadFile(filepath.Join(m.folder, "completions", "flotilla.powershell")); err != nil ||
		!bytes.Contains(text, []byte("Register-ArgumentCompleter")) {
		t.Errorf("the script for PowerShell registers nothing (%v)", err)
	}
}
