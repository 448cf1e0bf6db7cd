package plan

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/hub/snapshot"
)

// source is one file to read.
type source struct {
	// name is its path, as the user wrote it or below the folder that the user wrote; "-" for standard input.
	name string
	// explicit reports whether the user named the file itself. Then it has to hold objects.
	explicit bool
}

// files reads what the flags name.
type files struct {
	reader    *snapshot.Reader
	in        io.Reader
	recursive bool

	// kustomized are files that a kustomization uses, other than as resources, with its folder.
	kustomized map[string]string
	found      []source
	objects    []client.Object
	notes      []string
	mistakes   []error
	// blocked reports whether a mistake keeps the rest from being planned.
	blocked bool
}

// read reads objects of files, of the YAML and JSON files of folders, and of standard input ("-").
func (f *files) read(names []string) {
	f.kustomized, f.found = map[string]string{}, nil
	for _, name := range names {
		f.expand(name)
	}
	seen := map[string]object{}
	for _, file := range f.found {
		f.readFile(file, seen)
	}
}

// object is an object and the file that it is in.
type object struct {
	client.Object
	file string
}

func (f *files) readFile(file source, seen map[string]object) {
	text, err := f.open(file.name)
	if err != nil {
		f.fail(err, file.explicit)
		return
	}
	objects, notes, err := f.reader.Read(file.name, text)
	mistakes := f.foreign(file, text, split(err))
	if mistakes == nil {
		return
	}
	f.notes = append(f.notes, notes...)
	for _, o := range objects {
		kind := o.GetObjectKind().GroupVersionKind().GroupKind()
		name := strings.TrimPrefix(client.ObjectKeyFromObject(o).String(), "/")
		key := kind.String() + " " + name
		if before, ok := seen[key]; ok && !equality.Semantic.DeepEqual(before.Object, o) {
			f.note("%s: %s %s is in %s too, with other content; the later one holds", file.name, kind.Kind, name, before.file)
		}
		seen[key] = object{o, file.name}
	}
	f.objects = append(f.objects, objects...)
	for _, mistake := range *mistakes {
		m := &snapshot.Mistake{}
		f.fail(mistake, file.explicit || errors.As(mistake, &m) && othersNeed(m.Kind))
	}
}

// fail adds a mistake, which may keep the rest from being planned.
func (f *files) fail(err error, blocks bool) {
	f.mistakes = append(f.mistakes, err)
	f.blocked = f.blocked || blocks
}

func (f *files) note(format string, args ...any) {
	f.notes = append(f.notes, fmt.Sprintf(format, args...))
}

// othersNeed reports whether the plan of other objects depends on an object of the kind.
func othersNeed(kind string) bool {
	return slices.Contains([]string{
		"MemberCluster", "FederationPolicy", "ClusterFederationPolicy", "WorkloadPlacement", "WorkloadSpread", "Work",
		"Namespace",
	}, kind)
}

func split(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

func (f *files) open(name string) ([]byte, error) {
	if name != "-" {
		text, err := os.ReadFile(name)
		return text, plainly(err)
	}
	text, err := io.ReadAll(f.in)
	if err != nil {
		return nil, fmt.Errorf("read standard input: %w", err)
	}
	return text, nil
}

// plainly returns an error of a file with the file's name and the reason alone.
func plainly(err error) error {
	var file *fs.PathError
	if errors.As(err, &file) {
		return fmt.Errorf("%s: %w", file.Path, file.Err)
	}
	return err
}

// expand adds the files that a name stands for.
func (f *files) expand(name string) {
	if name == "-" {
		f.add(source{name, true})
		return
	}
	if strings.HasPrefix(name, "http://") || strings.HasPrefix(name, "https://") {
		f.fail(fmt.Errorf("%s: -f reads no URL; use: curl -fsSL %s | flotilla plan -f -", name, name), true)
		return
	}
	info, err := os.Stat(name)
	switch {
	case err != nil:
		f.fail(plainly(err), true)
	case !info.IsDir():
		f.add(source{name, true})
	default:
		before := len(f.found)
		folders := f.folder(name)
		if len(f.found) > before {
			return
		}
		hint := ""
		if len(folders) > 0 && !f.recursive {
			hint = fmt.Sprintf("; it has the folder %s, and -R reads folders in it", folders[0])
		}
		f.fail(fmt.Errorf("folder %s has no .yaml, .yml or .json file%s", name, hint), true)
	}
}

// add adds a file, once.
func (f *files) add(added source) {
	for i := range f.found {
		if filepath.Clean(f.found[i].name) == filepath.Clean(added.name) {
			f.found[i].explicit = f.found[i].explicit || added.explicit
			return
		}
	}
	f.found = append(f.found, added)
}

// folder adds the files of a folder, and returns the folders in it.
func (f *files) folder(folder string) (folders []string) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		f.fail(err, false)
		return nil
	}
	f.kustomization(folder)
	for _, entry := range entries {
		name := filepath.Join(folder, entry.Name())
		if f.entry(name, entry) {
			folders = append(folders, name)
		}
	}
	if f.recursive {
		for _, inner := range folders {
			f.folder(inner)
		}
	}
	return folders
}

// entry adds an entry of a folder if it is a manifest, and reports whether it is a folder. It notes what looks like a
// manifest and is not read.
func (f *files) entry(name string, entry os.DirEntry) (folder bool) {
	manifest := slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) || isKustomization(name)
	info, err := os.Stat(name)
	switch {
	case strings.HasPrefix(entry.Name(), "."):
		if manifest && !entry.IsDir() {
			f.note("%s: left out: files whose names begin with a dot are not read; name it with -f", name)
		}
	case err != nil && manifest:
		f.fail(plainly(err), false)
	case err != nil:
	case info.IsDir() && entry.IsDir():
		return true
	case info.IsDir():
		if f.recursive {
			f.note("%s: left out: links to folders are not followed; name it with -f", name)
		}
	case manifest && !info.Mode().IsRegular():
		f.note("%s: left out: it is no regular file", name)
	case manifest:
		f.add(source{name, false})
	}
	return false
}
