package main

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// TestLayout: the layout is a valid one of the images of both architectures, and the same programs give the same file.
func TestLayout(t *testing.T) {
	folder := programFolder(t, "", "flotilla-hub")
	write := func() []byte {
		o := options{layouts: t.TempDir(), tag: "v1", programs: []string{"flotilla-hub"}}
		if err := run(io.Discard, o, []string{"amd64=" + folder, "arm64=" + folder}); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(o.layouts, "flotilla-hub_v1_oci.tar"))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	first := write()
	if string(write()) != string(first) {
		t.Error("the same programs give another layout")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "layout.tar")
	if err := os.WriteFile(path, first, 0o600); err != nil {
		t.Fatal(err)
	}
	unpack(t, path, dir)
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	all, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(all.Manifests) != 1 || all.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "v1" {
		t.Fatalf("%+v", all.Manifests)
	}
	images, err := index.ImageIndex(all.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := images.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var architectures string
	for _, m := range manifest.Manifests {
		architectures += m.Platform.Architecture + " "
	}
	if architectures != "amd64 arm64 " {
		t.Errorf("images for %s", architectures)
	}
}

// unpack writes the files of a tar file into a folder.
func unpack(t *testing.T, path, folder string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // it was only read
	for archive := tar.NewReader(f); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(folder, h.Name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
