package dashboard

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/tree"
	"github.com/flotilla-dev/flotilla/hub/decision"
	"github.com/flotilla-dev/flotilla/hub/explain"
	"github.com/flotilla-dev/flotilla/hub/kinds"
)

// Need is something that keeps a workload or a member from being placed and Ready.
type Need struct {
	// Key identifies it in the fleet, Of is the workload's key, empty for a member.
	Key, Of string
	// Subject names the workload or the member, Kind is one word for what is wrong.
	Subject, Kind string
	// Sentence says what is wrong and what ends it; Commands are those to copy, the first is the usual one.
	Sentence string
	Commands []string
	// Who says who may run them, empty where that needs no word.
	Who string
	// rank orders needs, the most urgent first.
	rank int
}

// Ranks of needs.
const (
	rankFailed = iota
	rankApproval
	rankStalled
	rankMember
	rankUnplaced
	rankNotReady
	rankPaused
	rankWaiting
)

// mostReasons is how many reasons of pods are needs of a workload.
const mostReasons = 2

// needsOf returns what keeps a workload from being placed and Ready. It is pure.
func needsOf(w *Workload, in *input) []Need {
	var all []Need
	run := func(verb string) string { return commandFor(w.Workload, verb, in.flags) }
	add := func(rank int, kind, sentence string, commands ...string) {
		all = append(all, Need{
			Key: fmt.Sprintf("%s#%d", w.key, len(all)), Of: w.key, Subject: subjectOf(w.Workload), Kind: kind,
			Sentence: sentence, Commands: known(commands), rank: rank,
		})
	}
	switch {
	case w.Deleting:
		add(rankWaiting, "Deleting", cmp.Or(w.Problem, "it is being deleted"), run("why"))
		return all
	case w.Wave != nil && w.Wave.Failed != "":
		add(rankFailed, "Wave failed", w.Wave.Message, run("rollout retry"), run("rollout approve"), run("rollout undo"))
		all[0].Who = who(w.Workload, in)
	case w.Wave != nil && strings.Contains(w.Wave.Message, promoteVerb):
		add(rankApproval, "Approval", w.Wave.Message, run("rollout promote"))
		all[0].Who = who(w.Workload, in)
	case w.Wave != nil && asksForPerson(w.Wave):
		add(rankApproval, "Approval", w.Wave.Message, run("rollout approve"))
		all[0].Who = who(w.Workload, in)
	}
	if w.Problem != "" {
		add(rankStalled, "Stalled", w.Problem, run("why"))
	}
	if n, why := unplacedOf(w); n > 0 && w.Problem == "" {
		add(rankUnplaced, "Not placed",
			fmt.Sprintf("%d of %d replicas have no place: %s", n, w.Pods.Desired, why), run("why"))
	}
	for _, reason := range w.PodReasons[:min(len(w.PodReasons), mostReasons)] {
		add(rankNotReady, reason.Reason, reason.String(), lookInto(&reason, run)...)
	}
	if w.Paused {
		add(rankPaused, "Paused", "its updates are paused: pods are healed and scaled, and none is updated",
			run("rollout resume"))
	}
	if len(all) == 0 && w.Waiting != "" {
		add(rankWaiting, "Not Ready", w.Waiting, run("rollout status"), run("why"))
	}
	return all
}

// lookInto returns the commands that show more of a reason of pods.
func lookInto(reason *kinds.PodReason, run func(verb string) string) []string {
	if plain(reason.Cluster) && reason.Pod != "" {
		return []string{run("logs -C " + reason.Cluster), run("why")}
	}
	return []string{run("why")}
}

// What the message of a wave names if the wave waits for a person.
const (
	approveVerb = "flotilla rollout approve"
	promoteVerb = "flotilla rollout promote"
)

// asksForPerson reports whether a wave failed or waits for a person.
func asksForPerson(w *tree.Wave) bool {
	return w.Failed != "" || strings.Contains(w.Message, approveVerb) || strings.Contains(w.Message, promoteVerb)
}

