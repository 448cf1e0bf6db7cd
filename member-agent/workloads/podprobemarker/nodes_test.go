package podprobemarker

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/freshness"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
)

// newNodes returns a controller over one pod, whose writes to pods end with *refusal.
func newNodes(t *testing.T, pod *corev1.Pod, refusal *error) *nodes {
	t.Helper()
	source, err := podset.FromIndexer(toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{}))
	if err != nil {
		t.Fatal(err)
	}
	clock := testclock.NewFakePassiveClock(noon())
	c := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(pod.DeepCopy()).
		WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: func(
			context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption,
		) error {
			return *refusal
		}}).Build()
	return &nodes{client: c, clock: clock, pods: source, fresh: freshness.NewStore(clock), refused: newRefusals()}
}

// TestRefusedMarksAreNoted: until a write succeeds, or the pod has no marks to write any more.
func TestRefusedMarksAreNoted(t *testing.T) {
	pod := newPod("db-0")
	markers := map[string][]*v1alpha1.PodProbeMarker{"shop": {newMarker("roles", 2, "x/leader")}}
	object := &v1alpha1.NodePodProbe{}
	object.Status.PodProbeStatuses = []v1alpha1.PodProbeStatus{{UID: pod.UID,
		ProbeStates: []v1alpha1.ContainerProbeState{{Name: "roles#leader", State: "Succeeded"}}}}
	denied := apierrors.NewForbidden(corev1.Resource("pods"), "db-0", nil)
	for name, test := range map[string]struct {
		refusals []error
		want     bool
		wakes    int
	}{
		"allowed":         {[]error{nil}, false, 0},
		"refused":         {[]error{denied, denied}, true, 1},
		"allowed again":   {[]error{denied, nil}, false, 2},
		"not reached":     {[]error{apierrors.NewTooManyRequests("later", 1)}, false, 0},
		"still not known": {[]error{denied, apierrors.NewTooManyRequests("later", 1)}, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var refusal error
			n := newNodes(t, pod, &refusal)
			queue := &counting{}
			n.refused.start(queue)
			for _, refusal = range test.refusals {
				if _, err := n.mark(t.Context(), []*corev1.Pod{pod}, markers, object); (err != nil) != (refusal != nil) {
					t.Fatal(err)
				}
			}
			if got := n.refused.of(pod); (got != "") != test.want || queue.added != test.wakes {
				t.Errorf("%q, markers were woken %d times", got, queue.added)
			}
			if _, err := n.mark(t.Context(), []*corev1.Pod{pod}, nil, nil); err != nil || n.refused.of(pod) != "" {
				t.Errorf("a pod without markers: %q (%v)", n.refused.of(pod), err)
			}
		})
	}
	n := newNodes(t, pod, new(error))
	n.refused.node("node-1", denied)
	if n.refused.of(pod) == "" {
		t.Error("what is refused for a node concerns its pods")
	}
}

// TestWritesToUnmarkedPodsAreForgotten: nothing asks about them any more.
func TestWritesToUnmarkedPodsAreForgotten(t *testing.T) {
	pod := newPod("db-0")
	n := newNodes(t, pod, new(error))
	n.fresh.Changed(pod.UID, client.ObjectKeyFromObject(pod), "9")
	if _, err := n.mark(t.Context(), []*corev1.Pod{pod}, nil, nil); err != nil {
		t.Fatal(err)
	}
	shown := func(types.NamespacedName) freshness.Seen {
		return freshness.Seen{Present: true, ResourceVersion: "1"}
	}
	if fresh, _ := n.fresh.Fresh(pod.UID, shown); !fresh {
		t.Error("a write is waited for")
	}
}

// counting is a queue that counts.
type counting struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	added int
}

func (c *counting) AddAfter(reconcile.Request, time.Duration) { c.added++ }
