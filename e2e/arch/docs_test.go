package arch

import (
	"bytes"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	strictyaml "sigs.k8s.io/yaml"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/apis/crds"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
)

// errorsPage has one heading "## Reason" for each reason.
const errorsPage = "docs/errors.md"

// TestEveryReasonIsExplained holds that docs/errors.md has a heading for each reason that the code can write, and no
// heading for another. What counts as a reason says reasonsOf.
func TestEveryReasonIsExplained(t *testing.T) {
	reasons := map[string]string{}
	// Package lending has reasons too; they are shown on no object.
	for folder, p := range parsePackages(t, "apis", "hub", "member-agent", "topology/division") {
		if folder == "member-agent/kernel/simulator" {
			continue // it plays a kubelet, in tests alone
		}
		maps.Copy(reasons, reasonsOf(p))
	}
	if len(reasons) < 50 {
		t.Fatalf("only %d reasons were found: the rule of reasonsOf does not fit the code any more", len(reasons))
	}
	// Reasons that are put together at run time, which no reading of the source finds.
	for _, condition := range []apps.CloneSetConditionType{apps.CloneSetConditionFailedScale, apps.CloneSetConditionFailedUpdate} {
		reasons[string(condition)] = "member-agent/workloads/cloneset"
	}
	for kind := range kinds.Divided() {
		names := conditions.NamesOf(kind.Kind)
		for _, name := range []string{names.Updated, names.Available, names.PartitionAvailable, names.Paused, names.DeadlineExceeded} {
			reasons[name] = "conditions.NamesOf"
		}
	}
	headings := map[string]bool{}
	for _, h := range readPage(t, errorsPage).headings {
		if h.level != 2 {
			continue
		}
		if headings[h.text] {
			t.Errorf("%s explains %s twice", errorsPage, h.text)
		}
		headings[h.text] = true
		if _, ok := reasons[h.text]; !ok {
			t.Errorf("%s explains %s, which no code writes: remove the heading", errorsPage, h.text)
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		if !headings[reason] {
			t.Errorf("%s does not explain %s (%s): add a heading \"## %s\"", errorsPage, reason, reasons[reason], reason)
		}
	}
}

// source is a package as it was parsed, tests left out.
type source struct {
	folder string
	files  map[string]*ast.File
	all    map[string]*source // every package that was parsed, by its folder
}

// parsePackages parses the packages below the folders.
func parsePackages(t *testing.T, folders ...string) map[string]*source {
	t.Helper()
	set, all := token.NewFileSet(), map[string]*source{}
	walk(t, func(name string, entry fs.DirEntry) {
		if entry.IsDir() || !underAny(name, folders) || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return
		}
		file, err := parser.ParseFile(set, filepath.Join(root, filepath.FromSlash(name)), nil, parser.ParseComments|parser.SkipObjectResolution)
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err != nil {
			t.Fatalf("parse %s: %v", name, err)
		}
		folder := path.Dir(name)
		if all[folder] == nil {
			all[folder] = &source{folder: folder, files: map[string]*ast.File{}, all: all}
		}
		all[folder].files[path.Base(name)] = file
	})
	return all
}

// reasonsOf returns the reasons of a package, each with where it was found. Two rules find them, so that a new reason is
// found however it is written:
//
//  1. Declared: a string constant whose name begins with Reason or reason, or that stands in a file reasons.go, or in a
//     group whose comment begins with "Reasons". Names that begin with Param are parameters of a reason, no reasons.
//  2. Used: a string, or the constant that holds it, that is put into a field Reason or reason: in a literal of a struct,
//     with or without the name of the field, or by an assignment.
//
// Pods that are removed have a reason too (type Removal, constant reasonEnded); it is told by an event and is no condition's.
func reasonsOf(p *source) map[string]string {
	found := map[string]string{}
	for name, file := range p.files {
		at := p.folder + "/" + name
		for _, value := range declaredReasons(name, file) {
			found[value] = at
		}
		ast.Inspect(file, func(node ast.Node) bool {
			for _, used := range usedReasons(p, file, node) {
				if value := p.text(file, used); value != "" {
					found[value] = at
				}
			}
			return true
		})
	}
	return found
}

