package policy

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/topology/checks"
)

// maxMistakes is how many mistakes a message has, and maxMistake how many characters each.
const (
	maxMistakes = 6
	maxMistake  = 1024
)

// mistake is something that is wrong with a policy: the reason of its condition, and what to do.
type mistake struct{ reason, message string }

// ready returns status, reason and message of the condition Ready. The reason is that of the first mistake; the
// message has them all.
func (f *facts) ready() (status metav1.ConditionStatus, reason, message string) {
	all := f.mistakes()
	ignored := ""
	if f.unknownNames != "" {
		ignored = fmt.Sprintf("these names match nothing and are ignored: %s; correct the name, or let that member join",
			f.unknownNames)
	}
	if len(all) == 0 {
		if ignored == "" {
			return metav1.ConditionTrue, topology.PolicyInForce, Holds
		}
		return metav1.ConditionTrue, topology.PolicyInForce, Holds + "; " + ignored
	}
	reason = all[0].reason
	if ignored != "" {
		all = append(all, mistake{message: ignored})
	}
	return metav1.ConditionFalse, reason, together(all)
}

// together returns the messages of mistakes in their order, numbered if there are several.
func together(all []mistake) string {
	if len(all) == 1 {
		return shortened(all[0].message)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%d mistakes: ", len(all))
	for i, m := range all {
		if i == maxMistakes {
			fmt.Fprintf(&text, "; and %d more", len(all)-maxMistakes)
			break
		}
		if i > 0 {
			text.WriteString("; ")
		}
		fmt.Fprintf(&text, "(%d) %s", i+1, shortened(m.message))
	}
	return text.String()
}

// shortened cuts a message that is too long.
func shortened(message string) string {
	if runes := []rune(message); len(runes) > maxMistake {
		return string(runes[:maxMistake]) + " …"
	}
	return message
}

// mistakes returns what is wrong with a policy so that it does not do what it says, the worst first.
func (f *facts) mistakes() []mistake {
	var all []mistake
	add := func(wrong bool, reason, format string, args ...any) {
		if wrong {
			all = append(all, mistake{reason, fmt.Sprintf(format, args...)})
		}
	}
	name := f.key.Kind + " " + f.key.Name
	add(!f.federated, topology.PolicyNamespaceNotFederated,
		"namespace %s has no label %[2]s=true, so nothing in it is placed; set it with: "+
			"kubectl label namespace %[1]s %[2]s=true",
		f.key.Namespace, topology.LabelFederated)
	add(len(f.onHub) > 0, topology.PolicyRunsOnHub,
		"%s names %s, which the hub's own cluster runs, so nothing of it goes to members; %s",
		name, strings.Join(f.onHub, ", "), f.instead)
	add(f.run != "", topology.PolicyRunsOnHub, "%s", f.run)
	add(f.wrong != "", topology.PolicyInvalidSelector,
		"%s of %s; until it is corrected it selects nothing, and what is placed stays as it is", f.wrong, name)
	add(f.secrets, topology.PolicySecretsNotCarried,
		"%s selects Secrets, and they stay on the hub; set spec.dependencies.secrets: Carry to let them go to members, "+
			"or take Secret out of spec.workloads", name)
	add(len(f.never) > 0, topology.PolicyUnknownKind, "%s names %s", name, strings.Join(f.never, "; "))
	add(len(f.unknown) > 0, topology.PolicyUnknownKind, "%s names %s: not placed on members; the kinds that work are %s",
		name, strings.Join(f.unknown, ", "), f.kinds)
	add(len(f.missing) > 0, topology.PolicyKindNotServed,
		"%s names %s, which the hub's API server does not serve, so nothing of it goes to members; install its definition "+
			"on the hub", name, strings.Join(f.missing, ", "))
	add(f.conflict != "", topology.PolicyConflicted,
		"%s selects %s, which %s %s holds already; narrow one of the two", name, f.conflict, f.key.Kind, f.winner)
	for _, wrong := range f.checks {
		add(true, topology.PolicyInvalidCheck, "%s", wrong)
	}
	return all
}

// invalidChecks returns what is wrong with the expressions of a policy's waves and steps. An update stops at a wave
// with such a check.
func invalidChecks(spec *topology.FederationPolicySpec) []string {
	var all []string
	look := func(at string, wanted []topology.WaveCheck) {
		for i := range wanted {
			if why := invalidCheck(&wanted[i]); why != "" {
				all = append(all, fmt.Sprintf("check %s of %s can never hold: %s", wanted[i].Name, at, why))
			}
		}
	}
	for i := range spec.Rollout.Waves {
		look("wave "+spec.Rollout.Waves[i].Name, spec.Rollout.Waves[i].Checks)
	}
	for i := range spec.Rollout.Steps {
		look(fmt.Sprintf("spec.rollout.steps[%d]", i), spec.Rollout.Steps[i].Checks)
	}
	return all
}

// invalidCheck returns why a check can hold of nothing, "" where it can.
func invalidCheck(c *topology.WaveCheck) string {
	switch {
	case c.Expression != "":
		return checks.InvalidOfWorkload(c.Expression)
	case c.HTTP != nil && c.HTTP.Expression != "":
		return checks.Invalid(c.HTTP.Expression, checks.CorrectPolicy, "json", "status", "text")
	}
	return ""
}
