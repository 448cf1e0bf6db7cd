package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// unpack returns the files of a tar file, and fails for anything but plain files of nobody and no time.
func unpack(t *testing.T, data []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	archive := tar.NewReader(bytes.NewReader(data))
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag != tar.TypeReg || header.Uid != 0 || header.Gid != 0 || header.ModTime.Unix() != 0 ||
			header.Mode&0o022 != 0 {
			t.Errorf("%s: type %c, owner %d:%d, mode %o, of %s", header.Name, header.Typeflag, header.Uid, header.Gid,
				header.Mode, header.ModTime)
		}
		if files[header.Name], err = io.ReadAll(archive); err != nil {
			t.Fatal(err)
		}
	}
}

func read[T any](t *testing.T, files map[string][]byte, name string) T {
	t.Helper()
	var into T
	if err := json.Unmarshal(files[name], &into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return into
}

// content returns the file that a descriptor describes, which has to be what it says.
func content(t *testing.T, files map[string][]byte, of descriptor) string {
	t.Helper()
	name := blob(of)
	sum := sha256.Sum256(files[name])
	if got := "sha256:" + hex.EncodeToString(sum[:]); got != of.Digest || len(files[name]) != of.Size {
		t.Errorf("%s has the digest %s and %d bytes, and is described with %s and %d", name, got, len(files[name]), of.Digest,
			of.Size)
	}
	return name
}

func testImage() *image {
	return &image{name: "flotilla-hub", tag: "v1.2.3", version: "v1.2.3+dirty", revision: "abc", arch: "arm64",
		program: []byte("\x7fELF and so on")}
}

// TestArchive reads an image as docker load and as ctr images import do: one layer with one file, no shell, nobody's
// user.
func TestArchive(t *testing.T) {
	data, digest, err := testImage().archive()
	if err != nil {
		t.Fatal(err)
	}
	files := unpack(t, data)
	if got := read[map[string]string](t, files, "oci-layout"); got["imageLayoutVersion"] != "1.0.0" {
		t.Errorf("oci-layout is %v", got)
	}
	all := read[index](t, files, "index.json")
	if len(all.Manifests) != 1 || all.SchemaVersion != 2 || all.MediaType != indexType {
		t.Fatalf("index.json is %+v", all)
	}
	of := all.Manifests[0]
	if of.Digest != digest || of.MediaType != manifestType || *of.Platform != (platform{"arm64", "linux"}) ||
		of.Annotations["io.containerd.image.name"] != "docker.io/library/flotilla-hub:v1.2.3" ||
		of.Annotations["org.opencontainers.image.ref.name"] != "v1.2.3" {
		t.Errorf("the manifest is described as %+v", of)
	}
	m := read[manifest](t, files, content(t, files, of))
	if len(m.Layers) != 1 || m.Layers[0].MediaType != layerType || m.Config.MediaType != configType {
		t.Fatalf("the manifest is %+v", m)
	}
	got := read[config](t, files, content(t, files, m.Config))
	want := config{
		Created: begin, Architecture: "arm64", OS: "linux",
		Config: settings{User: "65532:65532", Entrypoint: []string{"/program"}, WorkingDir: "/", Labels: map[string]string{
			"org.opencontainers.image.title": "flotilla-hub", "org.opencontainers.image.version": "v1.2.3+dirty",
			"org.opencontainers.image.revision": "abc", "org.opencontainers.image.licenses": "Apache-2.0",
		}},
		RootFS:  rootFS{Type: "layers", DiffIDs: []string{m.Layers[0].Digest}},
		History: []history{{Created: begin, CreatedBy: "make images"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the configuration is another one (-want +got):\n%s", diff)
	}
	inside := unpack(t, files[content(t, files, m.Layers[0])])
	if len(inside) != 1 || !bytes.Equal(inside["program"], testImage().program) {
		t.Errorf("in the image are %d files, and a program of %d bytes", len(inside), len(inside["program"]))
	}
	if diff := cmp.Diff([]saved{{Config: blob(m.Config), RepoTags: []string{"flotilla-hub:v1.2.3"},
		Layers: []string{blob(m.Layers[0])}}}, read[[]saved](t, files, "manifest.json")); diff != "" {
		t.Errorf("manifest.json is another one (-want +got):\n%s", diff)
	}
	if len(files) != 6 {
		t.Errorf("the archive has %d files", len(files))
	}
}

// TestSameBytes holds that the same program gives the same image, and that everything else shows in the digest.
func TestSameBytes(t *testing.T) {
	first, digest, err := testImage().archive()
	if err != nil {
		t.Fatal(err)
	}
	again, sameDigest, err := testImage().archive()
	if err != nil || !slices.Equal(first, again) || digest != sameDigest {
		t.Errorf("made again it is another one: %s, then %s, %v", digest, sameDigest, err)
	}
	other := testImage()
	other.program = append(other.program, '.')
	_, otherDigest, err := other.archive()
	if err != nil || otherDigest == digest {
		t.Errorf("another program has the digest %s, too, %v", digest, err)
	}
}

// TestRun holds what is refused, and what is written.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, out, tag string
		programs       []string
		says           string
	}{
		{"no folder", "", "v1", []string{script}, "give -out"},
		{"no tag", dir, "", []string{script}, "-tag"},
		{"no program", dir, "v1", nil, "programs"},
		{"one that is not there", dir, "v1", []string{dir + "/none"}, "no program for Linux"},
		{"a script", dir, "v1", []string{script}, "no program for Linux"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := run(tc.out, image{tag: tc.tag}, tc.programs); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("it says %v, want %q", err, tc.says)
			}
		})
	}
}
