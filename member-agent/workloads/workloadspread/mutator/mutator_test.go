package mutator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/admission"
)

// bench is a mutator over objects that are given, behind the handler that API servers call.
type bench struct {
	*testing.T
	*mutator
	// patience is how long the handler lets the mutator wait.
	patience time.Duration
	clock    *clocktesting.FakePassiveClock
	asked    int
	// looked is called before the mutator reads a Deployment.
	looked func()
	// objects is what the mutator reads.
	objects client.Client
	// shown are pods that the mutator has been shown.
	shown []*corev1.Pod
}

// set replaces a workload in what the mutator reads.
func (b *bench) set(workload client.Object) {
	b.Helper()
	current, ok := workload.DeepCopyObject().(client.Object)
	if !ok {
		b.Fatalf("%T is no object", workload)
	}
	if err := b.objects.Get(b.Context(), client.ObjectKeyFromObject(workload), current); err != nil {
		b.Fatal(err)
	}
	workload.SetResourceVersion(current.GetResourceVersion())
	if err := b.objects.Update(b.Context(), workload); err != nil {
		b.Fatal(err)
	}
}

func newBench(t *testing.T, objects ...client.Object) *bench {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	admissions, err := newAdmissions(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{T: t, clock: clocktesting.NewFakePassiveClock(start), looked: func() {}}
	b.objects = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	reader := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).Build(), interceptor.Funcs{
		Get: func(
			ctx context.Context, _ client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption,
		) error {
			if _, ok := object.(*appsv1.Deployment); ok {
				b.looked()
			}
			return b.objects.Get(ctx, key, object, options...)
		},
		List: func(ctx context.Context, _ client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			return b.objects.List(ctx, list, options...)
		},
	})
	b.mutator = &mutator{
		reader: reader, workloads: workloads{reader}, placements: newPlacements(), synced: func() bool { return true },
		clock: b.clock, admissions: admissions, log: logr.Discard(),
	}
	return b
}

// ask returns the pod as it is after admission, and the one outcome that was counted.
func (b *bench) ask(pod *corev1.Pod, changes ...func(*admissionv1.AdmissionRequest)) (*corev1.Pod, outcome) {
	b.Helper()
	raw, err := json.Marshal(pod)
	if err != nil {
		b.Fatal(err)
	}
	b.asked++
	request := &admissionv1.AdmissionRequest{
		UID: types.UID(string(rune('a' + b.asked))), Operation: admissionv1.Create, Namespace: pod.Namespace, Name: pod.Name,
		Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Object: runtime.RawExtension{Raw: raw},
	}
	for _, change := range changes {
		change(request)
	}
	before := b.counted()
	response := b.review(request)
	if !response.Allowed {
		b.Fatalf("the pod was refused: %+v", response)
	}
	var got outcome
	for o, n := range b.counted() {
		if n > before[o] {
			got += o
		}
	}
	return b.patched(raw, response), got
}

// review returns the answer to the request.
func (b *bench) review(request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	b.Helper()
	body, err := json.Marshal(&admissionv1.AdmissionReview{Request: request})
	if err != nil {
		b.Fatal(err)
	}
	answer := httptest.NewRecorder()
	handler := admission.NewHandler(logr.Discard(), b.patience, admission.Mutator{Name: "test", Mutate: b.mutate})
	handler.ServeHTTP(
		answer,
		httptest.NewRequestWithContext(b.Context(), http.MethodPost, admission.Path, bytes.NewReader(body)),
	)
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(answer.Body.Bytes(), &review); err != nil || review.Response.UID != request.UID {
		b.Fatalf("%v in the answer %s", err, answer.Body)
	}
	return review.Response
}

// patched returns the pod with the patches of the answer.
func (b *bench) patched(raw []byte, response *admissionv1.AdmissionResponse) *corev1.Pod {
	b.Helper()
	text := response.Patch
	if text == nil {
		text = []byte("[]")
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		b.Fatal(err)
	}
	after, err := patch.Apply(raw)
	if err != nil {
		b.Fatal(err)
	}
	pod := &corev1.Pod{}
	if err := json.Unmarshal(after, pod); err != nil {
		b.Fatal(err)
	}
	return pod
}

