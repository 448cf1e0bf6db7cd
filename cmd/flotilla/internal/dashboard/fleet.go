package dashboard

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/get"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/tree"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// Fleet is everything that pages show, at one time. It is never changed after it was made.
type Fleet struct {
	// Hub is how the user names the hub.
	Hub string
	// Loading reports whether the hub has not been read yet.
	Loading bool
	// Failing is why the hub does not answer, empty if it does.
	Failing string
	// Unread is what the user has no right to read.
	Unread []Unread
	// Members are sorted by region, zones and name.
	Members []Member
	// Workloads are sorted by namespace, kind and name; needs are sorted by urgency.
	Workloads []Workload
	needs     []Need
	// unknown reports whether the numbers of members are not known, because the user must not read Works.
	unknown bool
}

// Unread is a part of the hub that the user has no right to read.
type Unread struct {
	What string `json:"what"`
	// Why is a sentence, Command shows or asks for the right.
	Why     string `json:"why"`
	Command string `json:"command,omitempty"`
}

// Member is a cluster of the fleet.
type Member struct {
	Name, Region string
	Zones        []string
	// State is that of `flotilla get clusters`, or Late: Ready, but its last contact is older than 20 s.
	State string
	// Said is why it is not Ready, in the words of its conditions.
	Said string
	// Contact is the last contact, the zero time if it is not known.
	Contact           time.Time
	Nodes, ReadyNodes int32
}

// Late is the state of a member that is Ready and whose last contact is older than lateAfter.
const Late = "Late"

// lateAfter is twice the interval in which agents renew their Leases.
const lateAfter = 20 * time.Second

// Workload is a workload with what pages need beside its tree.
type Workload struct {
	*tree.Workload
	// key identifies it in the fleet.
	key string
	// needs are what keeps it from being placed and Ready.
	needs []Need
	// text is what the search looks at, in lower case.
	text string
	// own are the numbers of its own status; they are shown where those of the members are not known.
	own ownNumbers
	// noPods reports whether its numbers count no pods of its own.
	noPods bool
	// placement has the reasons of its numbers; nil if it is not known.
	placement *topology.WorkloadPlacement
}

// well reports whether nothing keeps a workload from being placed and Ready, and all its members are reachable.
func (w *Workload) well() bool { return len(w.needs) == 0 && len(w.Stale) == 0 }

// ready returns how many of its pods are Ready: by its own status where the numbers of members are unknown.
func (w *Workload) ready(unknown bool) int64 {
	switch {
	case !unknown:
		return int64(w.Pods.Ready)
	case w.own.ready != nil:
		return *w.own.ready
	}
	return 0
}

// input is what a fleet is made from.
type input struct {
	hub, flags, failing string
	unread              []Unread
	tree                *tree.Tree
	members             []topology.MemberCluster
	leases              []coordinationv1.Lease
	placements          []topology.WorkloadPlacement
	// noWorks: the user must not read Works.
	noWorks bool
	// own are the pods that are Ready and updated by the workloads' own statuses, by their keys, where noWorks is set. A
	// number that a status does not have is absent.
	own map[string]ownNumbers
	// may says whether the user may patch workloads of a kind in a namespace, by mayKey.
	may map[string]bool
	now time.Time
}

// ownNumbers are numbers of a workload's own status, nil for those that it does not have.
type ownNumbers struct{ ready, updated *int64 }

func mayKey(kind, namespace string) string { return kind + "/" + namespace }

