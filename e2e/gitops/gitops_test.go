//go:build e2e

package gitops_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/e2e/harness"
)

const (
	root = "../.."
	page = root + "/docs/tasks/gitops.md"
	// judge says what the tools read.
	judge  = "gitops-health"
	ns     = "shop"
	atRest = "it runs as asked"
	// stuck in a label of the pods keeps them from getting ready.
	stuck = fleet.LabelNeverReady
)

// verdict is what the tools say of one object, by the column of the page.
type verdict struct {
	KStatus, Builtin, Ours struct{ Status, Message string }
}

// scenario is one run of all phases.
type scenario struct {
	*testing.T
	ctx  context.Context
	h    *harness.Harness
	want map[string][]string // rows of the page by their first two cells
	seen map[string]bool
}

func TestHealth(t *testing.T) {
	RegisterTestingT(t)
	log.SetLogger(logr.Discard())
	ctx := t.Context()
	h, err := harness.Start(ctx, harness.Options{Members: harness.ThreeMembers(),
		Progress: func(step string) { t.Log("fleet:", step) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	s := &scenario{T: t, ctx: ctx, h: h, want: rows(t), seen: map[string]bool{}}
	h.Hub.Apply(ctx, namespace, policy("everywhere", "east, south, west", "everywhere"),
		policy("nowhere", "atlantis", "nowhere"))
	for _, kind := range []workload{
		{harness.CloneSet(ns, "api"), cloneSet, "/spec/template", "/spec/updateStrategy/rollingUpdate"},
		{harness.UnitedDeployment(ns, "web"), unitedDeployment, "/spec/template/cloneSetTemplate/spec/template",
			"/spec/updateStrategy/manualUpdate"},
	} {
		s.phases(kind)
	}
	for row := range s.want {
		if !s.seen[row] {
			t.Errorf("%s tells of %q, which no phase of this test is", page, row)
		}
	}
}

// workload is a kind in the test: its object, its manifest with a name, labels and a pod label, and where its pod
// template and what steers its update stand in it.
type workload struct {
	harness.Workload
	manifest           func(name, where string, podLabel string) string
	template, steering string
}

// phases brings a workload from one phase to the next, and asks the tools in each.
func (s *scenario) phases(w workload) {
	h, ctx := s.h, s.ctx
	const replicas = 6
	label := w.template + "/metadata/labels/" + strings.ReplaceAll(stuck, "/", "~1")

	h.Hub.Apply(ctx, w.manifest(w.Name, "everywhere", "true"))
	s.phase(w, "its first pods are starting", func(object *unstructured.Unstructured) bool {
		return number(object, "status", "replicas") == replicas && condition(object, "Ready").Status == metav1.ConditionFalse
	})

	s.patch(w, `[{"op": "replace", "path": "`+label+`", "value": "false"}]`)
	h.ExpectAtRest(ctx, w.Workload, replicas)
	s.phase(w, atRest, ready)
	s.edited(w, "nobody has looked at it yet",
		func(object *unstructured.Unstructured) { unstructured.RemoveNestedField(object.Object, "status") })
	s.edited(w, "a change is not seen yet",
		func(object *unstructured.Unstructured) { object.SetGeneration(object.GetGeneration() + 1) })
	s.appliedAgain(w)

	s.patch(w, hold(w, `5`), `[{"op": "replace", "path": "`+w.template+`/spec/containers/0/image", "value": "main:2"}]`)
	h.ExpectAtRest(ctx, w.Workload, replicas)
	s.phase(w, "its partition is reached", func(object *unstructured.Unstructured) bool {
		return ready(object) && number(object, "status", "updatedReplicas") == 1
	})

	if w.Kind == "CloneSet" {
		s.patch(w, `[{"op": "add", "path": "/spec/updateStrategy/rollingUpdate/paused", "value": true}]`, hold(w, `0`))
		s.phase(w, "it is paused in the middle of an update", func(object *unstructured.Unstructured) bool {
			return condition(object, "Ready").Reason == "Paused" && observed(object)
		})
		s.patch(w, `[{"op": "remove", "path": "/spec/updateStrategy/rollingUpdate/paused"}]`)
	} else {
		s.patch(w, hold(w, `0`))
	}
	h.ExpectAtRest(ctx, w.Workload, replicas)
	s.phase(w, atRest+", with a partition of 0", ready)

	s.patch(w, `[{"op": "replace", "path": "`+label+`", "value": "true"}]`)
	s.phase(w, "an update is under way", func(object *unstructured.Unstructured) bool {
		return observed(object) && number(object, "status", "updatedReplicas") > 0 &&
			condition(object, "Ready").Status == metav1.ConditionFalse
	})
	if w.Kind == "CloneSet" {
		s.patch(w, `[{"op": "add", "path": "/spec/progressDeadlineSeconds", "value": 2}]`)
		s.phase(w, "its deadline has passed", func(object *unstructured.Unstructured) bool {
			return observed(object) && condition(object, "Progressing").Reason == "ProgressDeadlineExceeded"
		})
	}
	s.patch(w, `[{"op": "replace", "path": "`+label+`", "value": "false"}]`)
	h.ExpectAtRest(ctx, w.Workload, replicas)

	s.patch(w, `[{"op": "replace", "path": "/spec/replicas", "value": 0}]`)
	h.ExpectAtRest(ctx, w.Workload, 0)
	s.phase(w, "it is scaled to zero", func(object *unstructured.Unstructured) bool {
		return ready(object) && number(object, "status", "replicas") == 0
	})

	lost := w
	lost.Name += "-lost"
	h.Hub.Apply(ctx, w.manifest(lost.Name, "nowhere", "false"))
	s.phase(lost, "only a person can help", func(object *unstructured.Unstructured) bool {
		return condition(object, "Stalled").Status == metav1.ConditionTrue
	})

	for _, c := range append([]*harness.Cluster{h.Hub}, slices.Collect(maps.Values(h.Members))...) {
		object, err := c.Get(ctx, w.Workload)
		if err != nil {
			s.Fatal(err)
		}
		base := object.DeepCopy()
		controllerutil.AddFinalizer(object, "test.flotilla.dev/hold")
		if err := c.Client.Patch(ctx, object, client.MergeFrom(base)); err != nil {
			s.Fatal(err)
		}
	}
	h.Kubectl(ctx, "-n", ns, "delete", w.String(), "--wait=false")
	s.phase(w, "it is being deleted",
		func(object *unstructured.Unstructured) bool { return object.GetDeletionTimestamp() != nil })
}

// hold is a patch that holds pods back: of a CloneSet as many as that, of a UnitedDeployment those of its one subset.
func hold(w workload, pods string) string {
	if w.Kind == "CloneSet" {
		return `[{"op": "add", "path": "` + w.steering + `/partition", "value": ` + pods + `}]`
	}
	return `[{"op": "add", "path": "/spec/updateStrategy",
			"value": {"type": "Manual", "manualUpdate": {"partitions": {"all": ` + pods + `}}}}]`
}

// phase waits until the object on the hub is in the phase, and compares what the tools say with its row: of the object
// as v1beta1 and as v1alpha1. Then it holds what they say of the members' objects against the pods there
// (members_test.go).
func (s *scenario) phase(w workload, name string, is func(*unstructured.Unstructured) bool) {
	s.Helper()
	var object *unstructured.Unstructured
	Eventually(s.ctx, func(ctx context.Context) (string, error) {
		var err error
		if object, err = s.h.Hub.Get(ctx, w.Workload); err != nil {
			return "", err
		}
		if is(object) {
			return "", nil
		}
		status, err := json.Marshal(object.Object["status"])
		return string(status), err
	}).WithTimeout(harness.Patience).WithPolling(100*time.Millisecond).Should(BeEmpty(), "%s: %s", w, name)
	s.compare(w, name, object)
	s.inMembers(w, name)
}

// edited asks the tools about the hub's object, and those of members, with a change that stands in no API server long
// enough to be read there.
func (s *scenario) edited(w workload, name string, edit func(*unstructured.Unstructured)) {
	s.Helper()
	object, err := s.h.Hub.Get(s.ctx, w.Workload)
	if err != nil {
		s.Fatal(err)
	}
	edit(object)
	s.compare(w, name, object)
	for _, member := range s.h.MemberNames() {
		in, err := s.h.Members[member].Get(s.ctx, w.Workload)
		if err != nil {
			s.Fatal(err)
		}
		edit(in)
		v := s.ask(in)[0]
		if have, row := []string{v.KStatus.Status, v.Ours.Status}, s.want[w.Kind+" "+name]; have[0] != row[0] ||
			have[1] != row[3] {
			s.Errorf("%s %s, in %s: kstatus and our check say %v, the page says %v", w.Kind, name, member, have, row)
		}
	}
}

// compare holds the verdicts on the object against its row of the page.
func (s *scenario) compare(w workload, phase string, object *unstructured.Unstructured) {
	s.Helper()
	row := w.Kind + " " + phase
	want, ok := s.want[row]
	if !ok {
		s.Errorf("%s has no row for %q", page, row)
	}
	s.seen[row] = true
	older := s.older(object)
	verdicts := s.ask(object, older)
	have := []string{verdicts[0].KStatus.Status, verdicts[0].Builtin.Status, verdicts[1].Builtin.Status,
		verdicts[0].Ours.Status}
	for i := range have {
		if have[i] == "" {
			have[i] = "none"
		}
	}
	if fmt.Sprint(have) != fmt.Sprint(want) {
		s.Errorf("%s: kstatus, Argo CD (v1beta1, v1alpha1), ours: %v, the page says %v\n%+v", row, have, want, verdicts)
	}
	if verdicts[1].Ours != verdicts[0].Ours || verdicts[1].KStatus != verdicts[0].KStatus {
		s.Errorf("%s: ours and kstatus say %+v of v1beta1, %+v of v1alpha1", row, verdicts[0], verdicts[1])
	}
	if verdicts[0].Ours.Message == "" {
		s.Errorf("%s: our check has no message", row)
	}
}

// older is the object as v1alpha1. What was edited is edited there too: its metadata and whether it has a status.
func (s *scenario) older(object *unstructured.Unstructured) *unstructured.Unstructured {
	s.Helper()
	older := &unstructured.Unstructured{}
	older.SetGroupVersionKind(schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1alpha1",
		Kind: object.GetKind()})
	if err := s.h.Hub.Client.Get(s.ctx, client.ObjectKeyFromObject(object), older); err != nil {
		s.Fatal(err)
	}
	older.Object["metadata"] = object.Object["metadata"]
	if status, ok := object.Object["status"]; ok {
		older.Object["status"] = status // both versions have the same, and the object may have moved on since
	} else {
		delete(older.Object, "status")
	}
	return older
}

// ask returns what the tools say, in the order of the objects.
func (s *scenario) ask(objects ...*unstructured.Unstructured) []verdict {
	s.Helper()
	bin, err := fleet.FindBinaries()
	if err != nil {
		s.Fatal(err)
	}
	var in, problems bytes.Buffer
	for _, object := range objects {
		if err := json.NewEncoder(&in).Encode(object.Object); err != nil {
			s.Fatal(err)
		}
	}
	cmd := exec.CommandContext(s.ctx, filepath.Join(bin, judge), "-argocd-cm",
		filepath.Join(root, "integrations", "argocd", "argocd-cm.yaml"))
	cmd.Stdin, cmd.Stderr = &in, &problems
	out, err := cmd.Output()
	if err != nil {
		s.Fatalf("run %s, which make gitops builds: %v: %s", judge, err, problems.String())
	}
	var verdicts []verdict
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var v verdict
		if err := decoder.Decode(&v); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			s.Fatal(err)
		}
		verdicts = append(verdicts, v)
	}
	if len(verdicts) != len(objects) {
		s.Fatalf("%d verdicts on %d objects", len(verdicts), len(objects))
	}
	return verdicts
}

