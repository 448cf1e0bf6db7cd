package snapshot

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

// document is one YAML or JSON document of a file.
type document struct {
	text string
	// line is the number of the text's first line in the file, first that of the first line with content.
	line, first int
	// kind is that of the object, as far as it can be read.
	kind string
	node *yamlv3.Node
}

// decoded returns a file's text as UTF-8 without a byte order mark.
func decoded(text []byte) string {
	var order binary.ByteOrder
	switch {
	case bytes.HasPrefix(text, []byte{0xff, 0xfe}):
		order = binary.LittleEndian
	case bytes.HasPrefix(text, []byte{0xfe, 0xff}):
		order = binary.BigEndian
	default:
		return strings.TrimPrefix(string(text), byteOrderMark)
	}
	units := make([]uint16, 0, len(text)/2)
	for i := 2; i+1 < len(text); i += 2 {
		units = append(units, order.Uint16(text[i:]))
	}
	return string(utf16.Decode(units))
}

const byteOrderMark = "\ufeff"

// documents splits a file. Documents with nothing but comments and directives are left out.
func documents(text string) []document {
	if all := jsonDocuments(text); all != nil {
		return all
	}
	var all []document
	current := document{line: 1}
	end := func(next int) {
		if current.first > 0 {
			all = append(all, current)
		}
		current = document{line: next}
	}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimPrefix(line, byteOrderMark) // of files that were joined
		bare := strings.TrimRight(line, " \t\r\n")
		switch {
		case bare == "...", bare == "---", strings.HasPrefix(bare, "--- #"), strings.HasPrefix(bare, "---\t#"):
			end(number + 1)
			continue
		case strings.HasPrefix(bare, "--- "), strings.HasPrefix(bare, "---\t"):
			end(number)
			line = "   " + line[3:]
		case current.first == 0 && strings.HasPrefix(bare, "%"):
			line = "#" + line[1:] // such as %YAML 1.2
		}
		if begins := strings.TrimSpace(line); current.first == 0 && begins != "" && !strings.HasPrefix(begins, "#") {
			current.first = number
		}
		current.text += line
	}
	end(0)
	return all
}

// jsonDocuments splits a stream of JSON objects; nil for any other text.
func jsonDocuments(text string) []document {
	if !strings.HasPrefix(strings.TrimSpace(text), "{") {
		return nil
	}
	var all []document
	decoder := json.NewDecoder(strings.NewReader(text))
	for {
		from := int(decoder.InputOffset())
		var raw json.RawMessage
		if err := decoder.Decode(&raw); errors.Is(err, io.EOF) {
			return all
		} else if err != nil || raw[0] != '{' {
			return nil
		}
		line := 1 + strings.Count(text[:from], "\n")
		part := text[from:decoder.InputOffset()]
		space := part[:len(part)-len(raw)]
		// YAML takes no tabs; in JSON they are no part of a value.
		all = append(
			all,
			document{text: strings.ReplaceAll(part, "\t", " "), line: line, first: line + strings.Count(space, "\n")},
		)
	}
}

// json returns the document as JSON. It errs for what is no YAML, or has a key twice.
func (d *document) json() ([]byte, error) {
	node := &yamlv3.Node{}
	// What only one of the two parsers takes has no positions, and is judged by the one that API servers use.
	if err := yamlv3.Unmarshal([]byte(d.text), node); err == nil && len(node.Content) == 1 {
		d.node = node.Content[0]
		if mistakes := d.duplicates("", d.node); len(mistakes) > 0 {
			return nil, errors.Join(mistakes...)
		}
	}
	data, err := yaml.YAMLToJSONStrict([]byte(d.text))
	if err != nil {
		return nil, d.invalid(err)
	}
	return data, nil
}

