package cloneset

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/simulator"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
)

// terminating refuses creates as an API server does in a namespace that is being deleted.
type terminating struct {
	client.Client
	on       *atomic.Bool
	attempts *atomic.Int32
}

func (c terminating) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	if !c.on.Load() {
		return c.Client.Create(ctx, obj, opts...)
	}
	c.attempts.Add(1)
	err := apierrors.NewForbidden(schema.GroupResource{Resource: "objects"}, obj.GetName(),
		errors.New("the namespace is being terminated"))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	return err
}

// namespacesUnknown is a cache that has not seen any namespace, so that only a refusal can tell.
type namespacesUnknown struct{ client.Reader }

func (namespacesUnknown) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, key.Name)
}

// TestCase14OneRefusalEndsAllCreates: whatever is created, nothing is tried after a refusal for the reason
// NamespaceTerminating. The status says so, and nothing is reported as an error.
func TestCase14OneRefusalEndsAllCreates(t *testing.T) {
	for name, change := range map[string]func(*v1beta1.CloneSetSpec){
		"pods":      func(spec *v1beta1.CloneSetSpec) { spec.Replicas = new(int32(9)) },
		"revisions": func(spec *v1beta1.CloneSetSpec) { spec.Template.Spec.Containers[0].Image = "app:2" },
		"claims": func(spec *v1beta1.CloneSetSpec) {
			spec.Replicas = new(int32(9))
			spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
				}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var on atomic.Bool
				var attempts atomic.Int32
				s := newSimulated(simulator.Options{Seed: 14, Profile: simulator.Calm(), Story: true}, func(s *simulated) {
					s.wrap = func(c client.Client) client.Client { return terminating{c, &on, &attempts} }
				})
				defer s.Stop()
				must := func(err error) {
					t.Helper()
					if err != nil {
						t.Fatalf("%v\n%s", err, s.Story())
					}
				}
				must(s.begin(simCloneSet(3, v1beta1.ReCreatePodUpdatePolicy)))
				must(s.rest())
				on.Store(true)
				s.spec(name, change)
				must(s.RunFor(15 * time.Minute))
				// One step of the slow start, which begins at the width of the last pass.
				if n := attempts.Load(); n < 1 || n > 3 {
					t.Errorf("%d attempts, want those of one step\n%s", n, s.Story())
				}
				status := s.cloneSet().Status
				for _, c := range status.Conditions {
					switch c.Type {
					case v1beta1.ConditionReady:
						if c.Status != corev1.ConditionFalse || c.Reason != conditions.ReasonNamespaceTerminating {
							t.Errorf("Ready %+v", c)
						}
					case v1beta1.CloneSetConditionFailedScale, v1beta1.CloneSetConditionFailedUpdate:
						t.Errorf("%+v", c)
					}
				}
				if status.Replicas != 3 || status.ReadyReplicas != 3 {
					t.Errorf("status counts %d pods, %d ready", status.Replicas, status.ReadyReplicas)
				}
			})
		})
	}
}