func declaredReasons(name string, file *ast.File) []string {
	var values []string
	eachConstant(file, func(group *ast.GenDecl, constant, value string) {
		named := strings.HasPrefix(strings.ToLower(constant), "reason") && constant != "reasonEnded"
		placed := name == "reasons.go" || group.Lparen.IsValid() && strings.HasPrefix(group.Doc.Text(), "Reasons")
		if named || placed && !strings.HasPrefix(constant, "Param") {
			values = append(values, value)
		}
	})
	return values
}

// eachConstant visits the constants of the file that are written as a string.
func eachConstant(file *ast.File, visit func(group *ast.GenDecl, name, value string)) {
	for _, declaration := range file.Decls {
		group, ok := declaration.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			constants, _ := spec.(*ast.ValueSpec)
			for i, name := range constants.Names {
				if i < len(constants.Values) {
					if value := literal(constants.Values[i]); value != "" {
						visit(group, name.Name, value)
					}
				}
			}
		}
	}
}

// usedReasons returns what the node puts into a field Reason.
func usedReasons(p *source, file *ast.File, node ast.Node) []ast.Expr {
	var used []ast.Expr
	isReason := func(name string) bool { return name == "Reason" || name == "reason" }
	switch n := node.(type) {
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			if field, ok := left.(*ast.SelectorExpr); ok && isReason(field.Sel.Name) && len(n.Lhs) == len(n.Rhs) {
				used = append(used, n.Rhs[i])
			}
		}
	case *ast.CompositeLit:
		owner, name := p.named(file, n.Type)
		if name == "Removal" {
			return nil
		}
		fields := owner.fields(name)
		for i, element := range n.Elts {
			if pair, ok := element.(*ast.KeyValueExpr); ok {
				if key, ok := pair.Key.(*ast.Ident); ok && isReason(key.Name) {
					used = append(used, pair.Value)
				}
			} else if i < len(fields) && isReason(fields[i]) {
				used = append(used, element)
			}
		}
	}
	return used
}

// named returns the package and the name that an expression means; the package is nil where it was not parsed.
func (p *source) named(file *ast.File, expression ast.Expr) (*source, string) {
	switch e := expression.(type) {
	case *ast.Ident:
		return p, e.Name
	case *ast.SelectorExpr:
		of, ok := e.X.(*ast.Ident)
		if !ok {
			return nil, ""
		}
		for _, imported := range file.Imports {
			whole := literal(imported.Path)
			local := path.Base(whole)
			if imported.Name != nil {
				local = imported.Name.Name
			}
			if local == of.Name {
				return p.all[strings.TrimPrefix(whole, module)], e.Sel.Name
			}
		}
	}
	return nil, ""
}

// fields returns the names of a struct's fields in order, nil where there is no such struct.
func (p *source) fields(name string) []string {
	if p == nil {
		return nil
	}
	var names []string
	for _, file := range p.files {
		ast.Inspect(file, func(node ast.Node) bool {
			declared, ok := node.(*ast.TypeSpec)
			if !ok || declared.Name.Name != name {
				return true
			}
			if body, ok := declared.Type.(*ast.StructType); ok {
				for _, field := range body.Fields.List {
					for _, n := range field.Names {
						names = append(names, n.Name)
					}
				}
			}
			return false
		})
	}
	return names
}

// text returns the string that an expression is, or that the constant holds which it names; empty for anything else.
func (p *source) text(file *ast.File, expression ast.Expr) string {
	if value := literal(expression); value != "" {
		return value
	}
	owner, name := p.named(file, expression)
	if owner == nil {
		return ""
	}
	found := ""
	for _, f := range owner.files {
		eachConstant(f, func(_ *ast.GenDecl, constant, value string) {
			if constant == name {
				found = value
			}
		})
	}
	return found
}

func literal(expression ast.Expr) string {
	basic, ok := expression.(*ast.BasicLit)
	if !ok || basic.Kind != token.STRING {
		return ""
	}
	value, err := strconv.Unquote(basic.Value)
	if err != nil {
		return ""
	}
	return value
}

