package conversion_test

import (
	"flag"
	"fmt"
	"math/rand"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"

	"github.com/flotilla-dev/flotilla/apis/apps/conversion"
	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	policyalpha "github.com/flotilla-dev/flotilla/apis/policy/v1alpha1"
	policybeta "github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
)

var (
	rounds = flag.Int("rounds", 18000, "number of random objects that are converted there and back, over all kinds and "+
		"both ways")
	only = flag.String("kind", "", "the kind of the objects, all kinds by default")
	seed = flag.Int64("seed", 1, "first seed of the random objects")
)

// starts are the kinds in both versions, each to start with.
func starts() []func() k8sruntime.Object {
	return []func() k8sruntime.Object{
		func() k8sruntime.Object { return &v1alpha1.CloneSet{} }, func() k8sruntime.Object { return &v1beta1.CloneSet{} },
		func() k8sruntime.Object { return &v1alpha1.StatefulSet{} }, func() k8sruntime.Object {
			return &v1beta1.StatefulSet{}
		},
		func() k8sruntime.Object { return &v1alpha1.DaemonSet{} }, func() k8sruntime.Object { return &v1beta1.DaemonSet{} },
		func() k8sruntime.Object { return &v1alpha1.BroadcastJob{} },
		func() k8sruntime.Object { return &v1beta1.BroadcastJob{} },
		func() k8sruntime.Object { return &v1alpha1.AdvancedCronJob{} },
		func() k8sruntime.Object { return &v1beta1.AdvancedCronJob{} },
		func() k8sruntime.Object { return &v1alpha1.ContainerRecreateRequest{} },
		func() k8sruntime.Object { return &v1beta1.ContainerRecreateRequest{} },
		func() k8sruntime.Object { return &v1alpha1.ImageListPullJob{} },
		func() k8sruntime.Object { return &v1beta1.ImageListPullJob{} },
		func() k8sruntime.Object { return &v1alpha1.ImagePullJob{} },
		func() k8sruntime.Object { return &v1beta1.ImagePullJob{} },
		func() k8sruntime.Object { return &v1alpha1.NodeImage{} },
		func() k8sruntime.Object { return &v1beta1.NodeImage{} },
		func() k8sruntime.Object { return &v1alpha1.PersistentPodState{} },
		func() k8sruntime.Object { return &v1beta1.PersistentPodState{} },
		func() k8sruntime.Object { return &v1alpha1.ResourceDistribution{} },
		func() k8sruntime.Object { return &v1beta1.ResourceDistribution{} },
		func() k8sruntime.Object { return &v1alpha1.SidecarSet{} },
		func() k8sruntime.Object { return &v1beta1.SidecarSet{} },
		func() k8sruntime.Object { return &v1alpha1.UnitedDeployment{} }, func() k8sruntime.Object {
			return &v1beta1.UnitedDeployment{}
		},
		func() k8sruntime.Object { return &policyalpha.PodUnavailableBudget{} },
		func() k8sruntime.Object { return &policybeta.PodUnavailableBudget{} },
		func() k8sruntime.Object { return &v1alpha1.WorkloadSpread{} }, func() k8sruntime.Object {
			return &v1beta1.WorkloadSpread{}
		},
	}
}

// TestRounds converts random objects to the other version, through JSON, and back: they are what they were. The other
// version's Go type knows every field of what is in between.
func TestRounds(t *testing.T) {
	workers := runtime.GOMAXPROCS(0)
	var group sync.WaitGroup
	for worker := range workers {
		group.Go(func() {
			r := newRandom(t, *seed+int64(worker))
			r.starts = slices.DeleteFunc(starts(), func(start func() k8sruntime.Object) bool {
				return *only != "" && reflect.TypeOf(start()).Elem().Name() != *only
			})
			for i := worker; i < *rounds && !t.Failed(); i += workers {
				if wrong := r.round(i); wrong != "" {
					t.Errorf("round %d of -seed=%d: %s", i, *seed, wrong)
				}
			}
		})
	}
	group.Wait()
}

// random makes objects.
type random struct {
	*rand.Rand
	fill   *randfill.Filler
	scheme *k8sruntime.Scheme
	starts []func() k8sruntime.Object
	// carried are remainders of earlier rounds, for objects that they are not of.
	carried []string
}

func newRandom(t *testing.T, seed int64) *random {
	t.Helper()
	scheme := newScheme(t)
	source := rand.NewSource(seed)
	funcs := fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs, func(serializer.CodecFactory) []any { return choices() })
	return &random{Rand: rand.New(rand.NewSource(seed)), scheme: scheme,
		fill: fuzzer.FuzzerFor(funcs, source, serializer.NewCodecFactory(scheme)).NumElements(0, 3)}
}

