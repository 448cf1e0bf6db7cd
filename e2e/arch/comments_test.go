package arch

import (
	"go/ast"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestCommentsNameWhatTheyDescribe checks that the doc comment of a declaration begins with its name, after an article
// if it has one, and that references in doc comments, such as [wire.Key], name a declaration of this module.
func TestCommentsNameWhatTheyDescribe(t *testing.T) {
	all := parsePackages(t, "apis", "cmd", "e2e", "hub", "member-agent", "topology")
	declared := map[string]map[string]bool{} // by folder
	for folder, p := range all {
		declared[folder] = p.declared()
	}
	for folder, p := range all {
		for _, name := range slices.Sorted(maps.Keys(p.files)) {
			file := p.files[name]
			if ast.IsGenerated(file) {
				continue
			}
			eachDocumented(file, func(identifier, doc string) {
				if !beginsWith(doc, identifier) {
					t.Errorf("%s/%s: the comment of %s begins with another name: %.60s", folder, name, identifier, doc)
				}
			})
			for _, group := range file.Comments {
				for _, reference := range unresolved(file, group.Text(), declared) {
					t.Errorf("%s/%s refers to [%s], which is not declared", folder, name, reference)
				}
			}
		}
	}
}

// eachDocumented visits the documented functions, types, constants and variables. A comment of a group may begin with
// any word, and so may one of an unexported constant or variable in a group, as it can stand for those that follow.
func eachDocumented(file *ast.File, visit func(identifier, doc string)) {
	for _, declaration := range file.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			if d.Doc != nil {
				visit(d.Name.Name, d.Doc.Text())
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				identifier, doc := documented(spec)
				if doc == nil && !d.Lparen.IsValid() {
					doc = d.Doc
				}
				_, isType := spec.(*ast.TypeSpec)
				single := isType || !d.Lparen.IsValid() || ast.IsExported(identifier)
				if doc != nil && identifier != "" && single {
					visit(identifier, doc.Text())
				}
			}
		}
	}
}

// documented returns the name that a specification declares, "" for none or several, and its own comment.
func documented(spec ast.Spec) (string, *ast.CommentGroup) {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		return s.Name.Name, s.Doc
	case *ast.ValueSpec:
		if len(s.Names) == 1 && s.Names[0].Name != "_" {
			return s.Names[0].Name, s.Doc
		}
	}
	return "", nil
}

// beginsWith reports whether a comment begins with the identifier. Directives for other programs have no text.
func beginsWith(doc, identifier string) bool {
	words := strings.Fields(doc)
	if len(words) > 1 && slices.Contains([]string{"A", "An", "The"}, words[0]) {
		words = words[1:]
	}
	if len(words) == 0 || strings.HasPrefix(words[0], "+") {
		return true
	}
	first, _, _ := strings.Cut(words[0], "'")
	return strings.TrimRight(first, ",.:;") == identifier
}

// declared returns the names that a package declares at its top level, and of its types' methods as Type.Method.
func (p *source) declared() map[string]bool {
	names := map[string]bool{}
	for _, file := range p.files {
		for _, declaration := range file.Decls {
			switch d := declaration.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					names[d.Name.Name] = true
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch s := spec.(type) {
					case *ast.TypeSpec:
						names[s.Name.Name] = true
					case *ast.ValueSpec:
						for _, name := range s.Names {
							names[name.Name] = true
						}
					}
				}
			}
		}
	}
	return names
}

// unresolved returns the references of a comment to packages of this module that do not declare the name. A package is
// found by its name in the imports of the file, else by its folder.
func unresolved(file *ast.File, comment string, declared map[string]map[string]bool) []string {
	reference := regexp.MustCompile(`\[(\w+)\.([A-Z]\w*)(?:\.\w+)?\]`)
	var found []string
	for _, match := range reference.FindAllStringSubmatch(comment, -1) {
		folders := foldersOf(file, match[1], declared)
		if len(folders) > 0 && !slices.ContainsFunc(folders, func(folder string) bool { return declared[folder][match[2]] }) {
			found = append(found, match[1]+"."+match[2])
		}
	}
	return found
}

// foldersOf returns the folders of the module that a package's name in a comment can mean.
func foldersOf(file *ast.File, name string, declared map[string]map[string]bool) []string {
	for _, imported := range file.Imports {
		whole := literal(imported.Path)
		local := path.Base(whole)
		if imported.Name != nil {
			local = imported.Name.Name
		}
		if local != name {
			continue
		}
		if folder, ours := strings.CutPrefix(whole, module); ours {
			return []string{folder}
		}
		return nil
	}
	var folders []string
	for folder := range declared {
		if path.Base(folder) == name {
			folders = append(folders, folder)
		}
	}
	return folders
}
