// Command images writes an image for each program: FROM scratch, the one static program and nothing else, as user
// 65532. It needs no docker and no registry. `make images` calls it.
//
// An archive is an OCI image layout that is also what docker save writes, so that docker load, podman load, ctr images
// import and kind load image-archive take it as it is. The same program gives the same bytes, and so the same digest:
// no time of the build is in it, and the layer is not compressed, since compressors differ by version.
package main

import (
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

func main() {
	var i image
	out := flag.String("out", "", "`folder` for the archives")
	flag.StringVar(&i.tag, "tag", "", "`tag` of the images")
	flag.StringVar(&i.version, "version", "", "`version` of the programs, for a label")
	flag.StringVar(&i.revision, "revision", "", "`commit` of the programs, for a label")
	flag.StringVar(&i.arch, "arch", runtime.GOARCH, "`architecture` of the programs, as Go names it")
	flag.Parse()
	if err := run(*out, i, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func run(out string, i image, programs []string) error {
	if out == "" || i.tag == "" || len(programs) == 0 {
		return errors.New("give -out, -tag, and the paths of programs")
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("make the folder of the archives: %w", err)
	}
	for _, path := range programs {
		if err := static(path); err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("read the program: %w", err)
		}
		i.name, i.program = filepath.Base(path), data
		archive, digest, err := i.archive()
		if err != nil {
			return fmt.Errorf("make the image of %s: %w", i.name, err)
		}
		file := filepath.Join(out, i.name+".tar")
		if err := os.WriteFile(file, archive, 0o644); err != nil {
			return fmt.Errorf("write the image of %s: %w", i.name, err)
		}
		fmt.Printf("%s:%s %s %s\n", i.name, i.tag, digest, file)
	}
	return nil
}

// static returns an error for a program that needs a loader: there is none in the image.
func static(path string) error {
	program, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("%s is no program for Linux: %w", path, err)
	}
	defer func() { _ = program.Close() }() // it was only read
	for _, part := range program.Progs {
		if part.Type == elf.PT_INTERP {
			return fmt.Errorf("%s needs a loader, and the image has none: build it with CGO_ENABLED=0", path)
		}
	}
	return nil
}
