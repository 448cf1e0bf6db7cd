package pods

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

const (
	// atOnce is how many members are asked at the same time.
	atOnce = 16
	// hubPatience is how long the hub is waited for: members can be looked into while it does not answer.
	hubPatience = 10 * time.Second
	// mostFailures is how many members that were not reached have a line each.
	mostFailures = 10
)

// notes are lines on standard error, each written whole.
type notes struct {
	mu  sync.Mutex
	out io.Writer
}

// Write writes a line.
func (n *notes) Write(line []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.out.Write(line)
}

func (n *notes) say(format string, args ...any) { fmt.Fprintf(n, format+"\n", args...) }

// sayMost says the first of many sentences.
func (n *notes) sayMost(all []string) {
	for _, text := range all[:min(len(all), mostFailures)] {
		n.say("%s", text)
	}
	if more := len(all) - mostFailures; more > 0 {
		n.say("and %d more", more)
	}
}

// fleet is the members that a verb asks.
type fleet struct {
	notes   *notes
	members []*reached
	// failures are the sentences about members that were not reached.
	failures []error
	// hub reads the hub, nil where it does not answer.
	hub client.Reader
}

// hubView is what the hub says of where pods are.
type hubView struct {
	reader client.Reader
	// members are those of the hub, placed those that the workload is placed in. Both are nil where they are not known.
	members, placed []string
}

// candidate is a member to reach.
type candidate struct {
	name     string
	expected bool
}

// candidates returns the members to reach, sorted. only are those that the user asks for, named those that the user
// gives a context for. Where it is known in which members the workload is placed, these are expected to have pods, and
// others are asked where a context reaches them, because pods may still leave them. Else all members are expected to
// have pods. It is pure.
func candidates(only, named []string, hub *hubView, hasContext func(string) bool) []candidate {
	var all []candidate
	switch {
	case len(only) > 0:
		for _, name := range only {
			all = append(all, candidate{name, true})
		}
	case hub == nil || hub.members == nil && hub.placed == nil:
		for _, name := range named {
			all = append(all, candidate{name, true})
		}
	default:
		for _, name := range hub.placed {
			all = append(all, candidate{name, true})
		}
		for _, name := range hub.members {
			if !slices.Contains(hub.placed, name) && (hub.placed == nil || hasContext(name)) {
				all = append(all, candidate{name, hub.placed == nil})
			}
		}
	}
	slices.SortFunc(all, func(a, b candidate) int { return strings.Compare(a.name, b.name) })
	return slices.CompactFunc(all, func(a, b candidate) bool { return a.name == b.name })
}

// fleet reaches the members that may have pods of the workload, or of any workload (nil), and makes sure of each that
// it is the cluster that the hub means. It fails where no member can be asked; members that are not reached are in the
// failures.
func (o *options) fleet(ctx context.Context, out io.Writer, key *wire.Key) (*fleet, error) {
	f := &fleet{notes: &notes{out: out}}
	namespace, err := o.hub.Namespace()
	if err != nil {
		return nil, err
	}
	hub, err := o.askHub(ctx, key)
	switch {
	case err == nil:
		f.hub = hub.reader
	case isHubAway(err) && len(o.only)+len(o.members.Named()) > 0:
		f.notes.say("The hub does not answer, so it is not checked which cluster each context reaches: %v", err)
	case isHubAway(err):
		return nil, fmt.Errorf("%w; to ask members without the hub, name them with -C", err)
	default:
		return nil, err
	}
	hasContext := func(member string) bool { _, _, err := o.members.Config(member); return err == nil }
	wanted := candidates(o.only, o.members.Named(), hub, hasContext)
	if len(wanted) == 0 {
		return nil, nowhere(key, hub)
	}
	// A member that the user names may be asked for its own workloads too.
	placed, hubID := f.hub != nil && len(o.only) == 0, ""
	if placed {
		// Without the right to read the identity, the workload of another hub is taken for one of this hub.
		hubID, _ = store.HubID(ctx, f.hub)
	}
	members, failures := make([]*reached, len(wanted)), make([]error, len(wanted))
	group := errgroup.Group{}
	group.SetLimit(atOnce)
	for i := range wanted {
		group.Go(func() error {
			members[i], failures[i] = o.reach(ctx, &wanted[i], namespace, f)
			if members[i] != nil {
				members[i].placed, members[i].hubID = placed, hubID
			}
			return nil
		})
	}
	_ = group.Wait() // each member has its own error
	for i := range wanted {
		switch {
		case failures[i] == nil:
			f.members = append(f.members, members[i])
		case wanted[i].expected:
			f.failures = append(f.failures, failures[i])
		}
	}
	return f, ctx.Err()
}

// nowhere says why there is no member to ask.
func nowhere(key *wire.Key, hub *hubView) error {
	switch {
	case hub == nil || hub.members == nil && hub.placed == nil:
		return console.Usagef("the members are not known, because you may not list them on the hub: name them with -C")
	case key != nil && hub.placed != nil && (hub.members == nil || len(hub.members) > 0):
		return fmt.Errorf("%s is placed in no member, and your kubeconfig has a context of no other one; flotilla why "+
			"%s/%s says why", key.Sentence(), strings.ToLower(key.Kind), key.Name)
	}
	return errors.New("the hub has no members; next: flotilla join NAME")
}

