package main

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// layout writes the images of a program for all architectures as an OCI image layout in a tar file, which skopeo, oras,
// crane and ctr read.
func (o options) layout(out io.Writer, program string, images []platformImage) error {
	folder, err := os.MkdirTemp("", "layout")
	if err != nil {
		return fmt.Errorf("make a folder for the layout of %s: %w", program, err)
	}
	defer func() { _ = os.RemoveAll(folder) }() // what it leaves is in the folder for temporary files
	index := indexOf(images)
	all := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: index, Descriptor: v1.Descriptor{
		Annotations: map[string]string{"org.opencontainers.image.ref.name": o.tag},
	}})
	if _, err := layout.Write(folder, all); err != nil {
		return fmt.Errorf("write the layout of %s: %w", program, err)
	}
	name := fmt.Sprintf("%s_%s_oci.tar", program, o.tag)
	f, err := os.Create(filepath.Join(o.layouts, name))
	if err != nil {
		return fmt.Errorf("make the layout of %s: %w", program, err)
	}
	err = tarOf(f, folder)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	digest, err := index.Digest()
	if err != nil {
		return fmt.Errorf("make the index of %s: %w", program, err)
	}
	fmt.Fprintf(out, "%s:%s %s %s\n", program, o.tag, digest, filepath.Join(o.layouts, name))
	return nil
}

// tarOf writes the files of a folder in the order of their names. Owners and times are zero.
func tarOf(out io.Writer, folder string) error {
	archive := tar.NewWriter(out)
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: filepath.ToSlash(name), Mode: 0o644, Size: int64(len(text)),
			Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		_, err = archive.Write(text)
		return err
	})
	if err != nil {
		return err
	}
	return archive.Close()
}
