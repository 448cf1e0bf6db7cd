package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// maxLine is how many characters a schema of types has at most on one line, so that a line still shows one struct of
// Kubernetes.
const maxLine = 1500

// lines gives each schema that holds types alone one line of the file: written out they are most of it.
type lines struct {
	// pairs are a mark in the file and the line that it stands for, in turn.
	pairs []string
	marks map[string]string
}

// write returns the CustomResourceDefinition as YAML. Its schemas hold marks afterwards: it is of no more use.
func write(crd map[string]any, schemas []schema) ([]byte, error) {
	l := &lines{marks: map[string]string{}}
	for _, s := range schemas {
		if err := l.shorten(s); err != nil {
			return nil, err
		}
	}
	data, err := yaml.Marshal(crd)
	if err != nil {
		return nil, err
	}
	return []byte(strings.NewReplacer(l.pairs...).Replace(string(data))), nil
}

// shorten replaces what is below node by marks where it fits one line.
func (l *lines) shorten(node schema) error {
	for _, parent := range []schema{node, below(node)} {
		for key, value := range parent {
			child, ok := value.(map[string]any)
			if !ok || key == "properties" {
				continue
			}
			line, err := flow(child)
			if err != nil {
				return err
			}
			if child["nullable"] != true || len(line) > maxLine {
				if err := l.shorten(child); err != nil {
					return err
				}
				continue
			}
			if l.marks[line] == "" {
				l.marks[line] = fmt.Sprintf("TYPES-ONLY-%04d-", len(l.marks))
				l.pairs = append(l.pairs, l.marks[line], line)
			}
			parent[key] = l.marks[line]
		}
	}
	return nil
}

// below returns the properties of a node.
func below(node schema) schema {
	properties, _ := node["properties"].(map[string]any)
	return properties
}

// flow returns a value as one line of YAML.
func flow(value any) (string, error) {
	node, ok := value.(map[string]any)
	if !ok {
		line, err := json.Marshal(value)
		return string(line), err
	}
	fields := make([]string, 0, len(node))
	for _, key := range slices.Sorted(maps.Keys(node)) {
		line, err := flow(node[key])
		if err != nil {
			return "", err
		}
		fields = append(fields, key+": "+line)
	}
	return "{" + strings.Join(fields, ", ") + "}", nil
}