// reach connects to a member, and makes sure that it is the one that the hub means.
func (o *options) reach(ctx context.Context, wanted *candidate, namespace string, f *fleet) (*reached, error) {
	cfg, kubecontext, err := o.members.Config(wanted.name)
	if err != nil {
		return nil, err
	}
	r, err := newReached(wanted.name, namespace, kubecontext, cfg, cmp.Or(o.patience, memberPatience))
	if err != nil {
		return nil, err
	}
	if r.expected = wanted.expected; f.hub == nil {
		return r, nil
	}
	var talk io.Writer = f.notes
	if !wanted.expected {
		talk = io.Discard
	}
	err = console.Verify(ctx, f.hub, r.client, r.name, kubecontext, talk)
	if isConnection(err) {
		return nil, r.failed("", err)
	}
	return r, err
}

// hubAway is the error of a hub that cannot be asked.
type hubAway struct{ error }

// Unwrap returns why it cannot.
func (h *hubAway) Unwrap() error { return h.error }

func isHubAway(err error) bool {
	var away *hubAway
	return errors.As(err, &away)
}

// askHub asks the hub for its members, and where the workload is placed. Its error is hubAway where the hub cannot be
// reached. A user who may not list something gets nil for it.
func (o *options) askHub(ctx context.Context, key *wire.Key) (*hubView, error) {
	c, err := o.hub.Client()
	if err != nil {
		return nil, &hubAway{err}
	}
	ctx, cancel := context.WithTimeout(ctx, hubPatience)
	defer cancel()
	view := &hubView{reader: c}
	list := &topology.MemberClusterList{}
	switch err := c.List(ctx, list); {
	case meta.IsNoMatchError(err):
		return nil, console.NotAHub(err)
	case err != nil && !apierrors.IsForbidden(err):
		return nil, &hubAway{fmt.Errorf("list MemberClusters: %w", err)}
	case err == nil:
		view.members = []string{}
		for i := range list.Items {
			view.members = append(view.members, list.Items[i].Name)
		}
	}
	if key == nil {
		return view, nil
	}
	return view, view.place(ctx, *key, len(o.only) > 0)
}

// place reads where a workload is placed. A workload that does not exist is an error, except where the user names the
// members: its pods may exist all the same.
func (v *hubView) place(ctx context.Context, key wire.Key, named bool) error {
	if named {
		return nil
	}
	object := kinds.Workloads()[key.GroupKind()].New()
	if err := v.reader.Get(ctx, key.Workload(), object); apierrors.IsNotFound(err) {
		return console.NotFound(ctx, v.reader, key)
	} else if err != nil && !apierrors.IsForbidden(err) {
		return fmt.Errorf("read %s: %w", key.Sentence(), err)
	}
	placement, _, err := store.FindPlacement(ctx, v.reader, key)
	if apierrors.IsForbidden(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find the members of %s: %w", key.Sentence(), err)
	}
	v.placed = []string{}
	if placement == nil {
		return nil
	}
	for i := range placement.Spec.Cells {
		v.placed = append(v.placed, placement.Spec.Cells[i].Cluster)
	}
	slices.Sort(v.placed)
	v.placed = slices.Compact(v.placed)
	return nil
}

// isConnection reports whether an error is that of an API server that did not answer.
func isConnection(err error) bool {
	var answered apierrors.APIStatus
	return err != nil && !errors.As(err, &answered) && (errors.Is(err, context.DeadlineExceeded) || isTransport(err))
}

// answer is what a member answers.
type answer[T any] struct {
	member *reached
	value  T
	err    error
}

// ask asks members, some at once, each for a limited time. The answers are in the order of the members.
func ask[T any](
	ctx context.Context, members []*reached, patience time.Duration,
	question func(context.Context, *reached) (T, error),
) []answer[T] {
	answers, group := make([]answer[T], len(members)), errgroup.Group{}
	group.SetLimit(atOnce)
	for i := range members {
		group.Go(func() error {
			asked, cancel := context.WithTimeout(ctx, cmp.Or(patience, memberPatience))
			defer cancel()
			value, err := question(asked, members[i])
			answers[i] = answer[T]{members[i], value, err}
			return nil
		})
	}
	_ = group.Wait() // each has its own error
	return answers
}

// sorted divides answers into those without an error and the failures: of members that were not reached, and of those
// that are expected to have what was asked for. reached is how many members answered, also that they have nothing.
func sorted[T any](f *fleet, answers []answer[T]) (found []answer[T], reached int, failures []error) {
	failures = slices.Clone(f.failures)
	for _, a := range answers {
		if a.err == nil || isAbsent(a.err) {
			reached++
		}
		switch {
		case a.err == nil:
			found = append(found, a)
		case a.member.expected:
			failures = append(failures, a.err)
		}
	}
	return found, reached, failures
}

// report writes a line for each failure, and returns an error if no member was reached: a single failure is that error.
func (f *fleet) report(ctx context.Context, reached int, failures []error) error {
	if ctx.Err() != nil {
		return ctx.Err() // then no failure is the member's
	}
	if reached == 0 && len(failures) == 1 {
		return failures[0]
	}
	for _, err := range failures[:min(len(failures), mostFailures)] {
		f.notes.say("%v", err)
	}
	if more := len(failures) - mostFailures; more > 0 {
		f.notes.say("and %d more members were not reached; -C names those to ask", more)
	}
	if reached == 0 && len(failures) > 0 {
		return fmt.Errorf("none of %d members was reached", len(failures))
	}
	return nil
}

// isTransport reports whether a request had no answer.
func isTransport(err error) bool {
	var transport *url.Error
	return errors.As(err, &transport)
}
