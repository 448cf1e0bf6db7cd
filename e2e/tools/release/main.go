// Command release writes what a release consists of: archives of the command line, images as OCI layouts, charts,
// bills of materials, a manifest for krew, and checksums of all. `make release` calls it with the programs that it
// built. The same programs give the same files: they hold no time of the build.
package main

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Names of files of a release.
const (
	sumsFile = "SHA256SUMS"
	krewFile = "flotilla.krew.yaml"
)

func main() {
	o := options{compression: gzip.BestCompression}
	flag.StringVar(&o.out, "out", "", "`folder` for the release; charts and layouts of images are in it already")
	flag.StringVar(&o.version, "version", "", "`version` of the release, such as v0.2.0")
	flag.StringVar(&o.url, "url", "", "`address` that the archives are going to have, for the manifest of krew")
	flag.StringVar(&o.license, "license", "LICENSE", "`file` that each archive contains")
	flag.StringVar(&o.completions, "completions", "", "`folder` of completion scripts that each archive contains")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(),
			"usage: release [flags] OS-ARCH=FOLDER...\n  FOLDER has the programs for OS-ARCH, as Go names them")
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := run(os.Stdout, o, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// options are what the flags say.
type options struct {
	out, version, url, license, completions string
	// compression is a level of compress/gzip; zero is none.
	compression int
}

// platform is what programs run on, as Go names it, and their folder.
type platform struct{ os, arch, folder string }

func (p platform) String() string { return p.os + "-" + p.arch }

// run writes the release, and its list of files to out. It errs if a flag, a program or a file is missing.
func run(out io.Writer, o options, folders []string) error {
	if o.out == "" || o.version == "" || o.url == "" || len(folders) == 0 {
		return errors.New("give -out, -version, -url and OS-ARCH=FOLDER")
	}
	platforms, err := platformsOf(folders)
	if err != nil {
		return err
	}
	texts, err := o.texts()
	if err != nil {
		return err
	}
	archives := map[platform]string{}
	for _, p := range platforms {
		if archives[p], err = o.archives(p, texts); err != nil {
			return err
		}
		if err := o.bills(p); err != nil {
			return err
		}
	}
	if err := o.krew(platforms, archives); err != nil {
		return err
	}
	return o.sums(out)
}

// platformsOf reads arguments such as linux-arm64=.bin/arm64.
func platformsOf(folders []string) ([]platform, error) {
	var all []platform
	for _, text := range folders {
		name, folder, given := strings.Cut(text, "=")
		system, arch, both := strings.Cut(name, "-")
		if !given || !both || folder == "" {
			return nil, fmt.Errorf("%q: give OS-ARCH=FOLDER, such as linux-arm64=.bin/arm64", text)
		}
		all = append(all, platform{os: system, arch: arch, folder: folder})
	}
	return all, nil
}

// sums writes the checksums of all files, in the format of sha256sum.
func (o options) sums(out io.Writer) error {
	entries, err := os.ReadDir(o.out)
	if err != nil {
		return fmt.Errorf("list the files of the release: %w", err)
	}
	var lines []string
	for _, entry := range entries {
		if entry.IsDir() || entry.Name() == sumsFile {
			continue
		}
		sum, err := checksum(filepath.Join(o.out, entry.Name()))
		if err != nil {
			return err
		}
		lines = append(lines, sum+"  "+entry.Name())
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[sha256.Size*2:], b[sha256.Size*2:]) })
	text := strings.Join(lines, "\n") + "\n"
	if err := os.WriteFile(filepath.Join(o.out, sumsFile), []byte(text), 0o600); err != nil {
		return fmt.Errorf("write the checksums: %w", err)
	}
	_, err = io.WriteString(out, text)
	return err
}

// checksum returns the SHA-256 sum of a file, in hexadecimal.
func checksum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", filepath.Base(path), err)
	}
	defer func() { _ = f.Close() }() // it was only read
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", fmt.Errorf("read %s: %w", filepath.Base(path), err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
