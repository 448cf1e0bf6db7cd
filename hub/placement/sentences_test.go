package placement

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/decision"
	"github.com/flotilla-dev/flotilla/hub/policy"
)

func TestSentences(t *testing.T) {
	long := strings.Repeat("ä", maxMessage)
	tests := []struct {
		name     string
		messages []string
		want     string
	}{
		{"none", nil, ""},
		{"all", []string{"a", "b", "c"}, "a; b; c"},
		{"as many as find room", []string{"a", long[:len(long)-4], "b", "c"}, "a; " + long[:len(long)-4] + "; b; and 1 more"},
		{"one that is too long", []string{"x" + long}, "x" + long[:len(long)-2] + " …"},
		{"and others after it", []string{long, "b", "c"}, long + "; and 2 more"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := sentences(tt.messages); got != tt.want {
				t.Errorf("%d characters, ends in %q; want %d, ending in %q", len([]rune(got)), last(got), len([]rune(tt.want)),
					last(tt.want))
			}
		})
	}
}

func last(s string) string {
	runes := []rune(s)
	return string(runes[max(len(runes)-20, 0):])
}

// TestVerdictsFitIntoAStatus holds that the verdict on the widest workload that an API server takes can be written as a
// condition, and says how much it does not tell.
func TestVerdictsFitIntoAStatus(t *testing.T) {
	const widest = 512 // spec.topology.subsets of a UnitedDeployment
	var words []string
	for i := range widest {
		words = append(words, fmt.Sprintf("subset-%d:%s-%d=1", i, strings.Repeat("z", 50), i))
	}
	w := subsets(widest, strings.Join(words, " "))
	facts := decision.Facts{Workload: w, Members: members("east/a"),
		Policy: topology.PolicyReference{Kind: policy.KindPolicy, Name: "all"}}
	verdict := (&State{Object: unitedDeployment()}).decided(new(plan(t, facts)))
	if verdict.Federated != metav1.ConditionFalse || verdict.Reason != decision.SubsetUnmatched {
		t.Errorf("verdict %s, %s", verdict.Federated, verdict.Reason)
	}
	if n := len(verdict.Message); n > 32768 || !strings.Contains(verdict.Message, `"subset-0"`) ||
		!strings.HasSuffix(verdict.Message, " more") {
		t.Errorf("a message of %d bytes that ends in %q", n, last(verdict.Message))
	}
}
