package console

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// short is the short name of a kind, as kubectl has it.
func short(kind string) string {
	switch kind {
	case "AdvancedCronJob":
		return "acj"
	case "BroadcastJob":
		return "bcj"
	case "CloneSet":
		return "clone"
	case "DaemonSet":
		return "ads" // ds is that of apps too
	case "PodUnavailableBudget":
		return "pub"
	case "StatefulSet":
		return "asts" // sts is that of apps too
	case "UnitedDeployment":
		return "ud"
	}
	return strings.ToLower(kind)
}

// also are names of kinds beside the kind itself, its plural and its short name.
func also(kind string) []string {
	switch kind {
	case "CloneSet":
		return []string{"cs"} // to kubectl that is another kind
	case "DaemonSet":
		return []string{"daemon"} // a short name of kubectl too
	}
	return nil
}

// Workload reads KIND/NAME: the kind as kubectl takes it (its name, its plural, its short name, with or without the
// group).
func Workload(text, namespace string) (wire.Key, error) {
	kind, name, ok := strings.Cut(text, "/")
	if !ok || kind == "" || name == "" || strings.Contains(name, "/") {
		return wire.Key{}, Usagef("%q names no workload; write KIND/NAME, as in ud/web", text)
	}
	var known, matching []string
	var key wire.Key
	for _, rule := range kinds.Workloads() {
		gvk := rule.GVK
		if isNamed(gvk, strings.ToLower(kind)) {
			key = wire.Key{Group: gvk.Group, Kind: gvk.Kind, Namespace: namespace, Name: name}
			if rule.ClusterScoped {
				key.Namespace = ""
			}
			matching = append(matching, strings.ToLower(gvk.GroupKind().String()))
		}
		known = append(known, short(gvk.Kind)+" ("+gvk.Kind+")")
	}
	switch len(matching) {
	case 0:
		if answer := notTaken(kind); answer != "" {
			return wire.Key{}, Usagef("%s", answer)
		}
		if instead := native(strings.ToLower(kind)); instead != "" {
			return wire.Key{}, Usagef("%q is no kind that the hub places: %s", kind, instead)
		}
		slices.Sort(known)
		return wire.Key{}, Usagef("%q is no kind that the hub places; the kinds are %s", kind, strings.Join(known, ", "))
	case 1:
		return key, nil
	}
	slices.Sort(matching)
	return wire.Key{}, Usagef("%q is a kind of several groups; write %s", kind, strings.Join(matching, " or "))
}

// notTaken says what to do with a kind that hubs do not place, or only as copies, "" for any other kind.
func notTaken(kind string) string {
	lower := strings.ToLower(kind)
	for _, gvk := range kinds.NeverPlacedKinds() {
		if isNamed(gvk, lower) {
			why, _ := kinds.NeverPlaced(gvk.GroupKind())
			_, remedy, _ := strings.Cut(why, ": ")
			return fmt.Sprintf("a hub sends no %s to members: %s", kind, remedy)
		}
	}
	for _, gvk := range kinds.BuiltInKinds() {
		if isNamed(gvk, lower) {
			return fmt.Sprintf("a hub divides no %s: %s", kind, kinds.InsteadInBothModes(gvk.Kind))
		}
	}
	return ""
}

// native says what to use for a kind of Kubernetes itself, "" for any other text.
func native(text string) string {
	bare, _, _ := strings.Cut(text, ".")
	switch bare {
	case "deploy", "deployment", "deployments":
		return "use a CloneSet, or a UnitedDeployment with a deploymentTemplate (clone/NAME, ud/NAME)"
	case "rs", "replicaset", "replicasets":
		return "use a CloneSet (clone/NAME)"
	case "sts", "statefulset", "statefulsets":
		return "use a StatefulSet of apps.kruise.io (asts/NAME)"
	case "ds", "daemonset", "daemonsets":
		return "use a DaemonSet of apps.kruise.io (ads/NAME)"
	case "job", "jobs":
		return "use a BroadcastJob (bcj/NAME), or look at the Job with kubectl"
	case "cj", "cronjob", "cronjobs":
		return "use an AdvancedCronJob (acj/NAME)"
	case "po", "pod", "pods":
		return "name the workload that has the pod; flotilla logs and flotilla exec take pods"
	}
	return ""
}

// isNamed reports whether a lower-case text means the kind: its name, plural or short name, and after a dot its group,
// with or without the version before it.
func isNamed(kind schema.GroupVersionKind, text string) bool {
	bare, group, qualified := strings.Cut(text, ".")
	if qualified && group != kind.Group && group != kind.Version+"."+kind.Group {
		return false
	}
	plural, singular := meta.UnsafeGuessKindToResource(kind)
	return slices.Contains(append(also(kind.Kind), short(kind.Kind), plural.Resource, singular.Resource), bare)
}

// NotAHub adds what to do to an error that comes of asking a cluster without Flotilla's definitions; others stay as
// they are.
func NotAHub(err error) error {
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("%w; Flotilla is not installed in this cluster: name the hub with --context or --kubeconfig", err)
	}
	return err
}

// PlacedByAHub returns an error for an object that is the copy that a hub wrote into a member: the agent takes back
// what is changed there, and its numbers are those of one member.
func PlacedByAHub(object client.Object, key wire.Key) error {
	if object.GetLabels()[topology.LabelHub] == "" {
		return nil
	}
	return fmt.Errorf("%s is here because a hub placed it; name the hub with --context", key.Sentence())
}

// NoteNoMembers says that the cluster that was asked has no members, and so may not be the hub.
func NoteNoMembers(out io.Writer) {
	fmt.Fprintln(out, "note: this cluster has no members; if it is not the hub, name the hub with --context")
}

// NotFound says that there is no such workload, and where one of the name is or which others there are. What cannot be
// asked is left out.
func NotFound(ctx context.Context, c client.Reader, key wire.Key) error {
	rule := kinds.Workloads()[key.GroupKind()]
	namespaces, err := names(ctx, c, rule.NewList(), func(o client.Object) string {
		if o.GetName() != key.Name {
			return ""
		}
		return o.GetNamespace()
	})
	namespaces = slices.DeleteFunc(namespaces, func(s string) bool { return s == "" })
	if err == nil && len(namespaces) > 0 {
		return fmt.Errorf(
			"there is no %s; namespace %s has one: give it with -n",
			key.Sentence(),
			strings.Join(namespaces, ", "),
		)
	}
	others, err := names(ctx, c, rule.NewList(), client.Object.GetName, client.InNamespace(key.Namespace))
	if err == nil && len(others) > 0 {
		// As many as fit into a line.
		const most = 8
		more := ""
		if len(others) > most {
			others, more = others[:most], " and others"
		}
		return fmt.Errorf(
			"there is no %s; namespace %s has %s%s",
			key.Sentence(),
			key.Namespace,
			strings.Join(others, ", "),
			more,
		)
	}
	return fmt.Errorf("there is no %s; look at the name, and at the namespace (-n)", key.Sentence())
}

// names lists what name says of each object, sorted, each once.
func names(
	ctx context.Context,
	c client.Reader,
	list client.ObjectList,
	name func(client.Object) string,
	opts ...client.ListOption,
) ([]string, error) {
	if err := c.List(ctx, list, opts...); err != nil {
		return nil, fmt.Errorf("list %T: %w", list, err)
	}
	var all []string
	err := meta.EachListItem(list, func(item runtime.Object) error {
		all = append(all, name(item.(client.Object)))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read %T: %w", list, err)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}
