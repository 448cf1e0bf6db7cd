package cloneset_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// TestHandBack tells the story of the recorded CloneSets again with our controller from the first pod on. What it
// leaves must be what the OpenKruise manager left, key by key, so that it takes its own for what it finds.
func TestHandBack(t *testing.T) {
	t.Parallel() // most of its time is waiting
	w := newWorld(t)
	r := readRecorded(t, "default-gates")
	for _, story := range []struct {
		name string
		run  func(*world, *recorded, string)
	}{
		{"web", halfWay},
		{"recreate", halfWay},
		{"vol", withClaims},
	} {
		t.Run(story.name, func(t *testing.T) {
			one, rec := *w, *r
			one.TB, rec.TB = t, t
			story.run(&one, &rec, story.name)
			(&taken{world: &one, recorded: &rec, namespace: "default"}).expectLeftAlike(&rec, story.name)
		})
	}
}

// halfWay creates the CloneSet with its first image, and changes it to the second.
func halfWay(w *world, r *recorded, name string) {
	made := as(r.cloneSet(name))
	last := made.Spec.Template.Spec.Containers[0].Image
	image("nginx:1")(made)
	w.create(made)
	w.change(name, image(last))
	w.settle(name)
}

func withClaims(w *world, r *recorded, name string) {
	w.must(w.Create(w.Context(), as(r.cloneSet(name))))
	w.eventually("all pods wait for a volume", func() string {
		cs, pods := w.get(name), w.pods(name)
		if cs.Status.UpdatedReplicas != *cs.Spec.Replicas || len(pods) != int(*cs.Spec.Replicas) {
			return fmt.Sprintf("%d pods, status %+v", len(pods), cs.Status)
		}
		return ""
	})
}

// as returns the CloneSet to be created here.
func as(cs *v1beta1.CloneSet) *v1beta1.CloneSet {
	return &v1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: cs.Name}, Spec: cs.Spec}
}

// expectLeftAlike compares the CloneSet's status and everything that belongs to it with the recording.
func (c *taken) expectLeftAlike(r *recorded, name string) {
	c.Helper()
	was, is, now := r.cloneSet(name), c.cloneSet(name), c.state()
	status, left := was.Status, is.Status
	status.Conditions, left.Conditions = nil, nil
	expectShape(c, "status of "+name, flat(c, left), flat(c, status))

	var want, got []map[string]string
	for _, pod := range r.pods(name) {
		want = append(want, shapeOfPod(c, pod))
	}
	for _, pod := range c.podsOf(name) {
		got = append(got, shapeOfPod(c, &pod))
	}
	expectShapes(c, "pods", got, want)

	want, got = nil, nil
	for _, revision := range r.revisions(name) {
		want = append(want, shapeOfRevision(c, revision))
	}
	for _, revision := range now.revisions {
		if metav1.IsControlledBy(&revision, is) {
			got = append(got, shapeOfRevision(c, &revision))
		}
	}
	expectShapes(c, "revisions", got, want)

	if len(was.Spec.VolumeClaimTemplates) == 0 {
		return
	}
	want, got = nil, nil
	for _, claim := range owned[corev1.PersistentVolumeClaim](r, "PersistentVolumeClaim", name) {
		want = append(want, shapeOfClaim(c, claim))
	}
	for _, claim := range now.claims {
		if metav1.IsControlledBy(&claim, is) {
			got = append(got, shapeOfClaim(c, &claim))
		}
	}
	expectShapes(c, "claims", got, want)
}

// expectShapes compares two lists in which the order says nothing.
func expectShapes(t testing.TB, what string, got, want []map[string]string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d %s, recorded are %d", len(got), what, len(want))
		return
	}
	for _, list := range [][]map[string]string{got, want} {
		slices.SortFunc(list, func(a, b map[string]string) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	for i := range got {
		expectShape(t, fmt.Sprintf("%s, number %d", what, i), got[i], want[i])
	}
}

func expectShape(t testing.TB, what string, got, want map[string]string) {
	t.Helper()
	keys := maps.Clone(want)
	maps.Copy(keys, got)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		was, recorded := want[key]
		is, left := got[key]
		switch {
		case !recorded && !ours(key):
			t.Errorf("%s: we leave %s = %s, which is not recorded", what, key, is)
		case recorded && !left:
			t.Errorf("%s: we leave no %s, recorded is %s", what, key, was)
		case recorded && was != is:
			t.Errorf("%s: we leave %s = %s, recorded is %s", what, key, is, was)
		}
	}
}

// ours tells whether nobody else reads the field: a JSON reader that does not know it passes over it.
func ours(key string) bool {
	return strings.HasPrefix(key, statePrefix+".lastContainerStatuses.") && strings.HasSuffix(key, ".containerID")
}

