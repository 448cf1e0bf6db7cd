package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"strings"
)

const (
	// user has no name and no rights on any machine; entrypoint is where the program is.
	user, entrypoint = "65532:65532", "/program"
	// begin is the time of everything in an image.
	begin = "1970-01-01T00:00:00Z"

	layerType    = "application/vnd.oci.image.layer.v1.tar"
	configType   = "application/vnd.oci.image.config.v1+json"
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	indexType    = "application/vnd.oci.image.index.v1+json"
)

// image is what goes into one.
type image struct {
	name, tag, version, revision, arch string
	program                            []byte
}

// The parts of the OCI image specification that are needed here.
type (
	descriptor struct {
		MediaType   string            `json:"mediaType"`
		Digest      string            `json:"digest"`
		Size        int               `json:"size"`
		Platform    *platform         `json:"platform,omitempty"`
		Annotations map[string]string `json:"annotations,omitempty"`
	}
	platform struct {
		Architecture string `json:"architecture"`
		OS           string `json:"os"`
	}
	config struct {
		Created      string    `json:"created"`
		Architecture string    `json:"architecture"`
		OS           string    `json:"os"`
		Config       settings  `json:"config"`
		RootFS       rootFS    `json:"rootfs"`
		History      []history `json:"history"`
	}
	settings struct {
		User       string            `json:"User"`
		Env        []string          `json:"Env,omitempty"`
		Entrypoint []string          `json:"Entrypoint"`
		WorkingDir string            `json:"WorkingDir"`
		Labels     map[string]string `json:"Labels"`
	}
	rootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	}
	history struct {
		Created   string `json:"created"`
		CreatedBy string `json:"created_by"`
	}
	manifest struct {
		SchemaVersion int          `json:"schemaVersion"`
		MediaType     string       `json:"mediaType"`
		Config        descriptor   `json:"config"`
		Layers        []descriptor `json:"layers"`
	}
	index struct {
		SchemaVersion int          `json:"schemaVersion"`
		MediaType     string       `json:"mediaType"`
		Manifests     []descriptor `json:"manifests"`
	}
	// saved is the manifest.json of docker save.
	saved struct {
		Config   string   `json:"Config"`
		RepoTags []string `json:"RepoTags"`
		Layers   []string `json:"Layers"`
	}
)

// entry is a file of an archive.
type entry struct {
	name string
	mode int64
	data []byte
}

// archive returns the image in a file, and the digest of its manifest.
func (i *image) archive() (file []byte, digest string, err error) {
	layer, err := pack([]entry{{strings.TrimPrefix(entrypoint, "/"), 0o755, i.program}})
	if err != nil {
		return nil, "", err
	}
	layerOf := describe(layerType, layer)
	configData, err := json.Marshal(i.config(layerOf.Digest))
	if err != nil {
		return nil, "", err
	}
	configOf := describe(configType, configData)
	manifestData, err := json.Marshal(manifest{SchemaVersion: 2, MediaType: manifestType, Config: configOf,
		Layers: []descriptor{layerOf}})
	if err != nil {
		return nil, "", err
	}
	manifestOf := describe(manifestType, manifestData)
	manifestOf.Platform = &platform{Architecture: i.arch, OS: "linux"}
	manifestOf.Annotations = map[string]string{
		"org.opencontainers.image.ref.name": i.tag,
		"io.containerd.image.name":          "docker.io/library/" + i.name + ":" + i.tag,
	}
	indexData, err := json.Marshal(index{SchemaVersion: 2, MediaType: indexType, Manifests: []descriptor{manifestOf}})
	if err != nil {
		return nil, "", err
	}
	savedData, err := json.Marshal([]saved{{Config: blob(configOf), RepoTags: []string{i.name + ":" + i.tag},
		Layers: []string{blob(layerOf)}}})
	if err != nil {
		return nil, "", err
	}
	const mode = 0o644
	file, err = pack([]entry{
		{"oci-layout", mode, []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		{"index.json", mode, indexData},
		{"manifest.json", mode, savedData},
		{blob(manifestOf), mode, manifestData},
		{blob(configOf), mode, configData},
		{blob(layerOf), mode, layer},
	})
	return file, manifestOf.Digest, err
}

func (i *image) config(layer string) config {
	return config{
		Created: begin, Architecture: i.arch, OS: "linux",
		Config: settings{
			User: user, Entrypoint: []string{entrypoint}, WorkingDir: "/",
			Labels: map[string]string{
				"org.opencontainers.image.title": i.name, "org.opencontainers.image.version": i.version,
				"org.opencontainers.image.revision": i.revision, "org.opencontainers.image.licenses": "Apache-2.0",
			},
		},
		RootFS:  rootFS{Type: "layers", DiffIDs: []string{layer}},
		History: []history{{Created: begin, CreatedBy: "make images"}},
	}
}

func describe(mediaType string, data []byte) descriptor {
	sum := sha256.Sum256(data)
	return descriptor{MediaType: mediaType, Digest: "sha256:" + hex.EncodeToString(sum[:]), Size: len(data)}
}

// blob returns where an image layout has what is described.
func blob(d descriptor) string { return "blobs/" + strings.Replace(d.Digest, ":", "/", 1) }

// pack returns a tar file. Owner, group and time of all that is in it are zero.
func pack(entries []entry) ([]byte, error) {
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	for _, e := range entries {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: e.name, Mode: e.mode, Size: int64(len(e.data)),
			Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := io.Copy(archive, bytes.NewReader(e.data)); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
