package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// built returns a folder with this test as the program, which has what Go writes about its modules.
func built(t *testing.T, names ...string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range names {
		write(t, filepath.Join(dir, name), text)
	}
	return dir
}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// release writes a release of two platforms, and returns its folder and what was printed.
func release(t *testing.T, folder string) (string, string) {
	t.Helper()
	completions, license := t.TempDir(), filepath.Join(t.TempDir(), "LICENSE")
	write(t, filepath.Join(completions, "flotilla.bash"), []byte("complete"))
	write(t, license, []byte("licence"))
	o := options{out: t.TempDir(), version: "v1.2.3", url: "https://example.org/v1.2.3/", license: license,
		completions: completions}
	write(t, filepath.Join(o.out, "flotilla-hub-1.2.3.tgz"), []byte("chart"))
	var out bytes.Buffer
	if err := run(&out, o, []string{"linux-amd64=" + folder, "darwin-arm64=" + folder}); err != nil {
		t.Fatal(err)
	}
	return o.out, out.String()
}

func TestRelease(t *testing.T) {
	folder := built(t, "flotilla", "flotilla-hub")
	dir, printed := release(t, folder)
	var names []string
	for line := range strings.Lines(printed) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		names = append(names, name)
		if now, err := checksum(filepath.Join(dir, name)); err != nil || now != sum {
			t.Errorf("%s: %s, %v", name, now, err)
		}
	}
	want := []string{
		"flotilla-hub-1.2.3.tgz",
		"flotilla-hub_v1.2.3_darwin_arm64.cdx.json", "flotilla-hub_v1.2.3_linux_amd64.cdx.json",
		"flotilla-programs_v1.2.3_darwin_arm64.tar.gz", "flotilla-programs_v1.2.3_linux_amd64.tar.gz",
		"flotilla.krew.yaml",
		"flotilla_v1.2.3_darwin_arm64.cdx.json", "flotilla_v1.2.3_darwin_arm64.tar.gz",
		"flotilla_v1.2.3_linux_amd64.cdx.json", "flotilla_v1.2.3_linux_amd64.tar.gz",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	if _, again := release(t, folder); again != printed {
		t.Errorf("the same programs give other files:\n%s\n%s", printed, again)
	}
}

func TestArchive(t *testing.T) {
	dir, _ := release(t, built(t, "flotilla"))
	f, err := os.Open(filepath.Join(dir, "flotilla_v1.2.3_linux_amd64.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // it was only read
	raw, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for archive := tar.NewReader(raw); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, h.FileInfo().Mode().String()+" "+h.Name+" "+h.Linkname)
	}
	want := []string{"-rwxr-xr-x flotilla ", "Lrwxrwxrwx kubectl-flotilla flotilla", "-rw-r--r-- LICENSE ",
		"-rw-r--r-- completions/flotilla.bash "}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Error(diff)
	}
}

func TestBill(t *testing.T) {
	dir, _ := release(t, built(t, "flotilla"))
	f, err := os.Open(filepath.Join(dir, "flotilla_v1.2.3_linux_amd64.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // it was only read
	bom := &cdx.BOM{}
	if err := cdx.NewBOMDecoder(f, cdx.BOMFileFormatJSON).Decode(bom); err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, c := range *bom.Components {
		found[c.Name] = strings.HasPrefix(c.PackageURL, "pkg:golang/"+c.Name+"@") && c.Version != ""
	}
	if !found["std"] || !found["github.com/CycloneDX/cyclonedx-go"] || bom.Metadata.Component.Version != "v1.2.3" {
		t.Errorf("%v, %+v", found, bom.Metadata.Component)
	}
}

func TestKrew(t *testing.T) {
	dir, _ := release(t, built(t, "flotilla"))
	text, err := os.ReadFile(filepath.Join(dir, krewFile))
	if err != nil {
		t.Fatal(err)
	}
	m := krewPlugin{}
	if err := yaml.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	if len(m.Spec.Platforms) != 2 {
		t.Fatalf("%s", text)
	}
	p := m.Spec.Platforms[1]
	sum, err := checksum(filepath.Join(dir, "flotilla_v1.2.3_darwin_arm64.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	want := krewPlatform{Selector: krewSelector{MatchLabels: map[string]string{"os": "darwin", "arch": "arm64"}},
		URI: "https://example.org/v1.2.3/flotilla_v1.2.3_darwin_arm64.tar.gz", SHA256: sum, Bin: "flotilla",
		Files: []krewFiles{{From: "flotilla", To: "."}, {From: "LICENSE", To: "."}}}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Error(diff)
	}
}

// TestWrongArguments: each error names what is wrong and what to give.
func TestWrongArguments(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		o       options
		folders []string
		want    string
	}{
		"nothing":         {want: "give -out, -version, -url"},
		"no architecture": {options{out: dir, version: "v1", url: "u"}, []string{"linux=x"}, `"linux=x": give`},
		"no licence":      {options{out: dir, version: "v1", url: "u", license: dir + "/x"}, []string{"a-b=x"}, "/x"},
		"no program there": {options{out: dir, version: "v1", url: "u", license: "main.go"}, []string{"a-b=" + dir},
			"program for a-b"},
	} {
		if err := run(io.Discard, c.o, c.folders); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
