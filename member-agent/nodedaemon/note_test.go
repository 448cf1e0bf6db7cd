package nodedaemon

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestNote(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "short": 5, "\xff": 1, strings.Repeat("a", 1000): 1000, strings.Repeat("a", 1001): 1003,
		"a" + strings.Repeat("é", 1000): 1002,
	} {
		if got := Note(text); len(got) != want || !utf8.ValidString(got) || len(got) > 1024 {
			t.Errorf("%d bytes of %d, want %d", len(got), len(text), want)
		}
	}
}
