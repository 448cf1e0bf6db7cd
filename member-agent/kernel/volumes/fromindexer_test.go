package volumes_test

import (
	"testing"

	toolscache "k8s.io/client-go/tools/cache"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/volumes"
)

// A source over somebody else's indexer sees what is put there, before and after; a second one shares the indexes.
func TestFromIndexerFollowsItsIndexer(t *testing.T) {
	s := newSet(claimTemplate("data", "1Gi"))
	indexer := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{})
	first := newClaim(s, "data", "aaaaa", 0)
	if err := indexer.Add(first); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		source, err := volumes.FromIndexer(indexer)
		if err != nil {
			t.Fatal(err)
		}
		if claims, err := source.Observe("set", podset.Set{}); err != nil || len(claims) != 1 ||
			!source.Taken("shop", "aaaaa") {
			t.Fatalf("%d claims, %v", len(claims), err)
		}
		if err := indexer.Add(newClaim(s, "data", "bbbbb", 0)); err != nil {
			t.Fatal(err)
		}
		if claims, err := source.Observe("set", podset.Set{}); err != nil || len(claims) != 2 {
			t.Fatalf("%d claims after another one came, %v", len(claims), err)
		}
		if err := indexer.Delete(newClaim(s, "data", "bbbbb", 0)); err != nil {
			t.Fatal(err)
		}
	}
}
