package dashboard

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/flotilla-dev/flotilla/e2e/wording"
)

// TestGrants: what the user may not read is named, and the rest is read.
func TestGrants(t *testing.T) {
	kinds := []readable{
		{group: "topology", resource: "placements", divided: true, placements: true},
		{group: "work", resource: "works", without: "there are no numbers"},
		{group: "apps", resource: "clonesets", divided: true},
		{group: "apps", resource: "distributions", unscoped: true, without: "they are not shown"},
	}
	all := func(context.Context) ([]string, error) { return []string{"shop", "data", "secret"}, nil }
	forbidden := func(context.Context) ([]string, error) {
		return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, "", errors.New("no"))
	}
	for _, tc := range []struct {
		name   string
		may    []string
		scope  scope
		where  map[string][]string
		unread []string
	}{
		{"everything", []string{"placements", "works", "clonesets", "distributions"}, scope{federated: all},
			map[string][]string{"placements.topology": {""}, "works.work": {""}, "clonesets.apps": {""},
				"distributions.apps": {""}}, nil},
		{"two of three namespaces", []string{"works", "placements/shop", "clonesets/shop", "clonesets/data"},
			scope{federated: all},
			map[string][]string{"placements.topology": {"shop"}, "works.work": {""}, "clonesets.apps": {"shop"}},
			[]string{"distributions.apps", "namespace data", "namespace secret"}},
		{"workloads everywhere, and placements in one namespace", []string{"works", "placements/shop", "clonesets"},
			scope{federated: all},
			map[string][]string{"placements.topology": {"shop"}, "works.work": {""}, "clonesets.apps": {"shop"}},
			[]string{"distributions.apps", "namespace data", "namespace secret"}},
		{"placements everywhere, and workloads in one namespace", []string{"works", "placements", "clonesets/shop"},
			scope{federated: func(context.Context) ([]string, error) { return []string{"shop", "data"}, nil }},
			map[string][]string{"placements.topology": {""}, "works.work": {""}, "clonesets.apps": {"shop"}},
			[]string{"distributions.apps", "namespace data"}},
		{"cluster-scoped workloads without their placements", []string{"works", "placements/shop", "clonesets/shop",
			"distributions"}, scope{federated: func(context.Context) ([]string, error) { return []string{"shop"}, nil }},
			map[string][]string{"placements.topology": {"shop"}, "works.work": {""}, "clonesets.apps": {"shop"}},
			[]string{"distributions.apps"}},
		{"namespaces cannot be listed", []string{"placements/own", "clonesets/own", "placements/flotilla-system"},
			scope{own: "own", federated: forbidden},
			map[string][]string{"placements.topology": {"own", "flotilla-system"}, "clonesets.apps": {"own"}},
			[]string{"works.work", "distributions.apps", "namespaces"}},
		{"one namespace is asked for", []string{"placements", "works", "clonesets", "distributions"},
			scope{only: "shop", federated: forbidden},
			map[string][]string{"placements.topology": {"shop", "flotilla-system"}, "works.work": {""},
				"clonesets.apps": {"shop"}, "distributions.apps": {""}}, nil},
		{"nothing", nil, scope{federated: all}, map[string][]string{},
			[]string{"works.work", "distributions.apps", "namespace shop", "namespace data", "namespace secret"}},
	} {
		ask := func(_ context.Context, r right) (bool, error) {
			return slices.Contains(tc.may, r.resource) || slices.Contains(tc.may, r.resource+"/"+r.namespace), nil
		}
		g, err := findGrants(t.Context(), ask, kinds, &tc.scope)
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		if diff := cmp.Diff(tc.where, g.where); diff != "" {
			t.Errorf("%s: -want +got:\n%s", tc.name, diff)
		}
		var unread []string
		for _, u := range g.unread {
			unread = append(unread, u.What)
			if wrong := wording.Wrong(u.Why); wrong != "" || u.Why == "" || u.Command == "" {
				t.Errorf("%s: %+v: %s", tc.name, u, wrong)
			}
		}
		if diff := cmp.Diff(tc.unread, unread); diff != "" {
			t.Errorf("%s: not read: -want +got:\n%s", tc.name, diff)
		}
	}
	broken := func(context.Context, right) (bool, error) { return false, errors.New("no answer") }
	if _, err := findGrants(t.Context(), broken, kinds, &scope{federated: all}); err == nil {
		t.Error("no answer counts as one")
	}
}

// TestCovers: what is taken away is noticed, and what is added is not.
func TestCovers(t *testing.T) {
	of := func(namespaces ...string) *grants { return &grants{where: map[string][]string{"works": namespaces}} }
	for _, tc := range []struct {
		now, before *grants
		want        bool
	}{
		{of("a", "b"), of("a"), true}, {of(""), of("a", "b"), true}, {of("a"), of("a", "b"), false},
		{of("a"), of(""), false}, {&grants{}, of("a"), false}, {of("a"), &grants{}, true},
	} {
		if got := tc.now.covers(tc.before); got != tc.want {
			t.Errorf("%v covers %v: %t", tc.now.where, tc.before.where, got)
		}
	}
}
