package dashboard

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgo "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/tree"
	"github.com/flotilla-dev/flotilla/hub"
)

const allowedReview = `{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",` +
	` "status": {"allowed": true}}`

// TestHubThatStops: a hub that answers and then sends no objects is on the page, with the kind that does not come.
func TestHubThatStops(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews"):
			_, _ = w.Write([]byte(allowedReview))
		case strings.HasSuffix(r.URL.Path, "/kube-system"):
			_, _ = w.Write([]byte(`{"apiVersion": "v1", "kind": "Namespace",` +
				` "metadata": {"name": "kube-system", "uid": "x"}}`))
		default:
			<-r.Context().Done()
		}
	}))
	defer server.Close()
	scheme, err := hub.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	cfg := &rest.Config{Host: server.URL}
	core, err := clientgo.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(topology.GroupVersion.WithKind("MemberCluster"), meta.RESTScopeRoot)
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, meta.RESTScopeRoot)
	c, err := client.New(cfg, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		t.Fatal(err)
	}
	b := newBoard("hub")
	s := &source{cfg: cfg, scheme: scheme, core: core, client: c, board: b, name: "hub", lookEvery: time.Millisecond,
		askEvery: time.Minute, syncWithin: 50 * time.Millisecond, now: testingclock.NewFakePassiveClock(started()),
		kinds: []readable{{object: &topology.MemberCluster{}, group: topology.GroupVersion.Group,
			resource: "memberclusters"}}}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.run(ctx)
	}()
	defer func() {
		end()
		<-ended
	}()
	limit := time.After(time.Minute)
	for {
		f, changed := b.newest()
		if strings.Contains(f.Failing, "has not sent all memberclusters") {
			return
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("the page says %q", f.Failing)
		}
	}
}

// TestLostHub: while the hub does not answer the time of what is shown stands still, as no Leases come. A refusal is an
// answer.
func TestLostHub(t *testing.T) {
	var status atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(int(status.Load()))
	}))
	defer server.Close()
	core, err := clientgo.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	now := testingclock.NewFakePassiveClock(started())
	l := &look{source: &source{core: core, board: newBoard("hub"), now: now}}
	l.in.tree = &tree.Tree{}
	for _, step := range []struct {
		status int
		at     time.Duration
		fails  bool
	}{{http.StatusOK, 0, false}, {http.StatusNotImplemented, 0, true}, {http.StatusForbidden, 2 * time.Minute, false}} {
		status.Store(int32(step.status))
		if err := l.again(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := l.in.now.Sub(started()); got != step.at || (l.in.failing != "") != step.fails {
			t.Errorf("%d: %s, %q", step.status, got, l.in.failing)
		}
		now.SetTime(now.Now().Add(time.Minute))
	}
	if failingOf(apierrors.NewUnauthorized("")) == "" || failingOf(errors.New("no answer")) == "" {
		t.Error("no answer counts as one")
	}
}

// TestWhoMayApprove: who may approve stays known while rights are looked up again.
func TestWhoMayApprove(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(allowedReview))
	}))
	defer server.Close()
	core, err := clientgo.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	l := &look{source: &source{core: core, kinds: []readable{{object: &apps.CloneSet{}, group: apps.GroupVersion.Group,
		resource: "clonesets", divided: true}}}, hubID: "x", approve: map[string]bool{}}
	l.in = *example()
	l.in.may = nil
	if l.grants, err = findGrants(t.Context(), l.may, l.kinds, &l.scope); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := l.approvals(t.Context()); err != nil {
			t.Fatal(err)
		}
		if g, err := l.rights(t.Context()); g != nil || err != nil {
			t.Fatalf("other rights are %+v: %v", g, err)
		}
		if !l.in.may[mayKey("CloneSet", "shop")] || len(l.approve) != 0 {
			t.Errorf("pages have %v, and %v is not asked for again", l.in.may, l.approve)
		}
	}
}