func (b *bench) counted() map[outcome]float64 {
	b.Helper()
	out := map[outcome]float64{}
	for _, o := range outcomes() {
		var m dto.Metric
		if err := b.admissions.WithLabelValues(string(o)).Write(&m); err != nil {
			b.Fatal(err)
		}
		out[o] = m.GetCounter().GetValue()
	}
	return out
}

// given is the pod's mark.
func given(pod *corev1.Pod) v1beta1.MatchedWorkloadSpread {
	var m v1beta1.MatchedWorkloadSpread
	_ = json.Unmarshal([]byte(pod.Annotations[v1beta1.AnnotationMatchedWorkloadSpread]), &m)
	return m
}

func zones(ws *v1beta1.WorkloadSpread, caps ...string) *v1beta1.WorkloadSpread {
	ws.Spec.Subsets = nil
	for i, limit := range caps {
		name := string(rune('a' + i))
		s := v1beta1.WorkloadSpreadSubset{Name: name, RequiredNodeSelector: &corev1.NodeSelectorTerm{
			MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{name}},
			},
		}}
		if limit != "" {
			s.MaxReplicas = new(intstr.Parse(limit))
		}
		ws.Spec.Subsets = append(ws.Spec.Subsets, s)
	}
	return ws
}

func named(ws *v1beta1.WorkloadSpread, name string, created time.Time) *v1beta1.WorkloadSpread {
	ws.Name, ws.CreationTimestamp = name, metav1.NewTime(created)
	return ws
}

func deployment(replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "d"},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas},
	}
}

func replicaSet(changes ...func(*appsv1.ReplicaSet)) *appsv1.ReplicaSet {
	rs := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop",
			Name:      "web-" + hash,
			UID:       "rs",
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "d", Controller: new(true)},
			},
		},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32(4)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
	}
	for _, change := range changes {
		change(rs)
	}
	return rs
}

