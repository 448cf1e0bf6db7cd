package history_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
)

func template(image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: image}}}}
}

func TestRevise(t *testing.T) {
	ctx := t.Context()
	owner := history.Owner{
		Object: &metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u1"},
		Kind:   appsv1.SchemeGroupVersion.WithKind("CloneSet"),
		Labels: map[string]string{"app": "web"},
	}
	builder := fake.NewClientBuilder()
	c := builder.Build()
	store := history.Store{Client: c, Live: c}
	all := func() []*appsv1.ControllerRevision {
		var list appsv1.ControllerRevisionList
		must(t, c.List(ctx, &list))
		var out []*appsv1.ControllerRevision
		for i := range list.Items {
			out = append(out, &list.Items[i])
		}
		history.Sort(out)
		return out
	}

	first, count, err := history.Revise(ctx, store, owner, nil, template("nginx:1"), nil)
	must(t, err)
	if first.Revision != 1 || *count != 0 || first.Labels["app"] != "web" {
		t.Errorf("first revision %v, collisions %d", first, *count)
	}
	// The cache has not seen the first revision: the same name with the same data of the same owner is that revision.
	again, count, err := history.Revise(ctx, store, owner, nil, template("nginx:1"), count)
	must(t, err)
	if again.Name != first.Name || *count != 0 {
		t.Errorf("a lagging cache made revision %s (collisions %d)", again.Name, *count)
	}
	second, _, err := history.Revise(ctx, store, owner, all(), template("nginx:2"), count)
	must(t, err)
	if second.Revision != 2 || second.Name == first.Name {
		t.Errorf("second revision %s number %d", second.Name, second.Revision)
	}
	back, _, err := history.Revise(ctx, store, owner, all(), template("nginx:1"), count)
	must(t, err)
	if back.Name != first.Name || back.Revision != 3 || len(all()) != 2 {
		t.Errorf("rolled back to %s number %d, %d revisions", back.Name, back.Revision, len(all()))
	}

	stranger := owner
	stranger.Object = &metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u2"}
	own, count, err := history.Revise(ctx, store, stranger, nil, template("nginx:1"), nil)
	must(t, err)
	if own.Name == first.Name || *count != 1 {
		t.Errorf("another owner of the same name got %s, collisions %d", own.Name, *count)
	}
	must(t, store.Delete(ctx, []*appsv1.ControllerRevision{own, own}))
	if err := c.Get(ctx, client.ObjectKeyFromObject(own), own); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("after Delete: %v", err)
	}
}

// TestChangeCause: the newest revision has the change cause of its owner, also when that changes after the template,
// and the others keep theirs. At rest nothing is written.
func TestChangeCause(t *testing.T) {
	ctx := t.Context()
	meta := &metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u1"}
	owner := history.Owner{Object: meta, Kind: appsv1.SchemeGroupVersion.WithKind("CloneSet")}
	writes := 0
	c := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{Patch: func(ctx context.Context,
		c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
		writes++
		return c.Patch(ctx, o, patch, options...)
	}})
	store := history.Store{Client: c, Live: c}
	for _, step := range []struct {
		cause, image, want string
		writes             int
	}{
		{"one", "nginx:1", "1 nginx:1 one", 0},
		{"one", "nginx:2", "1 nginx:1 one, 2 nginx:2 one", 0},
		{"two", "nginx:2", "1 nginx:1 one, 2 nginx:2 two", 1}, // kubectl set image, then kubectl annotate
		{"two", "nginx:2", "1 nginx:1 one, 2 nginx:2 two", 0},
		{"", "nginx:2", "1 nginx:1 one, 2 nginx:2", 1},
		{"back", "nginx:1", "2 nginx:2, 3 nginx:1 back", 1},
		{"", "nginx:2", "3 nginx:1 back, 4 nginx:2", 1},
	} {
		meta.Annotations = map[string]string{topology.AnnotationChangeCause: step.cause}
		all := func() []*appsv1.ControllerRevision {
			var list appsv1.ControllerRevisionList
			must(t, c.List(ctx, &list))
			var out []*appsv1.ControllerRevision
			for i := range list.Items {
				out = append(out, &list.Items[i])
			}
			history.Sort(out)
			return out
		}
		writes = 0
		_, _, err := history.Revise(ctx, store, owner, all(), template(step.image), nil)
		must(t, err)
		var texts []string
		for _, r := range all() {
			stored, err := history.Decode[corev1.PodTemplateSpec](r.Data.Raw)
			must(t, err)
			texts = append(texts, strings.TrimSpace(fmt.Sprint(r.Revision, " ", stored.Spec.Containers[0].Image, " ",
				r.Annotations[topology.AnnotationChangeCause])))
		}
		if got := strings.Join(texts, ", "); got != step.want || writes != step.writes {
			t.Errorf("%+v: %s with %d writes", step, got, writes)
		}
	}
}

