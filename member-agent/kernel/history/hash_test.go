package history_test

import (
	"strings"
	"testing"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
)

func TestLabel(t *testing.T) {
	long := strings.Repeat("x", 60)
	for _, tt := range []struct{ owner, form, want string }{
		{"web", "web-744d4796cc", "web-744d4796cc"},
		{"web", "744d4796cc", "744d4796cc"},
		{"web", "", "web-744d4796cc"},
		{"web-7", "7", "744d4796cc"},
		{strings.Repeat("x", 52), "a-b", strings.Repeat("x", 52) + "-744d4796cc"}, // 63 characters
		{strings.Repeat("x", 53), "a-b", "744d4796cc"},
		{long, "a-b", "744d4796cc"},
		{long, "7", "744d4796cc"},
	} {
		form := history.FormOf(tt.form)
		if got := form.Label(history.Name(tt.owner, "744d4796cc"), "744d4796cc"); got != tt.want {
			t.Errorf("owner %s in the form of %q: label %q, want %q", tt.owner, tt.form, got, tt.want)
		}
	}
}

// A hash never has a dash, else it would look like a name.
func TestHashesAreInTheShortForm(t *testing.T) {
	for i := range int32(1000) {
		if hash := history.Hash([]byte("data"), &i); history.FormOf(hash) != history.ShortForm ||
			history.FormOf(history.Name("web", hash)) != history.FullForm {
			t.Fatalf("hash %q", hash)
		}
	}
}
