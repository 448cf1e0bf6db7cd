package main

import (
	"archive/tar"
	"bytes"
	"io"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user has no name and no rights on any machine; entrypoint is where the program is.
const user, entrypoint = "65532:65532", "/program"

// platformImage is an image for Linux on one architecture, as Go names it.
type platformImage struct {
	v1.Image
	arch string
}

// build returns the image of a program. It depends on the arguments alone.
func build(name, version, revision, arch string, program []byte) (v1.Image, error) {
	files, err := pack(program)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil },
		tarball.WithMediaType(types.OCILayer),
	)
	if err != nil {
		return nil, err
	}
	begin := v1.Time{Time: time.Unix(0, 0).UTC()}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		Created: begin, Architecture: arch, OS: "linux", RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User: user, Entrypoint: []string{entrypoint}, WorkingDir: "/",
			Labels: map[string]string{
				"org.opencontainers.image.title": name, "org.opencontainers.image.version": version,
				"org.opencontainers.image.revision": revision, "org.opencontainers.image.licenses": "Apache-2.0",
			},
		},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Append(
		image,
		mutate.Addendum{Layer: layer, History: v1.History{Created: begin, CreatedBy: "make images"}},
	)
}

// indexOf returns the index of the images of one program.
func indexOf(images []platformImage) v1.ImageIndex {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, image := range images {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image.Image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: image.arch}},
		})
	}
	return index
}

// pack returns a tar file with the program. Its owner, group and time are zero.
func pack(program []byte) ([]byte, error) {
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	header := &tar.Header{
		Typeflag: tar.TypeReg, Name: entrypoint[1:], Mode: 0o755, Size: int64(len(program)), Format: tar.FormatUSTAR,
	}
	if err := archive.WriteHeader(header); err != nil {
		return nil, err
	}
	if _, err := archive.Write(program); err != nil {
		return nil, err
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
