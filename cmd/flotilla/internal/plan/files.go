package plan

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/hub/snapshot"
)

// readFiles reads objects of files, of the YAML and JSON files of folders, and of standard input ("-").
func readFiles(reader *snapshot.Reader, names []string, in io.Reader) (objects []client.Object, notes []string, err error) {
	var mistakes []error
	for _, name := range names {
		files, err := expand(name)
		if err != nil {
			mistakes = append(mistakes, err)
			continue
		}
		for _, file := range files {
			text, err := readFile(file, in)
			if err != nil {
				mistakes = append(mistakes, err)
				continue
			}
			found, left, err := reader.Read(file, text)
			objects, notes = append(objects, found...), append(notes, left...)
			if err != nil {
				mistakes = append(mistakes, err)
			}
		}
	}
	return objects, notes, errors.Join(mistakes...)
}

func readFile(name string, in io.Reader) ([]byte, error) {
	if name == "-" {
		text, err := io.ReadAll(in)
		if err != nil {
			return nil, fmt.Errorf("read standard input: %w", err)
		}
		return text, nil
	}
	return os.ReadFile(name)
}

// expand returns the files that a name stands for.
func expand(name string) ([]string, error) {
	if name == "-" {
		return []string{name}, nil
	}
	info, err := os.Stat(name)
	if err != nil || !info.IsDir() {
		return []string{name}, err
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, entry := range entries {
		if !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(entry.Name())) {
			files = append(files, filepath.Join(name, entry.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("folder %s has no .yaml, .yml or .json file", name)
	}
	return files, nil
}