// round converts object i there and back, and says what is wrong.
func (r *random) round(i int) string {
	typed := r.starts[i/runtime.GOMAXPROCS(0)%len(r.starts)]()
	r.fill.Fill(typed)
	content, err := k8sruntime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return err.Error()
	}
	gvks, _, err := r.scheme.ObjectKinds(typed)
	if err != nil {
		return err.Error()
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(gvks[0])
	r.disturb(u)

	group, version := gvks[0].Group+"/", gvks[0].Version
	way := [2]string{group + "v1alpha1", group + "v1beta1"}
	if version == "v1beta1" {
		way = [2]string{way[1], way[0]}
	}
	other, err := conversion.Convert(u, way[1])
	if err != nil {
		return err.Error()
	}
	if other, err = throughJSON(other); err != nil {
		return err.Error()
	}
	if r.Intn(8) == 0 { // It takes longer than all the rest.
		known, err := r.scheme.New(other.GroupVersionKind())
		if err != nil {
			return err.Error()
		}
		if err := k8sruntime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(other.Object, known,
			true); err != nil {
			return fmt.Sprintf("%v in\n%s\nfrom\n%s", err, text(other), text(u))
		}
	}
	again, err := conversion.Convert(other, way[0])
	if err != nil {
		return err.Error()
	}
	if r.remember(remainder(other)); remainder(u) == "" && !reflect.DeepEqual(again.Object, u.Object) ||
		!reflect.DeepEqual(visible(again).Object, visible(u).Object) {
		return fmt.Sprintf("\n%s\nbecame\n%s\nby way of\n%s", text(u), text(again), text(other))
	}
	return ""
}

func throughJSON(u *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	data, err := u.MarshalJSON()
	if err != nil {
		return nil, err
	}
	read := &unstructured.Unstructured{}
	return read, read.UnmarshalJSON(data)
}

func (r *random) remember(remainder string) {
	if remainder == "" {
		return
	}
	if len(r.carried) < 100 {
		r.carried = append(r.carried, remainder)
	} else {
		r.carried[r.Intn(len(r.carried))] = remainder
	}
}

// disturb gives some objects labels and annotations that mean something in v1alpha1, and the remainder of another
// object.
func (r *random) disturb(u *unstructured.Unstructured) {
	for key, values := range map[string][]string{
		v1alpha1.LabelExcludePreparingDelete:  {"true", "false", ""},
		v1alpha1.LabelSidecarSetCustomVersion: {"1", ""},
	} {
		if r.Intn(4) == 0 {
			labels := u.GetLabels()
			if labels == nil {
				labels = map[string]string{}
			}
			labels[key] = values[r.Intn(len(values))]
			u.SetLabels(labels)
		}
	}
	annotations := u.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	if r.Intn(4) == 0 {
		annotations[v1alpha1.AnnotationPartitionedScaling] = []string{"true", "false", ""}[r.Intn(3)]
	}
	for _, key := range []string{v1alpha1.AnnotationImagePreDownloadParallelism,
		v1alpha1.AnnotationImagePreDownloadTimeoutSeconds, v1alpha1.AnnotationImagePreDownloadMinUpdatedReadyPods} {
		if r.Intn(4) == 0 {
			values := []string{"1", "007", "20%", "101%", "-1", "many", "", "99999999999"}
			annotations[key] = values[r.Intn(len(values))]
		}
	}
	for key, values := range map[string][]string{
		v1alpha1.AnnotationCRRSyncContainerStatuses: {`[{"name":"a","ready":true,"restartCount":1}]`, "[]", "[5]", "{",
			` [ {"name": "a", "more": 1}, {} ]`, ""},
		v1alpha1.AnnotationCRRUnreadyAcquired:     {"2026-01-02T03:04:05Z", "2026-01-02T03:04:05.678+02:00", "today", ""},
		policybeta.AnnotationProtectOperations:    {"DELETE", "DELETE,EVICT", "UPDATE, RESIZE", "delete", ""},
		policybeta.AnnotationProtectTotalReplicas: {"1", "007", "0", "-1", "many", "99999999999"},
	} {
		if r.Intn(4) == 0 {
			annotations[key] = values[r.Intn(len(values))]
		}
	}
	if len(r.carried) > 0 && r.Intn(16) == 0 {
		key := conversion.RemainderOfV1beta1
		if u.GroupVersionKind().Version == "v1beta1" {
			key = conversion.RemainderOfV1alpha1
		}
		annotations[key] = r.carried[r.Intn(len(r.carried))]
	}
	if len(annotations) > 0 {
		u.SetAnnotations(annotations)
	}
}

