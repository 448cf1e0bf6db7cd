package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// The manifest of a plug-in, as krew reads it: krew.googlecontainertools.github.com/v1alpha2.
type (
	krewPlugin struct {
		APIVersion string     `json:"apiVersion"`
		Kind       string     `json:"kind"`
		Metadata   krewObject `json:"metadata"`
		Spec       krewSpec   `json:"spec"`
	}
	krewObject struct {
		Name string `json:"name"`
	}
	krewSpec struct {
		Version          string         `json:"version"`
		Homepage         string         `json:"homepage"`
		ShortDescription string         `json:"shortDescription"`
		Description      string         `json:"description"`
		Platforms        []krewPlatform `json:"platforms"`
	}
	krewPlatform struct {
		Selector krewSelector `json:"selector"`
		URI      string       `json:"uri"`
		SHA256   string       `json:"sha256"`
		Bin      string       `json:"bin"`
		Files    []krewFiles  `json:"files"`
	}
	krewSelector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	}
	krewFiles struct {
		From string `json:"from"`
		To   string `json:"to"`
	}
)

// krew writes the manifest with which krew installs the archives as kubectl flotilla.
func (o options) krew(platforms []platform, archives map[platform]string) error {
	m := krewPlugin{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin", Metadata: krewObject{Name: cli},
		Spec: krewSpec{
			Version: o.version, Homepage: "https://github.com/flotilla-dev/flotilla",
			ShortDescription: "Workloads over many clusters",
			Description: "Shows, checks and changes what Flotilla runs over many clusters: where pods are and why, rollouts, " +
				"drains, and a try-out on one machine.\n",
		},
	}
	for _, p := range platforms {
		sum, err := checksum(filepath.Join(o.out, archives[p]))
		if err != nil {
			return err
		}
		m.Spec.Platforms = append(m.Spec.Platforms, krewPlatform{
			Selector: krewSelector{MatchLabels: map[string]string{"os": p.os, "arch": p.arch}},
			URI:      strings.TrimSuffix(o.url, "/") + "/" + archives[p], SHA256: sum, Bin: cli,
			Files: []krewFiles{{From: cli, To: "."}, {From: "LICENSE", To: "."}},
		})
	}
	text, err := yaml.Marshal(m)
	if err != nil {
		return fmt.Errorf("write the manifest of krew: %w", err)
	}
	if err := os.WriteFile(filepath.Join(o.out, krewFile), text, 0o600); err != nil {
		return fmt.Errorf("write the manifest of krew: %w", err)
	}
	return nil
}
