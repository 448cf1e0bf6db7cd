package main

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"time"
)

// cli is the program that users run, and the name by which kubectl finds it.
const cli, plugin = "flotilla", "kubectl-flotilla"

// extra is a file that each archive contains beside the program.
type extra struct {
	name string
	text []byte
}

// extra reads the licence and the completion scripts.
func (o options) extra() ([]extra, error) {
	files := []string{o.license}
	if o.completions != "" {
		found, err := filepath.Glob(filepath.Join(o.completions, "*"))
		if err != nil || len(found) == 0 {
			return nil, fmt.Errorf("find completion scripts in %s: %d files (%v)", o.completions, len(found), err)
		}
		files = append(files, found...) // Glob sorts them
	}
	all := make([]extra, 0, len(files))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read what the archives contain: %w", err)
		}
		name := filepath.Base(file)
		if file != o.license {
			name = path.Join("completions", name)
		}
		all = append(all, extra{name: name, text: text})
	}
	return all, nil
}

// archive writes the archive of the command line for one platform, and returns its name.
func (o options) archive(p platform, extras []extra) (string, error) {
	program, err := os.ReadFile(filepath.Join(p.folder, cli))
	if err != nil {
		return "", fmt.Errorf("read the program for %s: %w", p, err)
	}
	name := fmt.Sprintf("%s_%s_%s_%s.tar.gz", cli, o.version, p.os, p.arch)
	f, err := os.Create(filepath.Join(o.out, name))
	if err != nil {
		return "", fmt.Errorf("make the archive: %w", err)
	}
	if err := pack(f, program, extras); err != nil {
		_ = f.Close() // the first error is the cause
		return "", fmt.Errorf("write %s: %w", name, err)
	}
	if err := f.Close(); err != nil {
		return "", fmt.Errorf("write %s: %w", name, err)
	}
	return name, nil
}

// pack writes the program, a link by which kubectl finds it, and the other files. Owners, groups and times are zero.
func pack(out io.Writer, program []byte, extras []extra) error {
	compressed, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(compressed)
	add := func(h tar.Header, text []byte) error {
		h.Size, h.ModTime, h.Format = int64(len(text)), time.Unix(0, 0), tar.FormatUSTAR
		if err := archive.WriteHeader(&h); err != nil {
			return err
		}
		_, err := archive.Write(text)
		return err
	}
	if err := add(tar.Header{Typeflag: tar.TypeReg, Name: cli, Mode: 0o755}, program); err != nil {
		return err
	}
	if err := add(tar.Header{Typeflag: tar.TypeSymlink, Name: plugin, Linkname: cli, Mode: 0o777}, nil); err != nil {
		return err
	}
	for _, e := range extras {
		if err := add(tar.Header{Typeflag: tar.TypeReg, Name: e.name, Mode: 0o644}, e.text); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return compressed.Close()
}
