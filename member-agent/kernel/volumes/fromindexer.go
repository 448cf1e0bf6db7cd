package volumes

import (
	"fmt"

	toolscache "k8s.io/client-go/tools/cache"
)

// FromIndexer returns a source over an indexer that is filled by somebody else, such as a simulation. The indexes that are
// missing are added to it; the error is that of an indexer that cannot take them any more.
func FromIndexer(indexer toolscache.Indexer) (*Source, error) {
	missing := indexers()
	for name := range indexer.GetIndexers() {
		delete(missing, name)
	}
	if err := indexer.AddIndexers(missing); err != nil {
		return nil, fmt.Errorf("index claims by their owner: %w", err)
	}
	return &Source{indexer: indexer}, nil
}
