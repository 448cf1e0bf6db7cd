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
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	strictyaml "sigs.k8s.io/yaml"

	appsv1alpha1 "github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/apis/crds"
	policy "github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/completions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/cron"
)

// errorsPage lists every reason, with a link to the page below errorsFolder that explains it under "## Reason".
const (
	errorsPage   = "docs/errors.md"
	errorsFolder = "docs/errors"
)

// TestEveryReasonIsExplained checks that the pages below errorsFolder have a heading for each reason that the code can
// write, and no heading for another, and that errorsPage links to each. reasonsOf says what counts as a reason.
func TestEveryReasonIsExplained(t *testing.T) {
	reasons := map[string]string{}
	// Reasons of package lending are left out: no object shows them.
	for _, p := range parsePackages(t, "apis", "hub", "member-agent", "topology/division") {
		maps.Copy(reasons, reasonsOf(p))
	}
	if len(reasons) < 50 {
		t.Fatalf("only %d reasons were found: the rule of reasonsOf does not fit the code any more", len(reasons))
	}
	// Reasons that are composed at run time, so parsing the source does not find them.
	failures := []apps.CloneSetConditionType{apps.CloneSetConditionFailedScale, apps.CloneSetConditionFailedUpdate}
	for _, condition := range failures {
		reasons[string(condition)] = "member-agent/workloads/cloneset"
	}
	for _, condition := range []apps.StatefulSetConditionType{
		apps.StatefulSetConditionFailedCreatePod, apps.StatefulSetConditionFailedUpdatePod,
	} {
		reasons[string(condition)] = "member-agent/workloads/statefulset"
	}
	for _, cause := range []completions.Cause{completions.DeadlineExceeded, completions.PodFailed} {
		reasons[string(cause)] = "member-agent/workloads/broadcastjob"
	}
	for _, cause := range []string{string(cron.TooLate), string(cron.StillRunning), string(cron.Elsewhere),
		string(cron.InvalidSchedule), string(cron.UnknownTimeZone), "FailedCreateJob"} {
		reasons[cause] = "member-agent/workloads/advancedcronjob"
	}
	named := map[string]bool{}
	for name, kind := range kinds.Workloads() {
		if kind.UpdateStrategy != nil { // others have no rollout, and no condition Progressing
			named[name.Kind] = true
		}
	}
	delete(named, apps.BroadcastJobKind.Kind) // jobs have no condition Progressing
	for kind := range named {
		n := conditions.NamesOf(kind)
		for _, name := range []string{n.Updated, n.Available, n.PartitionAvailable, n.Paused, n.DeadlineExceeded} {
			reasons[name] = "conditions.NamesOf"
		}
	}
	explained := explainedReasons(t)
	for reason, page := range explained {
		if _, ok := reasons[reason]; !ok {
			t.Errorf("%s explains %s, which no code writes: remove the heading", page, reason)
		}
	}
	index := readPage(t, errorsPage)
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		page := explained[reason]
		if page == "" {
			t.Errorf("no page below %s explains %s (%s): add a heading \"## %s\"", errorsFolder, reason, reasons[reason], reason)
			continue
		}
		anchor := anchorOf(reason)
		link := strings.TrimPrefix(page, "docs/") + "#" + anchor
		if !index.anchors[anchor] || !slices.Contains(index.links, link) {
			t.Errorf("%s does not list %s: add \"#### [%s](%s)\"", errorsPage, reason, reason, link)
		}
	}
}

// explainedReasons returns the page below errorsFolder that explains each reason.
func explainedReasons(t *testing.T) map[string]string {
	t.Helper()
	explained := map[string]string{}
	for _, p := range pages(t) {
		for _, h := range p.headings {
			if h.level != 2 || !under(p.name, errorsFolder) {
				continue
			}
			if other := explained[h.text]; other != "" {
				t.Errorf("%s and %s explain %s", other, p.name, h.text)
			}
			explained[h.text] = p.name
		}
	}
	return explained
}

// source is a parsed package without its tests.
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
		isSource := strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
		if entry.IsDir() || !underAny(name, folders) || !isSource {
			return
		}
		const mode = parser.ParseComments | parser.SkipObjectResolution
		file, err := parser.ParseFile(set, filepath.Join(root, filepath.FromSlash(name)), nil, mode)
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