// appliedAgain applies the manifest that was applied, by both ways: nothing is written.
func (s *scenario) appliedAgain(w workload) {
	s.Helper()
	file := filepath.Join(s.TempDir(), "manifest.yaml")
	if err := os.WriteFile(file, []byte(w.manifest(w.Name, "everywhere", "false")), 0o600); err != nil {
		s.Fatal(err)
	}
	// The hub may still tell of it in the status, which no manifest has.
	manifested := func() map[string]any {
		object, err := s.h.Hub.Get(s.ctx, w.Workload)
		if err != nil {
			s.Fatal(err)
		}
		object.SetResourceVersion("")
		object.SetManagedFields(slices.DeleteFunc(object.GetManagedFields(),
			func(e metav1.ManagedFieldsEntry) bool { return e.Subresource == "status" }))
		unstructured.RemoveNestedField(object.Object, "status")
		return object.Object
	}
	for _, way := range [][]string{{"apply"}, {"apply", "--server-side", "--force-conflicts", "--field-manager=gitops"}} {
		apply := append([]string{"-n", ns, "-f", file}, way...)
		s.h.Kubectl(s.ctx, apply...)
		before := manifested()
		s.h.Kubectl(s.ctx, apply...)
		if after := manifested(); !equality.Semantic.DeepEqual(before, after) {
			s.Errorf("%s: %v changed what was applied so before:\n%v\n%v", w, way, before, after)
		}
		s.h.Kubectl(s.ctx, append([]string{"diff"}, apply[:4]...)...) // fails where there is a difference
	}
	s.h.ExpectAtRest(s.ctx, w.Workload, 6)
}

