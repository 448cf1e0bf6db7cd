package rollout

import (
	"bytes"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/podtemplate"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
)

// stored is a revision of an object with an image, as a controller stores it.
func stored(t *testing.T, object client.Object, kind string, number int64, image string) appsv1.ControllerRevision {
	t.Helper()
	old := object.DeepCopyObject().(client.Object)
	podtemplate.Of(old).Spec.Containers[0].Image = image
	var data []byte
	var err error
	if ud, ok := old.(*apps.UnitedDeployment); ok {
		data, err = history.Encode(ud.Spec.Template)
	} else {
		data, err = history.Encode(*podtemplate.Of(old))
	}
	if err != nil {
		t.Fatal(err)
	}
	return appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Name: "web-" + strings.ReplaceAll(image, ":", ""), Namespace: "shop",
			OwnerReferences: []metav1.OwnerReference{{Kind: kind, Name: "web", UID: object.GetUID(), Controller: new(true)}}},
		Data: runtime.RawExtension{Raw: data}, Revision: number,
	}
}

func TestHistory(t *testing.T) {
	templates := map[string]string{
		"CloneSet":         `{metadata: {name: web, namespace: shop}, spec: {template: {spec: {containers: [{name: main, image: "web:4"}]}}}}`,
		"UnitedDeployment": `{metadata: {name: web, namespace: shop}, spec: {template: {cloneSetTemplate: {spec: {template: {spec: {containers: [{name: main, image: "web:4"}]}}}}}}}`,
	}
	for kind, manifest := range templates {
		t.Run(kind, func(t *testing.T) {
			object := parse(t, kind, manifest)
			object.SetUID(types.UID("one"))
			other := object.DeepCopyObject().(client.Object)
			other.SetUID("two")
			list := []appsv1.ControllerRevision{
				stored(t, object, kind, 7, "web:2"), stored(t, object, kind, 3, "web:1"), stored(t, object, kind, 5, "web:4"),
				stored(t, other, kind, 9, "web:9"),
			}
			const cause = "kubernetes.io/change-cause"
			list[0].Annotations = map[string]string{cause: "faster"}
			object.SetAnnotations(map[string]string{cause: "back again"})
			key := wire.Key{Group: "apps.kruise.io", Kind: kind, Namespace: "shop", Name: "web"}
			w, err := historyOf(key, object, list)
			if err != nil {
				t.Fatal(err)
			}
			revisions := w.revisions
			var out bytes.Buffer
			if err := table(&out, revisions); err != nil {
				t.Fatal(err)
			}
			var lines []string
			for _, line := range strings.Split(out.String(), "\n")[1:] {
				lines = append(lines, strings.Join(strings.Fields(line), " "))
			}
			want := "3 web-web1 0001-01-01T00:00:00Z web:1 -|7 web-web2 0001-01-01T00:00:00Z web:2 faster|8 (current) web-web4 " +
				"0001-01-01T00:00:00Z web:4 back again|"
			if got := strings.Join(lines, "|"); got != want {
				t.Errorf("history is\n%s, want\n%s", got, want)
			}

			for number, image := range map[int64]string{0: "web:2", 3: "web:1", 7: "web:2"} {
				to, err := pick(key, revisions, number)
				if err != nil {
					t.Fatal(err)
				}
				text, err := diff(&revisions[2], to)
				if err != nil || !strings.Contains(text, "-  - image: web:4\n+  - image: "+image+"\n") {
					t.Errorf("to %d: %v\n%s", number, err, text)
				}
				back := object.DeepCopyObject().(client.Object)
				if err := undo(back, to); err != nil || podtemplate.Of(back).Spec.Containers[0].Image != image {
					t.Errorf("to %d: %v, image %s", number, err, podtemplate.Of(back).Spec.Containers[0].Image)
				}
				if got, has := back.GetAnnotations()[cause]; got != to.Cause || has != (to.Cause != "") {
					t.Errorf("to %d: it has the cause %q, want %q", number, got, to.Cause)
				}
			}
			if _, err := pick(key, revisions, 9); err == nil || !strings.Contains(err.Error(), "has no revision 9") {
				t.Errorf("another's revision: %v", err)
			}
			plain := parse(t, kind, manifest)
			if err := undo(plain, &revisions[1]); err != nil || plain.GetAnnotations()[cause] != "faster" {
				t.Errorf("of a workload without annotations: %v, %v", err, plain.GetAnnotations())
			}
			alone, err := historyOf(key, object, nil)
			if err != nil || len(alone.revisions) != 1 || alone.revisions[0].Number != 1 {
				t.Errorf("without any stored: %v, %+v", err, alone)
			}
			if _, err := pick(key, alone.revisions, 0); err == nil || !strings.Contains(err.Error(), "no earlier template") {
				t.Errorf("nothing to go back to: %v", err)
			}
		})
	}
}