// reasonsOf returns the reasons of a package, each with the file that has it. Two rules find them:
//
//  1. Declared: a string constant whose name begins with Reason or reason, or that is in a file reasons.go, or in a
//     group whose comment begins with "Reasons". Names that begin with Param are parameters of a reason.
//  2. Used: a string, or the constant with it, that is assigned to a field Reason or reason, also in a struct literal
//     with or without field names.
//
// Reasons of removed pods (type Removal, constant reasonEnded) are left out: events report them, not conditions.
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

// named returns the package and the name that an expression refers to. The package is nil if it was not parsed.
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

// fields returns the names of a struct's fields in order, or nil if there is no such struct.
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

// text returns the value of a string literal or of a named string constant, and "" for any other expression.
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

// literal returns the text of a string literal, or of several that are added; "" for any other expression.
func literal(expression ast.Expr) string {
	if sum, ok := expression.(*ast.BinaryExpr); ok && sum.Op == token.ADD {
		if first, second := literal(sum.X), literal(sum.Y); first != "" && second != "" {
			return first + second
		}
		return ""
	}
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

// page has the checked parts of a page of the docs.
type page struct {
	name     string
	headings []heading
	anchors  map[string]bool
	links    []string
	yaml     []string
	long     []string // lines of prose above maxColumns; tables and code may be longer
}

// Limits of a page: its size, and the columns of its prose.
const (
	maxBytes = 12 << 10
)

type heading struct {
	level int
	text  string
}

var (
	headingLine = regexp.MustCompile(`^(#{1,6}) +(.*?) *#*$`)
	inlineLink  = regexp.MustCompile(`\[([^\]]*)\]\(([^)\s]+)\)`)
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

// parsePage reads headings, links and yaml blocks. Code blocks contain no headings and no links.
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
			text := inlineLink.ReplaceAllString(m[2], "$1")
			p.headings = append(p.headings, heading{len(m[1]), text})
			p.anchors[freeAnchor(p.anchors, anchorOf(text))] = true
		}
		if !strings.HasPrefix(strings.TrimSpace(line), "|") && utf8.RuneCountInString(line) > maxColumns {
			p.long = append(p.long, line)
		}
		for _, m := range inlineLink.FindAllStringSubmatch(codeSpan.ReplaceAllString(line, "code"), -1) {
			p.links = append(p.links, m[2])
		}
	}
	return p
}

// anchorOf returns the anchor of a heading as code forges make it: lower case letters, digits, hyphens and underscores,
// and a hyphen for each space.
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

// freeAnchor returns the anchor, or the first of "anchor-1", "anchor-2" and so on that is not taken.
func freeAnchor(taken map[string]bool, anchor string) string {
	free := anchor
	for i := 1; taken[free]; i++ {
		free = anchor + "-" + strconv.Itoa(i)
	}
	return free
}

// pages returns README.md and all pages below docs.
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

// TestPagesAreShort checks the size of every page of the docs, and the columns of their prose.
func TestPagesAreShort(t *testing.T) {
	const agents, maxLines = "AGENTS.md", 60
	for _, p := range append(pages(t), readPage(t, agents), readPage(t, "CONTRIBUTING.md")) {
		data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(p.name)))
		if err != nil {
			t.Fatal(err)
		}
		limit := maxBytes
		if p.name == errorsPage {
			limit *= 2 // a list that is searched, not read
		}
		if len(data) > limit {
			t.Errorf("%s has %d bytes, more than %d: make it two pages", p.name, len(data), limit)
		}
		if lines := bytes.Count(data, []byte("\n")); p.name == agents && lines > maxLines {
			t.Errorf("%s has %d lines, more than %d", p.name, lines, maxLines)
		}
		for _, line := range p.long {
			t.Errorf("%s has a line above %d columns: %s", p.name, maxColumns, line)
		}
	}
}