func TestHandler(t *testing.T) {
	deploymentSpread := func(caps ...string) *v1beta1.WorkloadSpread {
		return zones(spreadOf("apps/v1", "Deployment", "web"), caps...)
	}
	orphan := func(rs *appsv1.ReplicaSet) { rs.OwnerReferences = nil }
	dry := func(r *admissionv1.AdmissionRequest) { r.DryRun = new(true) }
	tests := []struct {
		name    string
		objects []client.Object
		pod     *corev1.Pod
		change  func(*bench)
		request []func(*admissionv1.AdmissionRequest)
		want    string // spread/subset, "" for a pod that stays as it is
		outcome outcome
	}{
		{
			name:    "the ReplicaSet is known",
			objects: []client.Object{deploymentSpread("30%", "70%"), deployment(10), replicaSet()},
			want:    "ws/a",
			outcome: outcomeSpread,
		},
		{
			name:    "the ReplicaSet is not in the cache yet",
			objects: []client.Object{deploymentSpread("30%", "70%"), deployment(10)},
			want:    "ws/a",
			outcome: outcomeSpread,
		},
		{
			name: "a namesake that is gone",
			objects: []client.Object{
				deploymentSpread("30%"),
				deployment(10),
				replicaSet(orphan, func(rs *appsv1.ReplicaSet) { rs.UID = "old" }),
			},
			want:    "ws/a",
			outcome: outcomeSpread,
		},
		{
			name:    "the ReplicaSet belongs to nobody",
			objects: []client.Object{deploymentSpread("1"), deployment(10), replicaSet(orphan)},
			outcome: outcomeForeign,
		},
		{
			name:    "the Deployment is not in the cache, and percentages are of it",
			objects: []client.Object{deploymentSpread("30%", "70%"), replicaSet()},
			outcome: outcomeUnknownTarget,
		},
		{
			name:    "the Deployment is not in the cache, and numbers are not",
			objects: []client.Object{deploymentSpread("1", "")},
			want:    "ws/a",
			outcome: outcomeSpread,
		},
		{name: "no room", objects: []client.Object{deploymentSpread("0", "0"), deployment(10)}, outcome: outcomeNoRoom},
		{name: "of two the oldest", objects: []client.Object{
			named(
				deploymentSpread("1"),
				"young",
				start.Add(time.Hour),
			), named(deploymentSpread("1"), "old", start), deployment(1), replicaSet(),
		}, want: "old/a", outcome: outcomeSpread},
		{name: "a Deployment's before its ReplicaSet's", objects: []client.Object{
			named(
				zones(spreadOf("apps/v1", "ReplicaSet", "web-"+hash), "1"),
				"old",
				start,
			), named(deploymentSpread("1"), "young", start.Add(time.Hour)), deployment(1), replicaSet(),
		}, want: "young/a", outcome: outcomeSpread},
		{name: "a Deployment's before its ReplicaSet's, named first", objects: []client.Object{
			named(
				deploymentSpread("1"),
				"a",
				start.Add(time.Hour),
			), named(zones(spreadOf("apps/v1", "ReplicaSet", "web-"+hash), "1"), "b", start), deployment(1), replicaSet(),
		}, want: "a/a", outcome: outcomeSpread},
		{name: "of two equally old the first", objects: []client.Object{
			named(deploymentSpread("1"), "x", start), named(deploymentSpread("1"), "w", start), deployment(1),
		}, want: "w/a", outcome: outcomeSpread},
		{
			name:    "a spread that is going",
			objects: []client.Object{deleted(deploymentSpread("1")), deployment(1)},
			outcome: outcomeForeign,
		},
		{
			name:    "a closed subset",
			objects: []client.Object{closed(deploymentSpread("1", ""), "a"), deployment(1)},
			want:    "ws/b",
			outcome: outcomeSpread,
		},
		{
			name:    "another namespace",
			objects: []client.Object{elsewhere(deploymentSpread("1")), deployment(1)},
			outcome: outcomeForeign,
		},
		{
			name:    "another Deployment",
			objects: []client.Object{zones(spreadOf("apps/v1", "Deployment", "we"), "1"), deployment(1)},
			outcome: outcomeForeign,
		},
		{
			name:    "an impossible spread",
			objects: []client.Object{deploymentSpread("1", "30%"), deployment(1)},
			outcome: outcomeInvalid,
		},
		{
			name: "a patch that takes the pod away from its workload",
			objects: []client.Object{
				patching(deploymentSpread("1"), `{"metadata":{"labels":{"app":"x"}}}`),
				deployment(1),
				replicaSet(),
			},
			outcome: outcomeFailed,
		},
		{
			name:    "a pod that has a subset",
			objects: []client.Object{deploymentSpread("1", ""), deployment(1)},
			pod:     spreadPod("", "b", "u"),
			want:    "ws/b",
			outcome: outcomeAssigned,
		},
		{name: "Case13: a new pod with the annotation of a removed subset",
			objects: []client.Object{deploymentSpread("1", ""), deployment(1)},
			pod:     spreadPod("", "removed", "u"), want: "ws/a", outcome: outcomeSpread},
		{name: "Case13: and no room", objects: []client.Object{deploymentSpread("0", "0"), deployment(1)},
			pod: spreadPod("", "removed", "u"), outcome: outcomeNoRoom},
		{
			name:    "a filter that leaves it out",
			objects: []client.Object{filtered(deploymentSpread("1")), deployment(1)},
			outcome: outcomeForeign,
		},
		{name: "percentages of numbers elsewhere", objects: []client.Object{func() *v1beta1.WorkloadSpread {
			ws := deploymentSpread("30%")
			ws.Spec.TargetFilter = &v1beta1.TargetFilter{ReplicasPathList: []string{"spec.replicas"}}
			return ws
		}(), deployment(10), replicaSet()}, outcome: outcomeUnknownTarget},
		{
			name: "a Job",
			objects: []client.Object{
				zones(spreadOf("batch/v1", "Job", "j"), "50%", "50%"),
				&batchv1.Job{
					ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "j", UID: "rs"},
					Spec:       batchv1.JobSpec{Parallelism: new(int32(4))},
				},
			},
			pod:     ownedPod(kindJob, "j"),
			want:    "ws/a",
			outcome: outcomeSpread,
		},
		{
			name:    "a StatefulSet",
			objects: []client.Object{zones(spreadOf("apps/v1", "StatefulSet", "db"), "2", "2"), statefulSet(0)},
			pod:     ordinal(3),
			want:    "ws/b",
			outcome: outcomeSpread,
		},
		{
			name:    "a StatefulSet that begins at 10",
			objects: []client.Object{zones(spreadOf("apps/v1", "StatefulSet", "db"), "2", "2"), statefulSet(10)},
			pod:     ordinal(11),
			want:    "ws/a",
			outcome: outcomeSpread,
		},
		{
			name:    "an ordinal above all",
			objects: []client.Object{zones(spreadOf("apps/v1", "StatefulSet", "db"), "2", "2"), statefulSet(0)},
			pod:     ordinal(4),
			outcome: outcomeNoRoom,
		},
		{
			name:    "a StatefulSet that the cache does not have",
			objects: []client.Object{zones(spreadOf("apps/v1", "StatefulSet", "db"), "2", "2")},
			pod:     ordinal(0),
			outcome: outcomeUnknownTarget,
		},
		{
			name:    "a pod of nobody",
			objects: []client.Object{deploymentSpread("1")},
			pod:     &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p"}},
			outcome: outcomeForeign,
		},
		{
			name:    "a pod of a DaemonSet",
			objects: []client.Object{deploymentSpread("1")},
			pod:     ownedPod("DaemonSet", "web"),
			outcome: outcomeForeign,
		},
		{
			name:    "half a pod",
			objects: []client.Object{deploymentSpread("1")},
			request: []func(*admissionv1.AdmissionRequest){
				func(r *admissionv1.AdmissionRequest) { r.Object.Raw = []byte(`{"spec":3}`) },
			},
			outcome: outcomeFailed,
		},
		{
			name:    "a dry run",
			objects: []client.Object{deploymentSpread("1"), deployment(1)},
			request: []func(*admissionv1.AdmissionRequest){dry},
			want:    "ws/a",
			outcome: outcomeSpread,
		},
		{
			name:    "before the cache is filled",
			change:  func(b *bench) { b.synced = func() bool { return false } },
			outcome: outcomeNotSynced,
		},
		{
			name:    "a namespace of the hub",
			objects: []client.Object{deploymentSpread("1"), deployment(1)},
			change: func(b *bench) {
				b.federated = func(context.Context, string) (bool, error) { return true, nil }
			},
			outcome: outcomeForeign,
		},
		{
			name:    "a namespace that cannot be read",
			objects: []client.Object{deploymentSpread("1"), deployment(1)},
			change: func(b *bench) {
				b.federated = func(context.Context, string) (bool, error) { return false, errors.New("no") }
			},
			outcome: outcomeFailed,
		},
		{name: "a panic", objects: []client.Object{deploymentSpread("1"), deployment(1)}, change: func(b *bench) {
			b.federated = func(context.Context, string) (bool, error) { panic("no") }
		}, outcome: outcomeFailed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, tt.objects...)
			if tt.change != nil {
				tt.change(b)
			}
			pod := tt.pod
			if pod == nil {
				pod = ownedPod(kindReplicaSet, "web-"+hash)
			}
			got, outcome := b.ask(pod, tt.request...)
			if outcome != tt.outcome {
				t.Errorf("outcome %q, want %q", outcome, tt.outcome)
			}
			mark := given(got)
			text := ""
			if mark.Subset != "" {
				text = mark.Name + "/" + mark.Subset
			}
			if text != tt.want {
				t.Errorf("subset %q, want %q", text, tt.want)
			}
			if marked := mark.UID != ""; outcome == outcomeSpread && marked != (pod.Name == "") {
				t.Errorf("mark %+v of a pod named %q", mark, pod.Name)
			}
			if cost := got.Annotations[corev1.PodDeletionCost]; outcome == outcomeNoRoom && pod.Name == "" && cost != "-300" {
				t.Errorf("a pod in no subset has the deletion cost %q", cost)
			}
			keeps := outcome == outcomeSpread && len(tt.request) == 0 && pod.Labels["apps.kubernetes.io/pod-index"] == ""
			if n := b.placements.reserved(start); (n == 1) != keeps {
				t.Errorf("%d places are kept", n)
			}
		})
	}
}

