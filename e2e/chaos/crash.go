package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/flotilla-dev/flotilla/e2e/judge"
)

// logs are the paths of the logs of our programs, by name.
type logs map[string]string

// programLogs returns those of all programs.
func (s *stage) programLogs() logs {
	l := logs{}
	for _, name := range s.h.Fleet.Programs() {
		l[name] = s.h.Fleet.LogFile(name)
	}
	return l
}

// read returns what a log has after so many bytes, nothing where there is no log.
func (l logs) read(name string, after int) string {
	data, err := os.ReadFile(l[name])
	if err != nil {
		return ""
	}
	return string(data[min(after, len(data)):])
}

// sizes returns how many bytes each has.
func (l logs) sizes() map[string]int {
	all := map[string]int{}
	for name := range l {
		all[name] = len(l.read(name, 0))
	}
	return all
}

// crashes returns what logs say, after so many bytes of each, of programs that crashed: all of it, since a program that
// was started again may have said much since.
func (l logs) crashes(after map[string]int) (found []judge.Violation) {
	for _, name := range slices.Sorted(maps.Keys(l)) {
		text := l.read(name, after[name])
		for _, word := range []string{"panic:", "fatal error:", "Observed a panic"} {
			if strings.Contains(text, word) {
				found = append(found, judge.Violation{At: time.Now(), Rule: judge.RuleCrash,
					What: fmt.Sprintf("the log of %s has %q", name, word)})
			}
		}
	}
	return found
}
