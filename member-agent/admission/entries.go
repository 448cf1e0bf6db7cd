package admission

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// MaxConditions bounds all conditions together, in code points. The parser of an API server takes 100 000 per
	// expression; what conditions of this length cost is less than half of what an API server allows (tested on a real
	// one).
	MaxConditions = 64_000
	// maxFail is the part of MaxConditions for scopes under Fail. The rest stays for those under Ignore, which can be
	// widened.
	maxFail = MaxConditions / 2
	// maxNamespaces bounds the names of namespaces of all entries together: 10 000 names of 63 characters are half of what
	// etcd stores as one object.
	maxNamespaces = 10_000
	// maxPieces bounds into how many entries the scopes of one failure policy and namespaceSelector are split.
	maxPieces = 16
	// everything is the condition that is true for each pod.
	everything = "true"
	// or stands between the conditions of two scopes, each of which is in parentheses.
	or = " || "
)

// entry is one webhook of the configuration. It takes the pods for which condition is true and excluded is not, in the
// namespaces that selector and namespaces select.
type entry struct {
	// group names the failure policy and the namespaceSelector of the scopes.
	group      string
	policy     admissionregistrationv1.FailurePolicyType
	selector   []metav1.LabelSelectorRequirement
	namespaces []string // nil: all
	condition  string
	requires   string // beside condition; empty: nothing
	// wide reports whether condition is true also in namespaces that are not among namespaces.
	wide     bool
	excluded []string
}

// plan is which pods the API server sends.
type plan struct {
	entries []entry
	// widened are the names of scopes for which it sends more pods than they select, because not all conditions fit.
	widened []string
	// notEnforced are the names of scopes under Fail that do not fit. They are treated as scopes under Ignore.
	notEnforced []string
}

// selection is a scope on its way into an entry.
type selection struct {
	Scope
	wide bool
}

// planOf returns the entries for the scopes. Each pod that a scope selects is taken by one entry, under Fail if one of
// its scopes says so; no other pod is taken, except for scopes that are widened. Beyond maxPieces a pod may be taken
// more than once.
func planOf(scopes []Scope) plan {
	selections := make([]selection, 0, len(scopes))
	for _, scope := range scopes {
		selections = append(selections, selection{Scope: scope})
	}
	var p plan
	left := 0
	p.notEnforced, left = enforce(selections, maxFail)
	p.widened = widen(selections, MaxConditions-maxFail+left)
	groups := groupsOf(selections)
	for i, group := range groups {
		pieces := []entry{group}
		for _, earlier := range groups[:i] {
			if rest := without(pieces, earlier); len(rest) <= maxPieces {
				pieces = rest
			}
		}
		p.entries = append(p.entries, pieces...)
	}
	forgetNames(p.entries)
	return p
}

func length(condition string) int { return utf8.RuneCountInString(condition) + len("()"+or) }

// enforce turns scopes under Fail that do not fit into scopes under Ignore, and returns their names and the room that
// is left. The shortest ones fit first, so that a long one turns off no other.
func enforce(selections []selection, room int) (names []string, left int) {
	var all []*selection
	for i := range selections {
		if s := &selections[i]; s.FailurePolicy == admissionregistrationv1.Fail {
			all = append(all, s)
		}
	}
	slices.SortStableFunc(all, func(a, b *selection) int {
		return cmp.Or(cmp.Compare(length(a.Condition), length(b.Condition)), cmp.Compare(a.Name, b.Name))
	})
	for _, s := range all {
		if n := length(s.Condition); n <= room {
			room -= n
			continue
		}
		s.FailurePolicy = admissionregistrationv1.Ignore
		names = append(names, s.Name)
	}
	return names, room
}

