package main

import (
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// TestSabotagesFitTheSource holds that each rule is where its sabotage looks for it, and that what stands instead is
// Go.
func TestSabotagesFitTheSource(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sabotages() {
		source, err := s.apply(root)
		if err != nil {
			t.Error(err)
			continue
		}
		if !strings.Contains(source, s.instead) {
			t.Errorf("%s: the source does not have %q", s.name, s.instead)
		}
		if _, err := parser.ParseFile(token.NewFileSet(), s.file, source, parser.SkipObjectResolution); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
	}
}
