package main

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// bills writes a bill of materials for each program of a platform.
func (o options) bills(p platform) error {
	programs, err := filepath.Glob(filepath.Join(p.folder, cli+"*"))
	if err != nil {
		return fmt.Errorf("list the programs for %s: %w", p, err)
	}
	for _, program := range programs {
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			return fmt.Errorf("read what %s is made of: %w", filepath.Base(program), err)
		}
		name := fmt.Sprintf("%s_%s_%s_%s.cdx.json", filepath.Base(program), o.version, p.os, p.arch)
		f, err := os.Create(filepath.Join(o.out, name))
		if err != nil {
			return fmt.Errorf("make the bill of materials: %w", err)
		}
		err = cdx.NewBOMEncoder(f, cdx.BOMFileFormatJSON).SetPretty(true).Encode(o.bill(filepath.Base(program), info))
		if closed := f.Close(); err == nil {
			err = closed
		}
		if err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}

// bill returns the bill of a program: itself, the modules that were linked into it, and Go's standard library.
// Format: CycloneDX 1.6; names of packages: the package URL type golang.
func (o options) bill(name string, info *debug.BuildInfo) *cdx.BOM {
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &cdx.Component{
		BOMRef: "program", Type: cdx.ComponentTypeApplication, Name: name, Version: o.version,
		Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
	}}
	components := []cdx.Component{component("std", strings.TrimPrefix(info.GoVersion, "go"), "")}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		components = append(components, component(m.Path, m.Version, m.Sum))
	}
	refs := make([]string, 0, len(components))
	for _, c := range components {
		refs = append(refs, c.BOMRef)
	}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: "program", Dependencies: &refs}}
	return bom
}

// component returns a module. Its sum is that of go.sum, "" for none.
func component(path, version, sum string) cdx.Component {
	c := cdx.Component{
		BOMRef: "pkg:golang/" + path + "@" + version, Type: cdx.ComponentTypeLibrary, Name: path, Version: version,
		PackageURL: "pkg:golang/" + path + "@" + version,
	}
	if sum != "" {
		c.Properties = &[]cdx.Property{{Name: "go:sum", Value: sum}}
	}
	return c
}
