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

// file is what an archive contains: a program, a link, or text.
type file struct {
	name   string
	mode   int64
	linkTo string
	text   []byte
}

// texts reads the licence and the completion scripts.
func (o options) texts() ([]file, error) {
	files := []string{o.license}
	if o.completions != "" {
		found, err := filepath.Glob(filepath.Join(o.completions, "*"))
		if err != nil {
			return nil, fmt.Errorf("find completion scripts in %s: %w", o.completions, err)
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("find completion scripts in %s: there is none", o.completions)
		}
		files = append(files, found...) // Glob sorts them
	}
	all := make([]file, 0, len(files))
	for _, from := range files {
		text, err := os.ReadFile(from)
		if err != nil {
			return nil, fmt.Errorf("read what the archives contain: %w", err)
		}
		name := filepath.Base(from)
		if from != o.license {
			name = path.Join("completions", name)
		}
		all = append(all, file{name: name, mode: 0o644, text: text})
	}
	return all, nil
}

// programs reads the programs of a platform that run in clusters and in the try-out; none but for Linux.
func programs(p platform) ([]file, error) {
	found, err := filepath.Glob(filepath.Join(p.folder, cli+"-*"))
	if err != nil {
		return nil, fmt.Errorf("list the programs for %s: %w", p, err)
	}
	all := make([]file, 0, len(found))
	for _, from := range found { // Glob sorts them
		text, err := os.ReadFile(from)
		if err != nil {
			return nil, fmt.Errorf("read a program for %s: %w", p, err)
		}
		all = append(all, file{name: filepath.Base(from), mode: 0o755, text: text})
	}
	return all, nil
}

// archives writes the archives of a platform, and returns the name of that of the command line.
func (o options) archives(p platform, texts []file) (string, error) {
	program, err := os.ReadFile(filepath.Join(p.folder, cli))
	if err != nil {
		return "", fmt.Errorf("read the program for %s: %w", p, err)
	}
	others, err := programs(p)
	if err != nil {
		return "", err
	}
	if len(others) > 0 {
		if _, err := o.archive(cli+"-programs", p, append(others, texts[0])); err != nil {
			return "", err
		}
	}
	return o.archive(cli, p, append([]file{
		{name: cli, mode: 0o755, text: program},
		{name: plugin, mode: 0o777, linkTo: cli},
	}, texts...))
}

// archive writes an archive for one platform, and returns its name.
func (o options) archive(what string, p platform, files []file) (string, error) {
	name := fmt.Sprintf("%s_%s_%s_%s.tar.gz", what, o.version, p.os, p.arch)
	f, err := os.Create(filepath.Join(o.out, name))
	if err != nil {
		return "", fmt.Errorf("make the archive: %w", err)
	}
	if err := pack(f, o.compression, files); err != nil {
		_ = f.Close() // the first error is the cause
		return "", fmt.Errorf("write %s: %w", name, err)
	}
	if err := f.Close(); err != nil {
		return "", fmt.Errorf("write %s: %w", name, err)
	}
	return name, nil
}

// pack writes files as a tar file with a compression of compress/gzip. Owners, groups and times are zero.
func pack(out io.Writer, compression int, files []file) error {
	compressed, err := gzip.NewWriterLevel(out, compression)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(compressed)
	for _, e := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: e.name, Linkname: e.linkTo, Mode: e.mode,
			Size: int64(len(e.text)), ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
		if e.linkTo != "" {
			header.Typeflag = tar.TypeSymlink
		}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(e.text); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return compressed.Close()
}