// duplicates returns a mistake for each key that a mapping has twice.
func (d *document) duplicates(path string, node *yamlv3.Node) []error {
	var mistakes []error
	switch node.Kind {
	case yamlv3.MappingNode:
		lines := map[string]int{}
		for i := 0; i+1 < len(node.Content); i += 2 {
			key, value := node.Content[i], node.Content[i+1]
			field := joined(path, key.Value)
			if before, ok := lines[key.Value]; ok && key.Kind == yamlv3.ScalarNode {
				mistakes = append(mistakes, &Mistake{Line: d.line + key.Line - 1, Path: field, Problem: fmt.Sprintf(
					"this is no valid YAML: key %q already set in line %d (%s is %s); remove one of them",
					key.Value, d.line+before-1, field, shown(scalar(value)))})
			}
			lines[key.Value] = key.Line
			mistakes = append(mistakes, d.duplicates(field, value)...)
		}
	case yamlv3.SequenceNode:
		for i, item := range node.Content {
			mistakes = append(mistakes, d.duplicates(fmt.Sprintf("%s[%d]", path, i), item)...)
		}
	}
	return mistakes
}

// scalar returns the value of a node, without what is in a list or a mapping.
func scalar(node *yamlv3.Node) any {
	var value any
	switch {
	case node.Kind == yamlv3.MappingNode:
		return map[string]any{}
	case node.Kind == yamlv3.SequenceNode:
		return []any{}
	case node.Decode(&value) != nil:
		return node.Value
	}
	return value
}

// invalid returns the mistake for a text that is no YAML.
func (d *document) invalid(err error) error {
	d.kind = guessedKind(d.text)
	m := &Mistake{Line: d.first}
	number := 0
	for line := range strings.Lines(d.text) {
		indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
		if strings.Contains(indent, "\t") && strings.TrimSpace(line) != "" {
			m.Line, m.Problem = d.line+number, fmt.Sprintf(
				"this is no valid YAML: a tab indents %q; use spaces",
				strings.TrimSpace(line),
			)
			return asTemplate(m, d.text)
		}
		number++
	}
	text := strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")
	text = strings.TrimPrefix(strings.TrimPrefix(text, "yaml: "), "unmarshal errors:\n  ")
	text, _, _ = strings.Cut(text, "\n")
	if found := positioned().FindStringSubmatch(text); found != nil {
		// A number that cannot be read is none of the parser's.
		n, _ := strconv.Atoi(found[1])
		text = found[2]
		if strings.HasPrefix(text, "did not find expected") {
			n++ // the parser counts from 0, the scanner from 1
		}
		m.Line = d.line + min(max(n, 1), strings.Count(strings.TrimRight(d.text, "\r\n"), "\n")+1) - 1
	}
	m.Problem = fmt.Sprintf("this is no valid YAML: %s in %q; correct it", text, lineAt(d.text, m.Line-d.line))
	return asTemplate(m, d.text)
}

func positioned() *regexp.Regexp { return regexp.MustCompile(`^line (\d+): (.*)$`) }

// lineAt returns a line of a text, counted from 0.
func lineAt(text string, number int) string {
	lines := strings.Split(text, "\n")
	return strings.TrimSpace(lines[max(0, min(number, len(lines)-1))])
}

// guessedKind returns the kind that a text seems to be of, "" if it names none.
func guessedKind(text string) string {
	if found := regexp.MustCompile(`(?m)^"?kind"?:\s*["']?(\w+)`).FindStringSubmatch(text); found != nil {
		return found[1]
	}
	return ""
}

// lineOf returns the line of the file that holds a field, or what is there of its path.
func (d *document) lineOf(path string) int {
	if d.node == nil {
		return d.first
	}
	line := d.first
	for node := d.node; node != nil && path != ""; {
		if node.Kind == yamlv3.AliasNode {
			node = node.Alias
		}
		var next *yamlv3.Node
		rest := ""
		switch node.Kind {
		case yamlv3.MappingNode:
			for i := 0; i+1 < len(node.Content); i += 2 {
				key := node.Content[i].Value
				after, ok := strings.CutPrefix(path, key)
				// A key may hold dots itself: the longest one that fits is meant.
				if ok && (after == "" || after[0] == '.' || after[0] == '[') && (next == nil || len(after) < len(rest)) {
					next, rest, line = node.Content[i+1], after, d.line+node.Content[i].Line-1
				}
			}
		case yamlv3.SequenceNode:
			var i int
			if _, err := fmt.Sscanf(path, "[%d]", &i); err == nil && i < len(node.Content) {
				next, line = node.Content[i], d.line+node.Content[i].Line-1
				_, rest, _ = strings.Cut(path, "]")
			}
		}
		node, path = next, strings.TrimPrefix(rest, ".")
	}
	return line
}
