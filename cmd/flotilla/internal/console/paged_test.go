package console

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// server answers lists of a number of pods in pages, as API servers do. From the page expires on it has no more of
// them, 0 for never.
type server struct {
	client.Client
	pods, expires int
	// limits are those of the requests.
	limits []int64
}

func (s *server) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	s.limits = append(s.limits, o.Limit)
	from, _ := strconv.Atoi(o.Continue)
	if s.expires > 0 && o.Continue != "" && len(s.limits) > s.expires {
		return apierrors.NewResourceExpired("the page is too old")
	}
	to := s.pods
	if o.Limit > 0 && from+int(o.Limit) < to {
		to = from + int(o.Limit)
		list.SetContinue(strconv.Itoa(to))
	}
	list.SetResourceVersion("7")
	var items []runtime.Object
	for i := from; i < to; i++ {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("web-", i)}}
		if _, ok := list.(*unstructured.UnstructuredList); !ok {
			items = append(items, pod)
			continue
		}
		tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
		if err != nil {
			return err
		}
		items = append(items, &unstructured.Unstructured{Object: tree})
	}
	return meta.SetList(list, items)
}

func TestPaged(t *testing.T) {
	for _, tt := range []struct {
		name          string
		pods, expires int
		limit         int64
		requests      int
	}{
		{"none", 0, 0, 0, 1},
		{"one page", 500, 0, 0, 1},
		{"three pages", 1001, 0, 0, 3},
		{"pages that expire", 1700, 2, 0, 4},
		{"a limit of its own", 1001, 0, 1, 1},
	} {
		for _, list := range []client.ObjectList{&corev1.PodList{}, &unstructured.UnstructuredList{}} {
			s := &server{pods: tt.pods, expires: tt.expires}
			var opts []client.ListOption
			want := tt.pods
			if tt.limit > 0 {
				opts, want = append(opts, client.Limit(tt.limit)), int(tt.limit)
			}
			if err := Paged(s).List(t.Context(), list, opts...); err != nil {
				t.Fatal(err)
			}
			seen := map[string]bool{}
			err := meta.EachListItem(list, func(o runtime.Object) error {
				seen[o.(client.Object).GetName()] = true
				return nil
			})
			if err != nil || len(seen) != want || meta.LenList(list) != want || len(s.limits) != tt.requests ||
				tt.limit == 0 && (list.GetContinue() != "" || list.GetResourceVersion() != "7") {
				t.Errorf("%s, %T: %d pods in requests with limits %v, %v", tt.name, list, len(seen), s.limits, err)
			}
		}
	}
}
