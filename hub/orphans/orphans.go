// Package orphans explains the objects that MemberCluster.status.orphans names: they carry the label of the hub, and no
// Work names them. Each gets the commands that adopt it, delete it, or keep it outside the hub. All of it is pure.
package orphans

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
)

// Object is an orphan of a member.
type Object struct {
	schema.GroupKind
	Namespace, Name string
	// HubID is the id in the object's label where that is an earlier hub's, else empty.
	HubID string
}

// named is how agents name an orphan: "Kind.group namespace/name", and " (hub ID)" behind it for an earlier hub's. What
// does not look like that is never put into a command, because it is a member that says it.
var named = regexp.MustCompile(`^([A-Za-z0-9]{1,63})((?:\.[a-z0-9-]{1,63}){0,8}) ` + // kind and group
	`(?:([a-z0-9-]{1,63})/)?([a-z0-9][a-z0-9.-]{0,252})` + // namespace and name
	`(?: \(hub ([a-zA-Z0-9-]{1,63})\))?$`)

// Parse reads a name of MemberCluster.status.orphans, false for anything else.
func Parse(text string) (Object, bool) {
	parts := named.FindStringSubmatch(text)
	if parts == nil {
		return Object{}, false
	}
	return Object{
		GroupKind: schema.GroupKind{Kind: parts[1], Group: strings.TrimPrefix(parts[2], ".")},
		Namespace: parts[3], Name: parts[4], HubID: parts[5],
	}, true
}

// Commands returns what to do about an orphan of a member, a sentence with a command each. hubID is the id of this hub.
func Commands(member, text, hubID string) []string {
	o, ok := Parse(text)
	if !ok {
		return nil
	}
	kubectl := "kubectl --context " + member
	if o.Namespace != "" {
		kubectl += " -n " + o.Namespace
	}
	object := strings.ToLower(o.GroupKind.String()) + " " + o.Name
	var all []string
	switch {
	case o.HubID != "" && hubID != "":
		all = append(all, fmt.Sprintf("hand it over to this hub: %s label %s %s=%s --overwrite",
			kubectl, object, topology.LabelHub, hubID))
	case o.HubID == "" && adoptable(o.GroupKind):
		all = append(all, fmt.Sprintf("adopt it: flotilla adopt %s/%s -n %s --from %s",
			strings.ToLower(o.Kind), o.Name, o.Namespace, member))
	}
	return append(all,
		fmt.Sprintf("delete it: %s delete %s", kubectl, object),
		fmt.Sprintf("keep it without the hub: %s label %s %s-", kubectl, object, topology.LabelHub))
}

// adoptable reports whether flotilla adopt takes the kind. Agents of before named no groups.
func adoptable(kind schema.GroupKind) bool {
	rules := kinds.Workloads()
	if kind.Group != "" {
		_, ok := rules[kind]
		return ok
	}
	for divided := range rules {
		if divided.Kind == kind.Kind {
			return true
		}
	}
	return false
}

// inMessage is how many orphans a message names.
const inMessage = 3

// Message says which orphans a member has, with the commands for the first.
func Message(member *topology.MemberCluster, hubID string) string {
	names, count := member.Status.Orphans, int(member.Status.Orphaned)
	first := names[:min(len(names), inMessage)]
	what := fmt.Sprintf("%d objects in MemberCluster %s carry", count, member.Name)
	if count == 1 {
		what = fmt.Sprintf("an object in MemberCluster %s carries", member.Name)
	}
	text := fmt.Sprintf("%s the label %s without an order: %s", what, topology.LabelHub, strings.Join(first, ", "))
	if more := count - len(first); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	text += "; they keep running and get no updates"
	if len(names) == 0 {
		return text
	}
	commands := Commands(member.Name, names[0], hubID)
	switch {
	case len(commands) == 0:
		return text + "; adopt or delete them in the member, or remove the label"
	case count == 1:
		return text + "; " + strings.Join(commands, "; or ")
	}
	return text + "; for the first: " + strings.Join(commands, "; or ") + "; for all: flotilla get clusters " + member.Name
}