// widen replaces the longest conditions of scopes under Ignore until the others fit, and returns the names of these
// scopes.
func widen(selections []selection, room int) (names []string) {
	var ignored []*selection
	for i := range selections {
		if s := &selections[i]; s.FailurePolicy != admissionregistrationv1.Fail {
			ignored = append(ignored, s)
			room -= length(s.Condition)
		}
	}
	slices.SortStableFunc(ignored, func(a, b *selection) int {
		return cmp.Or(cmp.Compare(len(b.Condition), len(a.Condition)), cmp.Compare(a.Name, b.Name))
	})
	for _, s := range ignored {
		if room >= 0 {
			return names
		}
		wide := cmp.Or(s.Wide, everything)
		room += length(s.Condition) - length(wide)
		s.Condition, s.wide = wide, true
		names = append(names, s.Name)
	}
	if room < 0 {
		for _, s := range ignored {
			s.Condition = everything
		}
	}
	return names
}

// groupsOf returns one entry per failure policy, namespaceSelector and what scopes have in common, those under Fail
// first.
func groupsOf(selections []selection) []entry {
	grouped := map[string][]selection{}
	for _, s := range selections {
		policy := 1
		if s.FailurePolicy == admissionregistrationv1.Fail {
			policy = 0
		}
		group := fmt.Sprint(policy, textOf(requirementsOf(s.NamespaceSelector)), s.Requires)
		grouped[group] = append(grouped[group], s)
	}
	groups := make([]entry, 0, len(grouped))
	for _, group := range slices.Sorted(maps.Keys(grouped)) {
		of := grouped[group]
		e := entry{group: group, policy: of[0].FailurePolicy, selector: requirementsOf(of[0].NamespaceSelector),
			requires: of[0].Requires}
		var conditions []string
		named := true
		for _, s := range of {
			conditions = append(conditions, s.Condition)
			e.wide = e.wide || s.wide
			named = named && len(s.Namespaces) > 0
			e.namespaces = append(e.namespaces, s.Namespaces...)
		}
		if slices.Sort(e.namespaces); !named {
			e.namespaces = nil
		}
		e.namespaces = slices.Compact(e.namespaces)
		e.condition = anyOf(conditions)
		groups = append(groups, e)
	}
	return groups
}

// anyOf returns the condition that one of the conditions is true.
func anyOf(conditions []string) string {
	conditions = slices.Compact(slices.Sorted(slices.Values(conditions)))
	if len(conditions) == 1 {
		return conditions[0]
	}
	return "(" + strings.Join(conditions, ")"+or+"(") + ")"
}

// without returns pieces that take what these pieces take, less what the earlier entry takes: where its selector holds
// by the condition, elsewhere by the selector.
func without(pieces []entry, earlier entry) []entry {
	taken := earlier.selector
	if earlier.wide && earlier.namespaces != nil {
		taken = append(slices.Clone(taken), metav1.LabelSelectorRequirement{
			Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: earlier.namespaces,
		})
	}
	var rest []entry
	for _, piece := range pieces {
		if disjoint(piece.selector, taken...) {
			rest = append(rest, piece)
			continue
		}
		both := piece.within(taken...)
		both.excluded = append(slices.Clone(both.excluded), earlier.conditionBeside(piece.requires))
		rest = append(rest, both)
		for i, requirement := range taken {
			if complement := complementOf(requirement); !disjoint(piece.selector, complement) {
				rest = append(rest, piece.within(taken[:i]...).within(complement))
			}
		}
	}
	return rest
}

// conditionBeside returns the condition of what the entry takes, where another condition is known to hold.
func (e *entry) conditionBeside(known string) string {
	if e.requires == "" || e.requires == known {
		return e.condition
	}
	return "(" + e.requires + ") && (" + e.condition + ")"
}

// forgetNames drops the names of namespaces if there are too many of them. The conditions check them.
func forgetNames(entries []entry) {
	names := 0
	for i := range entries {
		names += len(entries[i].namespaces)
		for _, requirement := range entries[i].selector {
			names += len(requirement.Values)
		}
	}
	for i := range entries {
		if names > maxNamespaces {
			entries[i].namespaces = nil
		}
	}
}
