package dashboard

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// right is something that the user may do or not: a verb for a resource in a namespace; empty means all namespaces.
type right struct{ verb, group, resource, namespace string }

// asker says whether the user has a right.
type asker func(context.Context, right) (bool, error)

// readable is a kind that pages are made from.
type readable struct {
	object          client.Object
	group, resource string
	// divided reports whether it may be read in some namespaces only: workloads and their placements.
	divided bool
	// placements reports whether it is the kind of placements, unscoped whether it is a workload without a namespace.
	placements, unscoped bool
	// without says what pages lack if it cannot be read, for kinds that are read whole.
	without string
}

// grants are what the user may read.
type grants struct {
	// where has the namespaces in which a kind is read, by resource and group; a namespace "" means all of them. A kind
	// that is absent is not read.
	where  map[string][]string
	unread []Unread
}

func (r *readable) name() string { return r.resource + "." + r.group }

// same reports whether the same can be read.
func (g *grants) same(other *grants) bool {
	return fmt.Sprint(g.where) == fmt.Sprint(other.where) && fmt.Sprint(g.unread) == fmt.Sprint(other.unread)
}

// covers reports whether all that other reads is read.
func (g *grants) covers(other *grants) bool {
	for name, namespaces := range other.where {
		for _, namespace := range namespaces {
			if !slices.Contains(g.where[name], namespace) && !slices.Contains(g.where[name], "") {
				return false
			}
		}
	}
	return true
}

const (
	// mostAsked is how many namespaces are asked about one by one.
	mostAsked = 50
	// atOnce is how many questions are asked at a time.
	atOnce = 16
)

// scope is what the user asked to see.
type scope struct {
	// only is the namespace that the user named, empty for all.
	only string
	// own is the namespace of the kubeconfig's context: it is read if the user must not list namespaces.
	own string
	// federated lists the namespaces whose workloads a hub places.
	federated func(context.Context) ([]string, error)
	// flags name the hub, for commands.
	flags string
}

// findGrants asks what the user may read. It errs if a question has no answer.
func findGrants(ctx context.Context, ask asker, kinds []readable, s *scope) (*grants, error) {
	g := &grants{where: map[string][]string{}}
	whole, err := allowed(ctx, ask, kinds, []string{""})
	if err != nil {
		return nil, err
	}
	var divided []readable
	// Workloads whose placements cannot be read would look as if they were not placed.
	inParts := s.only != "" || slices.ContainsFunc(kinds, func(k readable) bool {
		return k.placements && !whole[k.name()][""]
	})
	for i := range kinds {
		k := &kinds[i]
		switch {
		case k.divided && inParts:
			divided = append(divided, *k)
		case whole[k.name()][""]:
			g.where[k.name()] = []string{""}
		case k.divided:
			divided = append(divided, *k)
		default:
			g.unread = append(g.unread, Unread{What: k.name(), Why: "You may not list and watch them: " + k.without + ".",
				Command: "kubectl auth can-i list " + k.name() + " -A" + s.flags})
		}
	}
	if len(divided) == 0 {
		return g, nil
	}
	if err := g.divide(ctx, ask, divided, s); err != nil {
		return nil, err
	}
	return g, g.unscoped(ctx, ask, kinds, s)
}

// unscoped asks for the placements of workloads without a namespace, which are in the hub's own namespace. Without them
// such workloads are not read: they would look as if they were not placed.
func (g *grants) unscoped(ctx context.Context, ask asker, kinds []readable, s *scope) error {
	at := slices.IndexFunc(kinds, func(r readable) bool { return r.placements })
	if at < 0 || slices.Contains(g.where[kinds[at].name()], "") {
		return nil
	}
	name := kinds[at].name()
	found, err := allowed(ctx, ask, kinds[at:at+1], []string{topology.SystemNamespace})
	if err != nil {
		return err
	}
	if found[name][topology.SystemNamespace] {
		if !slices.Contains(g.where[name], topology.SystemNamespace) {
			g.where[name] = append(g.where[name], topology.SystemNamespace)
		}
		return nil
	}
	for i := range kinds {
		if k := &kinds[i]; k.unscoped && len(g.where[k.name()]) > 0 {
			delete(g.where, k.name())
			g.unread = append(g.unread, Unread{What: k.name(), Why: "You may not list their placements in namespace " +
				topology.SystemNamespace + ": they are not shown.",
				Command: "kubectl auth can-i list " + name + " -n " + topology.SystemNamespace + s.flags})
		}
	}
	return nil
}

