package plan

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/flotilla-dev/flotilla/hub/snapshot"
)

// foreign takes what belongs to another tool, such as Helm or kustomize, out of the mistakes of a file. In a folder
// that is a note; in a file that the user named it stays a mistake, with what to do. It returns nil if nothing of the
// file is to be planned.
func (f *files) foreign(file source, text []byte, mistakes []error) *[]error {
	chart := chartOf(file.name)
	if folder, ok := f.kustomized[filepath.Clean(file.name)]; ok && !file.explicit {
		f.note(
			"%s: left out: the kustomization of %s uses it%s",
			file.name,
			folder,
			rendered(snapshot.ForeignKustomization, folder, ""),
		)
		return nil
	}
	if !file.explicit && chart != "" && bytes.Contains(text, []byte("{{")) {
		f.note("%s: left out: it is a template%s", file.name, rendered(snapshot.ForeignTemplate, "", chart))
		return nil
	}
	rest := []error{}
	for _, mistake := range mistakes {
		m := &snapshot.Mistake{}
		if !errors.As(mistake, &m) || m.Foreign == "" {
			rest = append(rest, mistake)
			continue
		}
		if m.Foreign == snapshot.ForeignOther && isKustomization(file.name) {
			m.Foreign, m.Problem = snapshot.ForeignKustomization, "this is a kustomization, and no object"
		}
		folder := ""
		if m.Foreign == snapshot.ForeignKustomization || kustomizationIn(filepath.Dir(file.name)) != "" {
			folder = filepath.Dir(file.name)
		}
		todo := rendered(m.Foreign, folder, chart)
		switch {
		case file.explicit:
			m.Problem += todo
			rest = append(rest, m)
		case m.Foreign == snapshot.ForeignTemplate:
			// What else is in the file is for the template to say.
			f.note("%s, line %d: left out: %s%s", file.name, m.Line, m.Problem, todo)
			return nil
		default:
			f.note("%s, line %d: left out: %s%s", file.name, m.Line, m.Problem, todo)
		}
	}
	return &rest
}

// rendered says how to plan what a tool makes. folder is that of a kustomization, chart that of a chart, "" for none.
func rendered(what snapshot.Foreign, folder, chart string) string {
	const kustomize, helm = "; to plan what it makes: kubectl kustomize %s | flotilla plan -f -",
		"; to plan what the chart makes: helm template %s | flotilla plan -f -"
	switch {
	case folder != "" && (what == snapshot.ForeignKustomization || what == snapshot.ForeignPatch):
		return fmt.Sprintf(kustomize, quotedPath(folder))
	case chart != "":
		return fmt.Sprintf(helm, quotedPath(chart))
	case what == snapshot.ForeignTemplate:
		return "; render it first, and give the result to flotilla plan -f -"
	}
	return ""
}

// quotedPath returns a path as a shell takes it.
func quotedPath(path string) string {
	if strings.ContainsAny(path, " \t'\"\\$&|;<>()*?[]#~`!{}") {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}

func isKustomization(name string) bool {
	return slices.Contains([]string{"kustomization.yaml", "kustomization.yml", "Kustomization"}, filepath.Base(name))
}

// kustomizationIn returns the kustomization of a folder, "" if it has none.
func kustomizationIn(folder string) string {
	for _, base := range []string{"kustomization.yaml", "kustomization.yml", "Kustomization"} {
		if name := filepath.Join(folder, base); isFile(name) {
			return name
		}
	}
	return ""
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// chartOf returns the folder of the Helm chart that a file is in, the outer one of a chart in a chart; "" for none.
func chartOf(name string) string {
	const depth = 8 // of folders in a chart
	folder := filepath.Dir(name)
	for range depth {
		if isFile(filepath.Join(folder, "Chart.yaml")) {
			if parent := filepath.Join(folder, ".."); filepath.Base(parent) == "charts" &&
				isFile(filepath.Join(parent, "..", "Chart.yaml")) {
				return chartOf(filepath.Join(parent, "..", "Chart.yaml"))
			}
			return folder
		}
		folder = filepath.Join(folder, "..")
	}
	return ""
}

// kustomization remembers the files that the kustomization of a folder uses, other than as resources: they are parts of
// objects, or no objects.
func (f *files) kustomization(folder string) {
	name := kustomizationIn(folder)
	if name == "" {
		return
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return // told when it is read as a file of the folder
	}
	var fields map[string]any
	if yaml.Unmarshal(text, &fields) != nil {
		return // likewise
	}
	resources := map[string]bool{}
	for _, field := range []string{"resources", "bases", "components"} {
		eachText(fields[field], func(text string) { resources[filepath.Join(folder, text)] = true })
		delete(fields, field)
	}
	eachText(fields, func(text string) {
		if _, after, ok := strings.Cut(text, "="); ok {
			text = after // a key of a generator
		}
		if path := filepath.Join(folder, text); !strings.Contains(text, "\n") && !resources[path] && isFile(path) {
			f.kustomized[path] = folder
		}
	})
}

// eachText calls use for each string in a value.
func eachText(value any, use func(string)) {
	switch v := value.(type) {
	case string:
		use(v)
	case []any:
		for i := range v {
			eachText(v[i], use)
		}
	case map[string]any:
		for key := range v {
			eachText(v[key], use)
		}
	}
}
