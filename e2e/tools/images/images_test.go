package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// staticProgram returns the smallest file that counts as a static program for Linux.
func staticProgram(t *testing.T, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	header := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB),
			byte(elf.EV_CURRENT)},
		Type:      uint16(elf.ET_EXEC),
		Machine:   uint16(elf.EM_X86_64),
		Version:   uint32(elf.EV_CURRENT),
		Ehsize:    64,
		Phentsize: 56,
		Shentsize: 64,
	}
	if err := binary.Write(&out, binary.LittleEndian, header); err != nil {
		t.Fatal(err)
	}
	out.WriteString(text)
	return out.Bytes()
}

// programFolder returns a folder with a program for each name.
func programFolder(t *testing.T, text string, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), staticProgram(t, name+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// checkImage fails unless the image has one layer with the one program, and runs it as a user without rights.
func checkImage(t *testing.T, image v1.Image, arch, program string, content []byte) {
	t.Helper()
	if err := validate.Image(image); err != nil {
		t.Errorf("the image is not valid: %v", err)
	}
	got, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if got.OS != "linux" || got.Architecture != arch {
		t.Errorf("the image is for %s/%s, want linux/%s", got.OS, got.Architecture, arch)
	}
	want := v1.Config{User: "65532:65532", Entrypoint: []string{"/program"}, WorkingDir: "/", Labels: map[string]string{
		"org.opencontainers.image.title": program, "org.opencontainers.image.version": "v1.2.3+dirty",
		"org.opencontainers.image.revision": "abc", "org.opencontainers.image.licenses": "Apache-2.0",
	}}
	if diff := cmp.Diff(want, got.Config); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v; want 1", len(layers), err)
	}
	layer, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewReader(layer)
	header, err := archive.Next()
	if err != nil {
		t.Fatal(err)
	}
	if header.Name != "program" || header.Uid != 0 || header.Gid != 0 || header.ModTime.Unix() != 0 ||
		header.Mode != 0o755 {
		t.Errorf("the file is %s, owner %d:%d, mode %o, of %s", header.Name, header.Uid, header.Gid, header.Mode,
			header.ModTime)
	}
	if data, err := io.ReadAll(archive); err != nil || !bytes.Equal(data, content) {
		t.Errorf("the program has %d bytes, %v; want %d", len(data), err, len(content))
	}
	if _, err := archive.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("the image has a second file: %v", err)
	}
}

func testOptions(programs ...string) options {
	return options{tag: "v1.2.3", version: "v1.2.3+dirty", revision: "abc", programs: programs}
}

func TestArchivesHoldOneProgram(t *testing.T) {
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	native, foreign := programFolder(t, "native", "flotilla-hub"), programFolder(t, "foreign", "flotilla-hub")
	o := testOptions("flotilla-hub")
	o.out = t.TempDir()
	var out bytes.Buffer
	if err := run(&out, o, []string{runtime.GOARCH + "=" + native, other + "=" + foreign}); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ file, arch, text string }{
		{"flotilla-hub.tar", runtime.GOARCH, "native"}, {"flotilla-hub-" + other + ".tar", other, "foreign"},
	} {
		ref, err := name.NewTag("flotilla-hub:v1.2.3")
		if err != nil {
			t.Fatal(err)
		}
		image, err := tarball.ImageFromPath(filepath.Join(o.out, tc.file), &ref)
		if err != nil {
			t.Fatalf("read %s: %v", tc.file, err)
		}
		checkImage(t, image, tc.arch, "flotilla-hub", staticProgram(t, "flotilla-hub"+tc.text))
		if !strings.Contains(out.String(), filepath.Join(o.out, tc.file)) {
			t.Errorf("%s is not named in %q", tc.file, out.String())
		}
	}
}

// TestPushWritesAllArchitectures pushes to a registry of this process.
func TestPushWritesAllArchitectures(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	folders := map[string]string{"amd64": programFolder(t, "amd", "a", "b"), "arm64": programFolder(t, "arm", "a", "b")}
	o := testOptions("a", "b")
	o.push = strings.TrimPrefix(server.URL, "http://") + "/team"
	if err := run(io.Discard, o, []string{"amd64=" + folders["amd64"], "arm64=" + folders["arm64"]}); err != nil {
		t.Fatal(err)
	}
	for _, program := range o.programs {
		ref, err := name.NewTag(o.push + "/" + program + ":v1.2.3")
		if err != nil {
			t.Fatal(err)
		}
		index, err := remote.Index(ref)
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := index.IndexManifest()
		if err != nil || len(manifest.Manifests) != 2 || manifest.MediaType != types.OCIImageIndex {
			t.Fatalf("the index is %+v, %v", manifest, err)
		}
		for arch, text := range map[string]string{"amd64": "amd", "arm64": "arm"} {
			image, err := remote.Image(ref, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: arch}))
			if err != nil {
				t.Fatal(err)
			}
			checkImage(t, image, arch, program, staticProgram(t, program+text))
		}
	}
}

func TestTheSameProgramGivesTheSameDigest(t *testing.T) {
	digest := func(program string) v1.Hash {
		t.Helper()
		image, err := build("flotilla-hub", "v1", "abc", "arm64", []byte(program))
		if err != nil {
			t.Fatal(err)
		}
		hash, err := image.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return hash
	}
	if a, b := digest("one"), digest("one"); a != b {
		t.Errorf("the same program has the digests %s and %s", a, b)
	}
	if a, b := digest("one"), digest("two"); a == b {
		t.Errorf("two programs have the digest %s", a)
	}
}

func TestRunRefuses(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "script"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	good := programFolder(t, "", "a")
	for _, tc := range []struct {
		name    string
		change  func(*options)
		folders []string
		says    string
	}{
		{"neither a folder nor a registry", func(o *options) { o.out = "" }, []string{"amd64=" + dir},
			"-out, -push or -layouts"},
		{"no tag", func(o *options) { o.tag = "" }, []string{"amd64=" + dir}, "-tag"},
		{"no program", func(o *options) { o.programs = nil }, []string{"amd64=" + dir}, "-programs"},
		{"no folder of programs", func(*options) {}, nil, "ARCH=FOLDER"},
		{"a folder without an architecture", func(*options) {}, []string{dir}, "give ARCH=FOLDER"},
		{"a missing program", func(*options) {}, []string{"amd64=" + dir}, "no program for Linux"},
		{"a script", func(o *options) { o.programs = []string{"script"} }, []string{"amd64=" + dir}, "no program for Linux"},
		{"a registry with a space", func(o *options) { o.push = "a b" }, []string{"amd64=" + good},
			"read the name of the image of a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := testOptions("a")
			o.out = t.TempDir()
			tc.change(&o)
			if err := run(io.Discard, o, tc.folders); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("it says %v, want %q", err, tc.says)
			}
		})
	}
}