// TestHandlerFills admits one pod after another, none of which the cache shows.
func TestHandlerFills(t *testing.T) {
	b := newBench(t, zones(spreadOf("apps/v1", "Deployment", "web"), "30%", "70%"), deployment(10), replicaSet())
	got := ""
	for range 11 {
		pod, _ := b.ask(ownedPod(kindReplicaSet, "web-"+hash))
		got += given(pod).Subset
		if subset := given(pod).Subset; subset != "" {
			terms := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
			if terms[0].MatchExpressions[0].Values[0] != subset {
				t.Errorf("subset %s asks for %+v", subset, terms)
			}
		}
	}
	if got != "aaabbbbbbb" {
		t.Errorf("subsets %s", got)
	}
	pod := ownedPod(kindReplicaSet, "web-new")
	pod.Labels[labelTemplateHash], pod.OwnerReferences[0].UID = "new", "rs2"
	if pod, _ := b.ask(pod); given(pod).Subset != "a" {
		t.Errorf("a new version begins with %+v", given(pod))
	}
	b.clock.SetTime(start.Add(reservationTime))
	if pod, _ := b.ask(ownedPod(kindReplicaSet, "web-"+hash)); given(pod).Subset != "a" {
		t.Errorf("after half a minute in which no pod came the next gets %+v", given(pod))
	}
}

