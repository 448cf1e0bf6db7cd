package wording_test

import (
	"strings"
	"testing"

	"github.com/flotilla-dev/flotilla/e2e/wording"
)

func TestWrong(t *testing.T) {
	for sentence, want := range map[string]string{
		"no member gets this CloneSet: label the namespace": "",
		"the member was not heard of for 40s":               `"heard of"`,
		"Somebody else may have its token":                  `"somebody"`,
		"newsletter, untold":                                "",
		strings.Repeat("ä", wording.Longest):                "",
		strings.Repeat("ä", wording.Longest+1):              "301 characters",
	} {
		if got := wording.Wrong(sentence); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%.40q: %q, want %q", sentence, got, want)
		}
	}
}
