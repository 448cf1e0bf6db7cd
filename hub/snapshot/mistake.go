package snapshot

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// Mistake is one thing that is wrong in a file.
type Mistake struct {
	File string
	// Line of the file that holds the field; of what is missing, the line of what should hold it.
	Line int
	// Kind of the object, "" where it cannot be read.
	Kind string
	// Path of the field in the document, such as spec.replicas; "" for the document as a whole.
	Path string
	// Problem says what is wrong, with the object and the value, and what to do.
	Problem string
	// Foreign is set for a document that is no object of an API, but of another tool.
	Foreign Foreign
}

// Error returns the mistake as one sentence.
func (m *Mistake) Error() string {
	return fmt.Sprintf("%s, line %d: %s", m.File, m.Line, m.Problem)
}

// at returns the error with the path of the field that it is about.
func at(path string, err error) error {
	return &Mistake{Path: path, Problem: err.Error()}
}

// within returns the error about an object of a kind that is at a path of the document.
func within(path, kind string, err error) error {
	m := &Mistake{}
	if !errors.As(err, &m) {
		m = &Mistake{Problem: err.Error()}
	}
	m.Path, m.Kind = joined(path, m.Path), kind
	return m
}

// mistake returns an error about the document as a mistake with its place in the file.
func (d *document) mistake(file string, err error) *Mistake {
	m := &Mistake{}
	if !errors.As(err, &m) {
		m = &Mistake{Problem: err.Error()}
	}
	m.File = file
	if m.Line == 0 {
		m.Line = d.lineOf(m.Path)
	}
	if m.Kind == "" {
		m.Kind = d.kind
	}
	return m
}

// longest is how much of a value a sentence shows, in bytes.
const longest = 80

// shown returns a value as a sentence shows it: lists and objects only in kind.
func shown(value any) string {
	switch value.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	}
	text := quoted(value)
	if len(text) <= longest {
		return text
	}
	end := longest
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}