func TestReasonsOf(t *testing.T) {
	files := map[string]string{
		"reasons.go": "package p\nconst (\nNoPolicy = \"A\"\nParamX = \"x\"\n)\n",
		"p.go": `package p
// Reasons of something.
const ( Grouped = "B" )
const reasonNamed, Other = "C", "other"
const Lone = "D"
const reasonEnded = "event"
type refusal struct { reason, message string }
type Removal struct { Reason string }
func f(c *struct{ Status, Reason string }) {
	_ = &refusal{"E", "text"}
	_ = refusal{message: "text", reason: Lone}
	_ = []any{Removal{Reason: "no condition"}}
	c.Status, c.Reason = "True", "F"
}
`,
	}
	p := &source{folder: "p", files: map[string]*ast.File{}, all: map[string]*source{}}
	for name, text := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		p.files[name] = file
	}
	got := strings.Join(slices.Sorted(maps.Keys(reasonsOf(p))), " ")
	if want := "A B C D E F"; got != want {
		t.Errorf("found %q, want %q", got, want)
	}
}

// page is a page of the docs, as far as it is checked.
type page struct {
	name     string
	headings []heading
	anchors  map[string]bool
	links    []string
	yaml     []string
}

type heading struct {
	level int
	text  string
}

var (
	headingLine = regexp.MustCompile(`^(#{1,6}) +(.*?) *#*$`)
	inlineLink  = regexp.MustCompile(`\[[^\]]*\]\(([^)\s]+)\)`)
	codeSpan    = regexp.MustCompile("`[^`]*`")
)

func readPage(t *testing.T, name string) page {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatalf("read %s: %v", name, err)
	}
	return parsePage(name, string(data))
}

// parsePage reads headings, links and yaml blocks. Code is no prose: nothing in a fence is a heading or a link.
func parsePage(name, text string) page {
	p := page{name: name, anchors: map[string]bool{}}
	fenced, language, block := false, "", strings.Builder{}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if fence, ok := strings.CutPrefix(strings.TrimSpace(line), "```"); ok {
			if fenced && language == "yaml" {
				p.yaml = append(p.yaml, block.String())
			}
			fenced, language = !fenced, fence
			block.Reset()
			continue
		}
		if fenced {
			block.WriteString(line + "\n")
			continue
		}
		if m := headingLine.FindStringSubmatch(line); m != nil {
			p.headings = append(p.headings, heading{len(m[1]), m[2]})
			p.anchors[freeAnchor(p.anchors, anchorOf(m[2]))] = true
		}
		for _, m := range inlineLink.FindAllStringSubmatch(codeSpan.ReplaceAllString(line, "code"), -1) {
			p.links = append(p.links, m[1])
		}
	}
	return p
}

// anchorOf is the anchor of a heading as code forges make it: lower case, letters, digits, hyphens and underscores, and a
// hyphen for each space.
func anchorOf(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return -1
	}, strings.ToLower(text))
}

// freeAnchor is the anchor, or the first "anchor-1", "anchor-2" that is not taken.
func freeAnchor(taken map[string]bool, anchor string) string {
	free := anchor
	for i := 1; taken[free]; i++ {
		free = anchor + "-" + strconv.Itoa(i)
	}
	return free
}

// pages returns README.md and everything below docs.
func pages(t *testing.T) []page {
	t.Helper()
	all := []page{readPage(t, "README.md")}
	walk(t, func(name string, entry fs.DirEntry) {
		if !entry.IsDir() && under(name, "docs") && strings.HasSuffix(name, ".md") {
			all = append(all, readPage(t, name))
		}
	})
	return all
}