// who says who may approve or retry a wave: whoever may patch the workload, and whether that is the user.
func who(w *tree.Workload, in *input) string {
	may, asked := in.may[mayKey(w.Kind, w.Namespace)]
	where := " in namespace " + w.Namespace
	if w.Namespace == "" {
		where = ""
	}
	switch {
	case !asked:
		return "Who may patch a " + w.Kind + where + " may do it."
	case may:
		return "You may do it: you may patch a " + w.Kind + where + "."
	}
	return "You may not patch a " + w.Kind + where + ": ask a person who may."
}

// unplacedOf returns how many replicas have no cell, and why. Those that move have one soon.
func unplacedOf(w *Workload) (n int32, why string) {
	if w.placement == nil {
		return w.Unplaced, "flotilla why says what each member lacks"
	}
	var reasons []string
	for _, u := range w.placement.Spec.Unplaced {
		if u.Reason.Code == decision.UnplacedMoving {
			continue
		}
		n += u.Replicas
		clause, _ := explain.Unplaced(u.Reason)
		if len(reasons) < mostReasons {
			reasons = append(reasons, clause)
		}
	}
	return n, strings.Join(reasons, "; ")
}

// needsOfMember returns what keeps a member from taking part. It is pure.
func needsOfMember(m *topology.MemberCluster, state, flags string) []Need {
	need := Need{
		Key: "member#" + m.Name, Subject: "Member " + m.Name, Kind: state, Sentence: saidOf(m), rank: rankMember,
	}
	command := func(verb string) string {
		if !plain(m.Name) {
			return ""
		}
		return "flotilla " + verb + " " + m.Name + flags
	}
	switch state {
	case "Ready", "Leaving":
		return nil
	case "NotAccepted":
		need.Sentence = "it asks to join, and takes part once a person accepts it"
		need.Commands = known([]string{command("accept")})
	case "NotReady":
		need.Commands = known([]string{command("get clusters")})
		held := meta.FindStatusCondition(m.Status.Conditions, topology.MemberFailoverHeld)
		if held != nil && held.Status == "True" {
			need.Sentence += "; " + held.Message
		}
	default:
		need.Commands = known([]string{command("get clusters")})
	}
	return []Need{need}
}

// subjectOf names a workload for people.
func subjectOf(w *tree.Workload) string {
	if w.Namespace == "" {
		return w.Kind + " " + w.Name
	}
	return w.Kind + " " + w.Namespace + "/" + w.Name
}

// commandFor returns the command of a verb about a workload, empty if one of its names is none that an API server
// accepts: a command to copy must not carry anything else into a shell.
func commandFor(w *tree.Workload, verb, flags string) string {
	if !plain(w.Kind) || !plain(w.Name) || w.Namespace != "" && !plain(w.Namespace) || !takes(w.Kind, verb) {
		return ""
	}
	command := "flotilla " + verb + " " + strings.ToLower(w.Kind) + "/" + w.Name
	if w.Namespace != "" {
		command += " -n " + w.Namespace
	}
	return command + flags
}

// takes reports whether a verb is for workloads of a kind.
func takes(kind, verb string) bool {
	switch kind {
	case apps.AdvancedCronJobKind.Kind, apps.ResourceDistributionKind.Kind:
		return !strings.HasPrefix(verb, "rollout ")
	case apps.SidecarSetKind.Kind:
		return verb != "rollout undo"
	case apps.BroadcastJobKind.Kind:
		return verb != "rollout undo" && verb != "rollout approve" && verb != "rollout retry"
	}
	return true
}

// plain reports whether a name has only characters that mean nothing to a shell, as the names of objects do.
func plain(name string) bool {
	return name != "" && name[0] != '-' && name[0] != '.' && strings.IndexFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '.'
	}) < 0
}

// known returns the commands without empty ones.
func known(commands []string) []string {
	var out []string
	for _, command := range commands {
		if command != "" {
			out = append(out, command)
		}
	}
	return out
}