// fleetOf makes a fleet. It is pure.
func fleetOf(in *input) *Fleet {
	f := &Fleet{Hub: in.hub, Failing: in.failing, Unread: in.unread, unknown: in.noWorks}
	leases := map[string]time.Time{}
	for i := range in.leases {
		l := &in.leases[i]
		if cluster, is := wire.MemberOf(l.Namespace); is && cluster == l.Name && l.Spec.RenewTime != nil {
			leases[cluster] = l.Spec.RenewTime.Time
		}
	}
	for i := range in.members {
		f.Members = append(f.Members, memberOf(&in.members[i], leases[in.members[i].Name], in.now))
	}
	slices.SortFunc(f.Members, func(a, b Member) int {
		return cmp.Or(strings.Compare(groupOf(&a), groupOf(&b)), strings.Compare(a.Name, b.Name))
	})
	placements := map[string]*topology.WorkloadPlacement{}
	for i := range in.placements {
		key := wire.KeyOfPlacement(&in.placements[i])
		placements[keyOf(key.Kind, key.Namespace, key.Name)] = &in.placements[i]
	}
	for i := range in.members {
		f.needs = append(f.needs, needsOfMember(&in.members[i], get.StateOf(&in.members[i]), in.flags)...)
	}
	noPods := map[string]bool{}
	for gk, rule := range kinds.Workloads() {
		noPods[gk.Kind] = rule.NoPods
	}
	for i := range in.tree.Workloads {
		w := Workload{noPods: noPods[in.tree.Workloads[i].Kind], Workload: &in.tree.Workloads[i]}
		w.key = keyOf(w.Kind, w.Namespace, w.Name)
		w.placement = placements[w.key]
		w.own = in.own[w.key]
		w.needs = needsOf(&w, in)
		w.text = strings.ToLower(w.key)
		for _, need := range w.needs {
			w.text += "\n" + strings.ToLower(need.Sentence)
		}
		for _, image := range w.Images {
			w.text += "\n" + strings.ToLower(strings.Join(image.Images, "\n"))
		}
		f.Workloads = append(f.Workloads, w)
		f.needs = append(f.needs, w.needs...)
	}
	slices.SortStableFunc(f.needs, func(a, b Need) int { return cmp.Compare(a.rank, b.rank) })
	return f
}

func keyOf(kind, namespace, name string) string { return kind + "/" + namespace + "/" + name }

func memberOf(m *topology.MemberCluster, contact, now time.Time) Member {
	out := Member{
		Name: m.Name, Region: clip(cmp.Or(m.Spec.Region, m.Status.Region)), State: get.StateOf(m), Contact: contact,
	}
	for i := range m.Status.Zones {
		z := &m.Status.Zones[i]
		if z.Name != "" {
			out.Zones = append(out.Zones, clip(z.Name))
		}
		out.Nodes, out.ReadyNodes = out.Nodes+z.Nodes, out.ReadyNodes+z.Ready
	}
	slices.Sort(out.Zones)
	if out.State == "Ready" && !contact.IsZero() && now.Sub(contact) > lateAfter {
		out.State = Late
	}
	if out.State != "Ready" {
		out.Said = saidOf(m)
	}
	return out
}

// saidOf returns the message of the first condition that keeps a member from being Ready.
func saidOf(m *topology.MemberCluster) string {
	for _, condition := range []string{topology.MemberAccepted, topology.MemberReady} {
		c := meta.FindStatusCondition(m.Status.Conditions, condition)
		if c != nil && c.Status != "True" {
			return c.Message
		}
	}
	return ""
}

// sentence says what is known of a member. It has no ages, so that it differs only when something else does.
func (m *Member) sentence() string {
	parts := []string{m.Name, m.State}
	switch {
	case m.State == "Ready" && !m.Contact.IsZero():
		parts = append(parts, fmt.Sprintf("last contact less than %d s ago", int(lateAfter/time.Second)))
	case !m.Contact.IsZero():
		parts = append(parts, "no contact since "+m.Contact.UTC().Format("2006-01-02 15:04:05")+" UTC")
	}
	if m.Region != "" {
		parts = append(parts, "region "+m.Region)
	}
	switch len(m.Zones) {
	case 0:
	case 1:
		parts = append(parts, "zone "+m.Zones[0])
	default:
		parts = append(parts, "zones "+strings.Join(m.Zones, ", "))
	}
	parts = append(parts, fmt.Sprintf("%d of %d nodes ready", m.ReadyNodes, m.Nodes))
	if m.Said != "" {
		parts = append(parts, m.Said)
	}
	return strings.Join(parts, " · ")
}

// namedZones is how many zones the name of a group has.
const namedZones = 3

// groupOf returns the region and the zones of a member as one name.
func groupOf(m *Member) string {
	name := cmp.Or(m.Region, "no region")
	if len(m.Zones) == 0 {
		return name
	}
	name += " / " + strings.Join(m.Zones[:min(len(m.Zones), namedZones)], ",")
	if more := len(m.Zones) - namedZones; more > 0 {
		name += fmt.Sprintf(" +%d", more)
	}
	return clip(name)
}

// clip returns a text without characters that draw nothing or change the direction of others, of a length that a page
// can show.
func clip(text string) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029':
			return -1
		}
		return r
	}, text)
	if runes := []rune(clean); len(runes) > mostText {
		return string(runes[:mostText-1]) + "…"
	}
	return clean
}
