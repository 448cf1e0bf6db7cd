package allow

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// counting counts reads.
type counting struct {
	client.Reader
	reads int
}

func (c *counting) Get(
	ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption,
) error {
	c.reads++
	return c.Reader.Get(ctx, key, object, options...)
}

// TestRefresh: however often it is asked for, the API server is read once in an interval.
func TestRefresh(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	reader := &counting{Reader: fake.NewClientBuilder().WithScheme(scheme).Build()}
	source := &Source{Live: reader, Namespaces: []string{"a", KruiseNamespace}}
	now := time.Unix(1000, 0)
	for range 100 {
		source.Refresh(t.Context(), now)
		now = now.Add(Interval / 100)
	}
	if reader.reads != 2 {
		t.Errorf("%d reads in an interval, want one of each namespace", reader.reads)
	}
	source.Refresh(t.Context(), now)
	if reader.reads != 4 {
		t.Errorf("%d reads after an interval", reader.reads)
	}
}
