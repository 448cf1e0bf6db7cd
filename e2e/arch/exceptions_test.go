package arch

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// checkExceptions compares what breaks a rule with testdata/<list>.txt, which names what was there before the rule. A
// list only shrinks: what it does not name fails, and a line fails that names nothing which breaks the rule any more.
// broken has what is wrong with each offender, by the text of its line.
func checkExceptions(t *testing.T, list string, broken map[string]string) {
	t.Helper()
	file := filepath.Join("testdata", list+".txt")
	listed, err := readList(file)
	if err != nil {
		t.Fatal(err)
	}
	for offender, sentence := range broken {
		if !slices.Contains(listed, offender) {
			t.Errorf("%s: %s", offender, sentence)
		}
	}
	for _, line := range listed {
		if _, still := broken[line]; !still {
			t.Errorf("e2e/arch/%s: remove the line %q: it keeps the rule now", filepath.ToSlash(file), line)
		}
	}
}

// readList returns the lines of a file without comments.
func readList(name string) ([]string, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var lines []string
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		if line := strings.TrimSpace(scanner.Text()); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines, scanner.Err()
}