// patch applies JSON patches in one write.
func (s *scenario) patch(w workload, patches ...string) {
	s.Helper()
	var all []json.RawMessage
	for _, patch := range patches {
		var operations []json.RawMessage
		if err := json.Unmarshal([]byte(patch), &operations); err != nil {
			s.Fatal(err)
		}
		all = append(all, operations...)
	}
	data, err := json.Marshal(all)
	if err != nil {
		s.Fatal(err)
	}
	object, err := s.h.Hub.Get(s.ctx, w.Workload)
	if err != nil {
		s.Fatal(err)
	}
	if err := s.h.Hub.Client.Patch(s.ctx, object, client.RawPatch(types.JSONPatchType, data)); err != nil {
		s.Fatal(err)
	}
}

func ready(object *unstructured.Unstructured) bool {
	return observed(object) && condition(object, "Ready").Status == metav1.ConditionTrue
}

// observed tells whether the status answers the newest generation.
func observed(object *unstructured.Unstructured) bool {
	return number(object, "status", "observedGeneration") == object.GetGeneration()
}

func number(object *unstructured.Unstructured, fields ...string) int64 {
	n, _, _ := unstructured.NestedInt64(object.Object, fields...)
	return n
}

func condition(object *unstructured.Unstructured, name string) metav1.Condition {
	list, err := harness.Conditions(object)
	if err != nil {
		return metav1.Condition{}
	}
	for _, c := range list {
		if c.Type == name {
			return c
		}
	}
	return metav1.Condition{}
}

// rows reads the table of the page: kind and phase, and the four verdicts.
func rows(t *testing.T) map[string][]string {
	t.Helper()
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for line := range strings.Lines(string(data)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) != 6 || cells[0] != "CloneSet" && cells[0] != "UnitedDeployment" {
			continue
		}
		out[cells[0]+" "+cells[1]] = cells[2:]
	}
	if len(out) == 0 {
		t.Fatalf("%s has no table of phases", page)
	}
	return out
}