const statePrefix = "annotation " + v1beta1.AnnotationInPlaceUpdateState

// shapeOfPod returns what a workload manager decides of a pod: no times, no random parts of names, nothing of the
// kubelet's.
func shapeOfPod(t testing.TB, pod *corev1.Pod) map[string]string {
	t.Helper()
	id := pod.Labels[v1beta1.LabelInstanceID]
	out := shapeOf(pod, id)
	if text, ok := pod.Annotations[v1beta1.AnnotationInPlaceUpdateState]; ok {
		delete(out, statePrefix)
		var fields map[string]any
		if err := json.Unmarshal([]byte(text), &fields); err != nil {
			t.Fatal(err)
		}
		flatten(out, statePrefix, fields)
	}
	if key := "label " + v1beta1.LabelLifecycleState; pod.Spec.NodeName == "" &&
		out[key] == string(v1beta1.LifecyclePreparingNormal) {
		// OpenKruise lets a pod without preNormal hook wait for its node; ours is Normal at once, which the next state is
		// anyway.
		out[key] = string(v1beta1.LifecycleNormal)
	}
	for key := range out {
		// Simulated kubelets name images and containers differently.
		if key == "annotation "+v1beta1.AnnotationLifecycleTimestamp ||
			strings.HasSuffix(strings.ToLower(key), "timestamp") || strings.HasSuffix(key, ".imageID") {
			out[key] = "…"
		}
	}
	for _, condition := range pod.Status.Conditions {
		if kind := string(condition.Type); kind == "InPlaceUpdateReady" || kind == "KruisePodReady" {
			out["condition "+kind] = fmt.Sprintf("%s %s %s", condition.Status, condition.Reason, condition.Message)
		}
	}
	spec := pod.Spec.DeepCopy()
	spec.NodeName = ""
	token := func(name string) bool { return strings.HasPrefix(name, "kube-api-access-") }
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v corev1.Volume) bool { return token(v.Name) })
	for i := range spec.Containers {
		mounts := &spec.Containers[i].VolumeMounts
		*mounts = slices.DeleteFunc(*mounts, func(m corev1.VolumeMount) bool { return token(m.Name) })
	}
	for key, value := range flat(t, spec) {
		out["spec"+key] = strings.ReplaceAll(value, id, "<id>")
	}
	return out
}

func shapeOfRevision(t testing.TB, revision *appsv1.ControllerRevision) map[string]string {
	t.Helper()
	out := shapeOf(revision, "")
	// OpenKruise's mark that it has had the image downloaded ahead, which it does behind a gate.
	delete(out, "label apps.kruise.io/pre-predownload-created")
	var data bytes.Buffer
	if err := json.Compact(&data, revision.Data.Raw); err != nil {
		t.Fatal(err)
	}
	out["data"], out["number"] = data.String(), fmt.Sprint(revision.Revision)
	return out
}

func shapeOfClaim(t testing.TB, claim *corev1.PersistentVolumeClaim) map[string]string {
	t.Helper()
	out := shapeOf(claim, claim.Labels[v1beta1.LabelInstanceID])
	for key, value := range flat(t, claim.Spec) {
		out["spec"+key] = value
	}
	return out
}

// shapeOf returns the metadata; id is the random part of the name.
func shapeOf(object client.Object, id string) map[string]string {
	out := map[string]string{"generateName": object.GetGenerateName(), "finalizers": fmt.Sprint(object.GetFinalizers())}
	mask := func(text string) string {
		if id == "" {
			return text
		}
		return strings.ReplaceAll(text, id, "<id>")
	}
	out["name"] = mask(object.GetName())
	for key, value := range object.GetLabels() {
		// Newer API servers copy those of the node on its pods.
		if key != corev1.LabelTopologyRegion && key != corev1.LabelTopologyZone {
			out["label "+key] = mask(value)
		}
	}
	for key, value := range object.GetAnnotations() {
		out["annotation "+key] = mask(value)
	}
	for i, ref := range object.GetOwnerReferences() {
		ref.UID = types.UID("")
		out[fmt.Sprint("owner ", i)] = ref.String()
	}
	return out
}

// flat returns the fields of v by their paths.
func flat(t testing.TB, v any) map[string]string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var decoded any
	if err := json.Unmarshal(data, &decoded); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	flatten(out, "", decoded)
	return out
}

func flatten(out map[string]string, path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, field := range v {
			flatten(out, path+"."+key, field)
		}
	case []any:
		for i, item := range v {
			flatten(out, fmt.Sprintf("%s[%d]", path, i), item)
		}
	default:
		out[path] = fmt.Sprint(v)
	}
}
