// Package page reads the documentation for tests that do what it says.
package page

import (
	"fmt"
	"os"
	"strings"
)

// Commands returns the lines of the shell blocks of a page, by the heading above them.
func Commands(page string) (map[string][]string, error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, fmt.Errorf("read a page of the documentation: %w", err)
	}
	all, heading, inside := map[string][]string{}, "", false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		switch {
		case inside && line == "```":
			inside = false
		case inside:
			all[heading] = append(all[heading], line)
		case line == "```sh":
			inside = true
		case strings.HasPrefix(line, "## "):
			heading = strings.TrimPrefix(line, "## ")
		}
	}
	return all, nil
}
