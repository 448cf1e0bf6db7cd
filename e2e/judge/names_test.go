package judge

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// identities is a StatefulSet in a and b, whose cells have three ordinals each: 0 to 2, and 1000 to 1002.
func identities(unavailable int32) *past {
	p := newPast().user(1, 6, unavailable, 0).hub(1, 6, 6, unavailable, 0, unavailable)
	p.ordinals("a", 1, unavailable, 0, 3).ordinals("b", 1, unavailable, 1000, 3)
	return p.ready("a", "0", "1", "2").ready("b", "1000", "1001", "1002").rest(10)
}

// ordinals is a version of a member's StatefulSet, which was observed at once.
func (p *past) ordinals(cluster string, generation int64, unavailable, start, replicas int32) *past {
	p.set(cluster, generation, replicas, unavailable, 0, generation)
	cell := p.log[len(p.log)-1].Cell
	cell.Unique = true
	cell.Spec.Has = func(pod string) bool {
		ordinal, err := strconv.Atoi(pod)
		return err == nil && int32(ordinal) >= start && int32(ordinal) < start+replicas
	}
	return p
}

// terminating tells that a pod is being deleted by us, and runs on.
func (p *past) terminating(cluster, name string) *past {
	p.asks(cluster, name, Deletion{Ours: true, Code: 200})
	return p.pod(cluster, name, func(s *Pod) { s.Active, s.Deleted = false, p.now })
}

func TestNames(t *testing.T) {
	tests := []struct {
		name string
		past *past
		want []string
	}{
		{"each member has its own names", identities(1).remove("a", true, "2").create("a", "2").rest(9), nil},
		{"two members have one name", identities(1).ordinals("b", 2, 1, 0, 3).create("b", "1").rest(9),
			[]string{ruleNames + "|b: cell web of web creates pod 1, which exists in a"}},
		{"also while the other pod is being deleted",
			identities(2).terminating("a", "1").ordinals("b", 2, 2, 0, 3).create("b", "1").rest(9), []string{ruleNames}},
		{"a name moves when the pod is gone",
			identities(1).remove("a", false, "1").ordinals("b", 2, 1, 0, 3).create("b", "1").rest(9), nil},
		{"the end of a pod is observed after its name came elsewhere",
			identities(1).ordinals("b", 2, 1, 0, 3).create("b", "1").within(300).remove("a", false, "1").rest(9), nil},
		{"a pod that its cell does not have", identities(1).create("a", "3").rest(9),
			[]string{ruleCell + "|a: cell web of web created pod 3"}},
		{"pods out of range go, also while others are not available",
			identities(1).fail("a", "0").rest(9).user(2, 5, 1, 0).hub(2, 5, 5, 1, 0, 1).ordinals("a", 2, 0, 0, 2).
				remove("a", true, "2").rest(9), nil},
		{"pods in range do not", identities(1).fail("a", "0").rest(9).user(2, 5, 1, 0).hub(2, 5, 5, 1, 0, 1).
			ordinals("a", 2, 0, 0, 2).remove("a", true, "1").rest(9), []string{ruleCell}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := Check(test.past.log, test.past.hand).Violations
			matches := slices.EqualFunc(got, test.want, func(v Violation, want string) bool {
				rule, what, _ := strings.Cut(want, "|")
				return v.Rule == rule && strings.HasPrefix(v.What, what)
			})
			if !matches {
				t.Errorf("violations %v, want %q\n%s", got, test.want, FormatLog(test.past.log))
			}
		})
	}
}