// TestLinksLead holds that every link within the repository leads to a file or folder that is there, and to a heading that
// is there.
func TestLinksLead(t *testing.T) {
	for _, p := range pages(t) {
		for _, link := range p.links {
			if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
				continue
			}
			file, anchor, _ := strings.Cut(link, "#")
			target := p.name
			if file != "" {
				target = path.Join(path.Dir(p.name), file)
			}
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(target))); err != nil {
				t.Errorf("%s links to %s: there is no %s", p.name, link, target)
				continue
			}
			if anchor != "" && !readPage(t, target).anchors[anchor] {
				t.Errorf("%s links to %s: %s has no heading #%s", p.name, link, target, anchor)
			}
		}
	}
}

// TestManifestsOfDocs holds that every block of yaml in the docs is whole objects of kinds that our
// CustomResourceDefinitions or Kubernetes have, without a field that the type does not have.
func TestManifestsOfDocs(t *testing.T) {
	served := servedKinds(t)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apps.AddToScheme, topology.AddToScheme, work.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	checked := 0
	for _, p := range pages(t) {
		for _, block := range p.yaml {
			documents, err := split(block)
			if err != nil {
				t.Errorf("%s: a yaml block cannot be read: %v\n%s", p.name, err, block)
			}
			for _, document := range documents {
				checked++
				for _, sentence := range wrongIn(document, scheme, served) {
					t.Errorf("%s: %s\n%s", p.name, sentence, document)
				}
			}
		}
	}
	if checked == 0 {
		t.Error("no manifest was found in the docs")
	}
}

// split returns the documents of a yaml block.
func split(block string) ([][]byte, error) {
	var documents [][]byte
	for reader := yaml.NewDocumentDecoder(io.NopCloser(strings.NewReader(block))); ; {
		buffer := make([]byte, len(block)+1)
		n, err := reader.Read(buffer)
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return nil, err
		}
		if document := bytes.TrimSpace(buffer[:n]); len(document) > 0 {
			documents = append(documents, document)
		}
	}
}

// wrongIn returns what is wrong with a manifest.
func wrongIn(document []byte, scheme *runtime.Scheme, served map[schema.GroupVersionKind]bool) []string {
	object := &unstructured.Unstructured{}
	if err := strictyaml.UnmarshalStrict(document, &object.Object); err != nil {
		return []string{"it is no yaml: " + err.Error()}
	}
	gvk := object.GroupVersionKind()
	if !scheme.Recognizes(gvk) || strings.Contains(gvk.Group, ".") && !strings.HasSuffix(gvk.Group, ".k8s.io") && !served[gvk] {
		return []string{"there is no kind " + gvk.String() + "; a yaml block is a whole object, use ```text for a part of one"}
	}
	typed, err := scheme.New(gvk)
	if err != nil {
		return []string{err.Error()}
	}
	if err := strictyaml.UnmarshalStrict(document, typed); err != nil {
		return []string{err.Error()}
	}
	return nil
}

// servedKinds are the kinds and versions that our CustomResourceDefinitions serve.
func servedKinds(t *testing.T) map[schema.GroupVersionKind]bool {
	t.Helper()
	all, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	served := map[schema.GroupVersionKind]bool{}
	for _, crd := range all {
		group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		for _, v := range versions {
			if version, ok := v.(map[string]any); ok && version["served"] == true {
				name, _ := version["name"].(string)
				served[schema.GroupVersionKind{Group: group, Version: name, Kind: kind}] = true
			}
		}
	}
	return served
}

func TestParsePage(t *testing.T) {
	p := parsePage("x.md", "# A page\n\n## `maxSurge`, twice\n## `maxSurge`, twice\n[a](b.md#c) and `[no](link)`\n```yaml\n# no heading\nkind: X\n```\n```text\n[no](link)\n```\n")
	anchors := slices.Sorted(maps.Keys(p.anchors))
	if want := []string{"a-page", "maxsurge-twice", "maxsurge-twice-1"}; !slices.Equal(anchors, want) {
		t.Errorf("anchors %v, want %v", anchors, want)
	}
	if want := []string{"b.md#c"}; !slices.Equal(p.links, want) {
		t.Errorf("links %v, want %v", p.links, want)
	}
	if want := []string{"# no heading\nkind: X\n"}; !slices.Equal(p.yaml, want) {
		t.Errorf("yaml %q, want %q", p.yaml, want)
	}
}
