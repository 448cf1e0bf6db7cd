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

// Line is a command of a page, and the heading above it.
type Line struct{ Heading, Command string }

// Console returns the commands of the console blocks of a page in their order: what follows a prompt "$ ", without what
// the command prints. A command goes on in the next line while a quote is open, or after a backslash.
func Console(page string) ([]Line, error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, fmt.Errorf("read a page of the documentation: %w", err)
	}
	return console(string(text)), nil
}

func console(text string) []Line {
	var all []Line
	heading, inside, open := "", false, false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		command, prompt := strings.CutPrefix(line, "$ ")
		switch {
		case inside && open:
			last := &all[len(all)-1]
			last.Command += "\n" + line
			open = unfinished(last.Command)
		case inside && line == "```":
			inside = false
		case inside && prompt:
			all = append(all, Line{heading, command})
			open = unfinished(command)
		case line == "```console":
			inside = true
		case strings.HasPrefix(line, "## "):
			heading = strings.TrimPrefix(line, "## ")
		}
	}
	return all
}

// unfinished reports whether a shell would wait for another line: a quote is open, or the last one ends in a backslash.
func unfinished(command string) bool {
	quote, escaped := rune(0), false
	for _, c := range command {
		switch {
		case escaped:
			escaped = false
		case c == '\\' && quote != '\'':
			escaped = true
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		}
	}
	return quote != 0 || escaped
}