// TestReviseAdopts: the owner was deleted without its revisions, and one of the same name wants the same template.
func TestReviseAdopts(t *testing.T) {
	ctx := t.Context()
	owner := history.Owner{Object: &metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u1"},
		Kind: appsv1.SchemeGroupVersion.WithKind("CloneSet")}
	c := fake.NewClientBuilder().Build()
	store := history.Store{Client: c, Live: c}
	first, _, err := history.Revise(ctx, store, owner, nil, template("nginx:1"), nil)
	must(t, err)
	left := first.DeepCopy()
	left.OwnerReferences, left.Revision = nil, 7
	must(t, c.Update(ctx, left))

	owner.Object = &metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u2"}
	again, count, err := history.Revise(ctx, store, owner, nil, template("nginx:1"), nil)
	must(t, err)
	if again.Name != first.Name || again.Revision != 7 || *count != 0 || !metav1.IsControlledBy(again, owner.Object) {
		t.Errorf("revision %s number %d of %v, collisions %d", again.Name, again.Revision, again.OwnerReferences, *count)
	}
	next, _, err := history.Revise(ctx, store, owner, []*appsv1.ControllerRevision{again}, template("nginx:2"), count)
	must(t, err)
	if next.Revision != 8 {
		t.Errorf("the next one has number %d", next.Revision)
	}
}

// TestAdopt takes over what an owner of the same name left, and nothing else.
func TestAdopt(t *testing.T) {
	ctx := t.Context()
	owner := history.Owner{Object: &metav1.ObjectMeta{Namespace: "shop", Name: "db", UID: "u1"},
		Kind: appsv1.SchemeGroupVersion.WithKind("StatefulSet"), Labels: map[string]string{"app": "db"}}
	c := fake.NewClientBuilder().Build()
	store := history.Store{Client: c, Live: c}
	left, _, err := history.Revise(ctx, store, owner, nil, template("nginx:1"), nil)
	must(t, err)
	left.OwnerReferences = nil
	must(t, c.Update(ctx, left))
	owned, _, err := history.Revise(ctx, store, owner, nil, template("nginx:2"), nil)
	must(t, err)
	other := owner
	other.Object = &metav1.ObjectMeta{Namespace: "shop", Name: "db-2", UID: "u3"}
	stranger, _, err := history.Revise(ctx, store, other, nil, template("nginx:3"), nil)
	must(t, err)
	stranger.OwnerReferences = nil
	must(t, c.Update(ctx, stranger))

	owner.Object = &metav1.ObjectMeta{Namespace: "shop", Name: "db", UID: "u2"}
	adopted, err := store.Adopt(ctx, owner, labels.SelectorFromSet(owner.Labels))
	must(t, err)
	if len(adopted) != 1 || adopted[0].Name != left.Name || !metav1.IsControlledBy(adopted[0], owner.Object) {
		t.Errorf("adopted %v, want %s and neither %s nor %s", adopted, left.Name, owned.Name, stranger.Name)
	}
}