// TestHandlerWaitsForTheCache admits the eleventh pod of ten: the cache is behind the controller that makes it.
func TestHandlerWaitsForTheCache(t *testing.T) {
	const plenty = time.Minute
	scaled := func(b *bench) { b.set(deployment(20)) }
	gone := func(b *bench) { b.placements.OnDelete(b.shown[0]) }
	for _, tt := range []struct {
		name     string
		caps     []string
		patience time.Duration
		happens  func(*bench)
		want     string
		outcome  outcome
	}{
		{"scaled out", []string{"30%", "70%"}, plenty, scaled, "a", outcomeSpread},
		{"scaled out, and the rest goes elsewhere", []string{"30%", ""}, plenty, scaled, "a", outcomeSpread},
		{"a pod has gone", []string{"30%", "70%"}, plenty, gone, "a", outcomeSpread},
		{"a pod has gone, numbers", []string{"3", ""}, plenty, gone, "a", outcomeSpread},
		{"nothing comes", []string{"30%", "70%"}, 0, func(*bench) {}, "", outcomeNoRoom},
		{"nothing comes, and there is a rest", []string{"30%", ""}, 0, func(*bench) {}, "b", outcomeSpread},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, zones(spreadOf("apps/v1", "Deployment", "web"), tt.caps...), deployment(10), replicaSet())
			for i := range 10 {
				pod, _ := b.ask(ownedPod(kindReplicaSet, "web-"+hash))
				pod.Name = fmt.Sprint("web-", i)
				b.placements.OnAdd(pod, false)
				b.shown = append(b.shown, pod)
			}
			b.patience = tt.patience
			looks := 0
			b.looked = func() {
				if looks++; looks == 3 {
					tt.happens(b)
				}
			}
			pod, outcome := b.ask(ownedPod(kindReplicaSet, "web-"+hash))
			if got := given(pod).Subset; got != tt.want || outcome != tt.outcome {
				t.Errorf("subset %q, outcome %s after %d looks; want %q, %s", got, outcome, looks, tt.want, tt.outcome)
			}
		})
	}
}

func deleted(ws *v1beta1.WorkloadSpread) *v1beta1.WorkloadSpread {
	ws.DeletionTimestamp, ws.Finalizers = new(metav1.NewTime(start)), []string{"x/y"}
	return ws
}

func closed(ws *v1beta1.WorkloadSpread, subset string) *v1beta1.WorkloadSpread {
	ws.Status.SubsetStatuses = []v1beta1.WorkloadSpreadSubsetStatus{{Name: subset, Conditions: []metav1.Condition{
		{Type: v1beta1.WorkloadSpreadSubsetSchedulable, Status: metav1.ConditionFalse},
	}}}
	return ws
}

func elsewhere(ws *v1beta1.WorkloadSpread) *v1beta1.WorkloadSpread {
	ws.Namespace = "other"
	return ws
}

func patching(ws *v1beta1.WorkloadSpread, patch string) *v1beta1.WorkloadSpread {
	ws.Spec.Subsets[0].Patch.Raw = []byte(patch)
	return ws
}

func filtered(ws *v1beta1.WorkloadSpread) *v1beta1.WorkloadSpread {
	ws.Spec.TargetFilter = &v1beta1.TargetFilter{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "front"}},
	}
	return ws
}

func statefulSet(first int32) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", UID: "rs"}}
	if first > 0 {
		set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: first}
	}
	return set
}

func ordinal(n int) *corev1.Pod {
	pod := ownedPod(kindStatefulSet, "db")
	pod.GenerateName, pod.Name = "", "db-"+string([]byte{byte('0' + n/10), byte('0' + n%10)})
	pod.Labels[appsv1.PodIndexLabel] = pod.Name[3:]
	return pod
}