// TestNumbersOfReadme checks that each row of the table in README.md is a row of the page whose table is computed by
// TestGlobalLimits in hub/decision.
func TestNumbersOfReadme(t *testing.T) {
	const from = "docs/tasks/canary-over-clusters.md"
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	computed, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(from)))
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `(?:partition|max)[^\n]+$").FindAllString(string(readme), -1)
	if len(rows) == 0 {
		t.Error("README.md has no numbers")
	}
	for _, row := range rows {
		if !strings.Contains(string(computed), "\n"+row+"\n") {
			t.Errorf("README.md has a row that %s does not have: %s", from, row)
		}
	}
}

// TestPagesNamedInCodeExist checks that a page which code, a chart or the Makefile names exists, with the heading that
// it names: a page of docs, or one whose name is in capitals, also when the name is followed by a part instead of .md.
func TestPagesNamedInCodeExist(t *testing.T) {
	named := regexp.MustCompile(`\bdocs/[a-z0-9/_-]+\.md(?:#[a-z0-9_-]+)?`)
	capitals := regexp.MustCompile(`\b([A-Z]{4,})(?:\.md\b| part [0-9])`)
	kinds := []string{".go", ".yaml", ".tpl", ".txt", ".json", ".sh", ".lua"}
	found := 0
	walk(t, func(name string, entry fs.DirEntry) {
		if entry.IsDir() || entry.Name() != "Makefile" && !slices.Contains(kinds, path.Ext(name)) {
			return
		}
		data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if errors.Is(err, fs.ErrNotExist) {
			return // a test beside this one made it and removed it
		}
		if err != nil {
			t.Errorf("read %s: %v", name, err)
		}
		for _, link := range named.FindAllString(string(data), -1) {
			found++
			target, anchor, _ := strings.Cut(link, "#")
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(target))); err != nil {
				t.Errorf("%s names %s: there is no such page", name, link)
			} else if anchor != "" && !readPage(t, target).anchors[anchor] {
				t.Errorf("%s names %s: the page has no such heading", name, link)
			}
		}
		for _, page := range capitals.FindAllStringSubmatch(string(data), -1) {
			if _, err := os.Stat(filepath.Join(root, page[1]+".md")); err != nil {
				t.Errorf("%s names %s: there is no %s.md", name, page[0], page[1])
			}
		}
	})
	if found < 20 {
		t.Errorf("only %d names of pages were found", found)
	}
}

// TestLinksResolve checks that every link within the repository leads to an existing file or folder, and heading.
func TestLinksResolve(t *testing.T) {
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

// TestManifestsOfDocs checks that every yaml block in the docs has only complete objects of kinds that our
// CustomResourceDefinitions or Kubernetes define, without unknown fields.
func TestManifestsOfDocs(t *testing.T) {
	served := servedKinds(t)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apps.AddToScheme, appsv1alpha1.AddToScheme, policy.AddToScheme, topology.AddToScheme,
		work.AddToScheme,
	} {
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

// wrongIn returns the mistakes of a manifest.
func wrongIn(document []byte, scheme *runtime.Scheme, served map[schema.GroupVersionKind]bool) []string {
	object := &unstructured.Unstructured{}
	if err := strictyaml.UnmarshalStrict(document, &object.Object); err != nil {
		return []string{"not YAML: " + err.Error()}
	}
	gvk := object.GroupVersionKind()
	ours := strings.Contains(gvk.Group, ".") && !strings.HasSuffix(gvk.Group, ".k8s.io")
	if !scheme.Recognizes(gvk) || ours && !served[gvk] {
		return []string{"unknown kind " + gvk.String() + "; a yaml block is a complete object, use ```text for a part of one"}
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

// servedKinds returns the kinds and versions that our CustomResourceDefinitions serve.
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
	p := parsePage("x.md", "# A page\n\n## `maxSurge`, twice\n## [`maxSurge`, twice](b.md#c)\n"+
		"[a](b.md#c) and `[no](link)`\n```yaml\n# no heading\nkind: X\n```\n```text\n[no](link)\n```\n")
	anchors := slices.Sorted(maps.Keys(p.anchors))
	if want := []string{"a-page", "maxsurge-twice", "maxsurge-twice-1"}; !slices.Equal(anchors, want) {
		t.Errorf("anchors %v, want %v", anchors, want)
	}
	if want := []string{"b.md#c", "b.md#c"}; !slices.Equal(p.links, want) {
		t.Errorf("links %v, want %v", p.links, want)
	}
	if want := []string{"# no heading\nkind: X\n"}; !slices.Equal(p.yaml, want) {
		t.Errorf("yaml %q, want %q", p.yaml, want)
	}
}