// choices fill what decides with values that mean something, and templates, which are carried over whole, with little.
func choices() []any {
	return []any{
		func(s *v1alpha1.CloneSetUpdateStrategyType, c randfill.Continue) {
			*s = pick[v1alpha1.CloneSetUpdateStrategyType](c, "", "ReCreate", "InPlaceIfPossible", "InPlaceOnly", "OnDelete",
				"x")
		},
		func(s *v1alpha1.SubsetCloneSetUpdateStrategyType, c randfill.Continue) {
			*s = pick[v1alpha1.SubsetCloneSetUpdateStrategyType](c, "", "ReCreate", "InPlaceIfPossible", "InPlaceOnly",
				"OnDelete", "RollingUpdate", "x")
		},
		func(s *v1beta1.CloneSetUpdateStrategyType, c randfill.Continue) {
			*s = pick[v1beta1.CloneSetUpdateStrategyType](c, "", "OnDelete", "RollingUpdate")
		},
		func(s *v1beta1.PodUpdatePolicyType, c randfill.Continue) {
			*s = pick[v1beta1.PodUpdatePolicyType](c, "", "ReCreate", "InPlaceIfPossible", "InPlaceOnly", "x")
		},
		func(s *v1alpha1.DaemonSetRollingUpdateType, c randfill.Continue) {
			*s = pick[v1alpha1.DaemonSetRollingUpdateType](c, "", "Standard", "Surging", "InPlaceIfPossible", "x")
		},
		func(s *v1beta1.DaemonSetRollingUpdateType, c randfill.Continue) {
			*s = pick[v1beta1.DaemonSetRollingUpdateType](c, "", "Standard", "InPlaceIfPossible", "Surging")
		},
		func(o *policybeta.PubOperation, c randfill.Continue) { *o = pick(c, policybeta.PubOperations()...) },
		func(v *intstr.IntOrString, c randfill.Continue) {
			*v = pick(c, intstr.FromInt32(c.Int31n(5)), intstr.FromString("20%"), intstr.FromString("x"))
		},
		func(s *metav1.Condition, c randfill.Continue) {
			c.FillNoCustom(s)
			s.Type = pick(c, v1beta1.ConditionPreRecreateGrace, v1beta1.ConditionReady)
			s.Status = pick(c, metav1.ConditionTrue, metav1.ConditionFalse)
		},
		func(s *v1beta1.SubsetStatus, c randfill.Continue) {
			c.FillNoCustom(s)
			s.Name = pick(c, "a", "b", "c", s.Name)
		},
		func(m *map[string]int32, c randfill.Continue) {
			*m = nil
			for range c.Intn(4) {
				if *m == nil {
					*m = map[string]int32{}
				}
				(*m)[pick(c, "a", "b", "c", "d")] = c.Int31n(3)
			}
		},
		func(r *k8sruntime.RawExtension, c randfill.Continue) {
			r.Raw = pick(c, nil, []byte(`{"metadata":{"labels":{"a":"b"}}}`))
		},
		func(p *corev1.PodTemplateSpec, c randfill.Continue) {
			c.Fill(&p.Labels)
			p.Spec.Containers = make([]corev1.Container, 1)
			c.Fill(&p.Spec.Containers[0].Name)
		},
		func(t *v1beta1.PodTemplate, c randfill.Continue) { c.Fill(&t.PodTemplateSpec) },
		func(t *v1beta1.JobTemplate, c randfill.Continue) { c.Fill(&t.JobTemplateSpec) },
		func(s *batchv1.JobSpec, c randfill.Continue) { c.Fill(&s.Template) },
		func(s *v1beta1.NativeStatefulSetSpec, c randfill.Continue) { c.Fill(&s.StatefulSetSpec) },
		func(s *v1beta1.NativeDeploymentSpec, c randfill.Continue) { c.Fill(&s.DeploymentSpec) },
		func(p *corev1.PersistentVolumeClaim, c randfill.Continue) { c.Fill(&p.Name) },
		func(s *appsv1.StatefulSetSpec, c randfill.Continue) { c.Fill(&s.Template) },
		func(s *appsv1.DeploymentSpec, c randfill.Continue) { c.Fill(&s.Template) },
		// Conversion looks at no other metadata, and at no text as such.
		func(m *metav1.ObjectMeta, c randfill.Continue) {
			c.Fill(&m.Name)
			c.Fill(&m.Labels)
			c.Fill(&m.Annotations)
		},
		func(s *metav1.LabelSelector, c randfill.Continue) {
			c.Fill(&s.MatchLabels)
			if c.Intn(4) == 0 {
				s.MatchLabels = map[string]string{"kubernetes.io/metadata.name": "a"}
			}
		},
		func(s *v1beta1.SidecarContainer, c randfill.Continue) {
			c.Fill(&s.Name)
			c.Fill(&s.TransferEnv)
		},
		func(v *v1beta1.SidecarVolume, c randfill.Continue) { c.Fill(&v.Name) },
		func(s *string, c randfill.Continue) {
			*s = pick(c, "a", "b", "c", "Zone-1", "x/y", "~0~1", "ÿ\u2028", "5", "true", "", "a longer text\nwith <lines>",
				`{"a": "b"}`)
		},
	}
}

func pick[T any](c randfill.Continue, values ...T) T {
	return values[c.Intn(len(values))]
}