// divide asks for each namespace what may be read there.
func (g *grants) divide(ctx context.Context, ask asker, kinds []readable, s *scope) error {
	namespaces := []string{s.only}
	if s.only == "" {
		var err error
		if namespaces, err = s.federated(ctx); apierrors.IsForbidden(err) {
			namespaces = []string{s.own}
			g.unread = append(g.unread, Unread{What: "namespaces", Why: "You may not list them: only namespace " + s.own +
				" is shown. Name another one with -n.", Command: "kubectl auth can-i list namespaces" + s.flags})
		} else if err != nil {
			return fmt.Errorf("list the namespaces of the hub: %w", err)
		}
	}
	if more := len(namespaces) - mostAsked; more > 0 {
		namespaces = namespaces[:mostAsked]
		g.unread = append(g.unread, Unread{What: fmt.Sprintf("%d more namespaces", more),
			Why: fmt.Sprintf("Rights are looked up in %d namespaces. Name another one with -n.", mostAsked)})
	}
	found, err := allowed(ctx, ask, kinds, namespaces)
	if err != nil {
		return err
	}
	for _, namespace := range namespaces {
		if at := slices.IndexFunc(kinds, func(k readable) bool { return k.placements }); at >= 0 &&
			!found[kinds[at].name()][namespace] {
			g.unread = append(g.unread, Unread{What: "namespace " + namespace, Why: "You may not list and watch its " +
				kinds[at].name() + ": its workloads are not shown, as they would look as if they were not placed.",
				Command: "kubectl auth can-i list " + kinds[at].name() + " -n " + namespace + s.flags})
			continue
		}
		var lacking []string
		for i := range kinds {
			name := kinds[i].name()
			if found[name][namespace] {
				g.where[name] = append(g.where[name], namespace)
			} else {
				lacking = append(lacking, name)
			}
		}
		g.lack(namespace, lacking, s.flags)
	}
	return nil
}

// lack names what of a namespace is not read, where its placements are.
func (g *grants) lack(namespace string, lacking []string, flags string) {
	if len(lacking) == 0 {
		return
	}
	slices.Sort(lacking)
	g.unread = append(g.unread, Unread{What: "namespace " + namespace,
		Why:     "You may not list and watch its " + strings.Join(lacking, ", ") + ".",
		Command: "kubectl auth can-i list " + lacking[0] + " -n " + namespace + flags})
}

// allowed asks which kinds may be listed and watched in which namespaces, by name and namespace.
func allowed(
	ctx context.Context, ask asker, kinds []readable, namespaces []string,
) (map[string]map[string]bool, error) {
	answers := make([]bool, len(kinds)*len(namespaces))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range kinds {
		for j, namespace := range namespaces {
			group.Go(func() error {
				for _, verb := range []string{"list", "watch"} {
					may, err := ask(ctx, right{verb, kinds[i].group, kinds[i].resource, namespace})
					if err != nil {
						return fmt.Errorf("ask whether you may %s %s: %w", verb, kinds[i].name(), err)
					}
					if !may {
						return nil
					}
				}
				answers[i*len(namespaces)+j] = true
				return nil
			})
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	found := map[string]map[string]bool{}
	for i := range kinds {
		found[kinds[i].name()] = map[string]bool{}
		for j, namespace := range namespaces {
			found[kinds[i].name()][namespace] = answers[i*len(namespaces)+j]
		}
	}
	return found, nil
}
