// Command images makes an image of each program: the one static program and nothing else, as user 65532. `make images`
// calls it. It needs no docker.
//
// It writes an archive for each program that docker load, podman load, ctr images import and kind load image-archive
// read, with -layouts the images of all architectures as OCI image layouts, and with -push to a registry, under one
// tag. The same program gives the same digest: an image holds no time of the build.
package main

import (
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func main() {
	var o options
	programs := ""
	flag.StringVar(&o.out, "out", "", "`folder` for the archives")
	flag.StringVar(
		&o.push,
		"push",
		"",
		"`registry` and path to push to, such as registry.example.org/team; none: nothing is pushed",
	)
	flag.StringVar(&o.layouts, "layouts", "", "`folder` for an OCI image layout of each program; none: none is written")
	flag.StringVar(&o.tag, "tag", "", "`tag` of the images")
	flag.StringVar(&o.version, "version", "", "`version` of the programs, for a label")
	flag.StringVar(&o.revision, "revision", "", "`commit` of the programs, for a label")
	flag.StringVar(&programs, "programs", "", "`names` of the programs, with commas between")
	flag.Usage = func() {
		fmt.Fprintln(
			flag.CommandLine.Output(),
			"usage: images [flags] ARCH=FOLDER...\n  FOLDER has the programs for ARCH, as Go names it",
		)
		flag.PrintDefaults()
	}
	flag.Parse()
	o.programs = strings.FieldsFunc(programs, func(r rune) bool { return r == ',' })
	if err := run(os.Stdout, o, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

// options are what the flags say.
type options struct {
	out, push, layouts, tag, version, revision string
	programs                                   []string
}

// run makes the images of all programs, each for the architectures that folders names as ARCH=FOLDER.
func run(out io.Writer, o options, folders []string) error {
	if o.tag == "" || len(o.programs) == 0 || len(folders) == 0 || o.out+o.push+o.layouts == "" {
		return errors.New("give -tag, -programs, ARCH=FOLDER, and -out, -push or -layouts")
	}
	if o.out != "" {
		if err := os.MkdirAll(o.out, 0o755); err != nil {
			return fmt.Errorf("make the folder of the archives: %w", err)
		}
	}
	for _, program := range o.programs {
		all := make([]platformImage, 0, len(folders))
		for _, folder := range folders {
			arch, dir, ok := strings.Cut(folder, "=")
			if !ok {
				return fmt.Errorf("%q: give ARCH=FOLDER, such as arm64=.bin/arm64", folder)
			}
			image, err := load(o, program, arch, filepath.Join(dir, program))
			if err != nil {
				return err
			}
			all = append(all, image)
		}
		if err := o.write(out, program, all); err != nil {
			return err
		}
	}
	return nil
}

// write writes the archives of one program, and pushes its images.
func (o options) write(out io.Writer, program string, images []platformImage) error {
	if o.out != "" {
		for _, image := range images {
			if err := o.archive(out, program, image); err != nil {
				return err
			}
		}
	}
	if o.layouts != "" {
		if err := o.layout(out, program, images); err != nil {
			return err
		}
	}
	if o.push == "" {
		return nil
	}
	ref, err := name.NewTag(o.push + "/" + program + ":" + o.tag)
	if err != nil {
		return fmt.Errorf("read the name of the image of %s: %w", program, err)
	}
	index := indexOf(images)
	if err := remote.WriteIndex(ref, index, remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("push %s: %w", ref, err)
	}
	digest, err := index.Digest()
	if err != nil {
		return fmt.Errorf("make the index of %s: %w", program, err)
	}
	fmt.Fprintf(out, "%s@%s\n", ref, digest)
	return nil
}

// archive writes the archive of one image. That of another architecture than this machine's has it in its name.
func (o options) archive(out io.Writer, program string, image platformImage) error {
	file := filepath.Join(o.out, program+".tar")
	if image.arch != runtime.GOARCH {
		file = filepath.Join(o.out, program+"-"+image.arch+".tar")
	}
	ref, err := name.NewTag(program + ":" + o.tag)
	if err != nil {
		return fmt.Errorf("read the name of the image of %s: %w", program, err)
	}
	if err := tarball.WriteToFile(file, ref, image); err != nil {
		return fmt.Errorf("write the image of %s: %w", program, err)
	}
	digest, err := image.Digest()
	if err != nil {
		return fmt.Errorf("make the image of %s: %w", program, err)
	}
	fmt.Fprintf(out, "%s:%s %s %s\n", program, o.tag, digest, file)
	return nil
}

// load makes the image of the program at path.
func load(o options, program, arch, path string) (platformImage, error) {
	if err := static(path); err != nil {
		return platformImage{}, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return platformImage{}, fmt.Errorf("read the program: %w", err)
	}
	image, err := build(program, o.version, o.revision, arch, data)
	if err != nil {
		return platformImage{}, fmt.Errorf("make the image of %s: %w", program, err)
	}
	return platformImage{Image: image, arch: arch}, nil
}

// static returns an error for a program that needs a loader: the image has none.
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
