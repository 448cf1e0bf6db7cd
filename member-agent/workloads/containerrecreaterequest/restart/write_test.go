package restart

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	policy "github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/disruption"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/restarts"
)

func clientOf(t *testing.T, createErr error, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1beta1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if createErr != nil {
				return createErr
			}
			return c.Create(ctx, o, opts...)
		}}).Build()
}

func markedPod(owner string) *corev1.Pod {
	pod := podOf("web-0", true)
	pod.Namespace, pod.UID = "shop", "p"
	mark(pod)
	if owner != "" {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1beta1.GroupVersion.String(), Kind: owner, Name: "web",
			UID: "w", Controller: new(true)}}
	}
	return pod
}

func isStillMarked(t *testing.T, c client.Client) bool {
	t.Helper()
	pod := &corev1.Pod{}
	if err := c.Get(t.Context(), types.NamespacedName{Namespace: "shop", Name: "web-0"}, pod); err != nil {
		t.Fatal(err)
	}
	return marked(pod)
}

// TestRefusedRequestTakesTheMark: a pod whose request is refused is not marked, and is asked for again after a minute.
func TestRefusedRequestTakesTheMark(t *testing.T) {
	for _, tt := range []struct {
		name    string
		err     error
		refused bool
	}{
		{"refused", apierrors.NewBadRequest("container a has not started yet"), true},
		{"the API server is away", errors.New("connection refused"), false},
		{"created", nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := markedPod("CloneSet")
			r := &restarter{client: clientOf(t, tt.err, pod), kind: kinds()[0], refusals: &restarts.Refusals{}}
			f := facts{order: orderOf(t), now: asked}
			why, err := r.create(t.Context(), &v1beta1.CloneSet{}, pod, f)
			if tt.refused != strings.Contains(why, "has not started yet") || (err != nil) != (tt.err != nil && !tt.refused) {
				t.Errorf("%q, %v", why, err)
			}
			if isStillMarked(t, r.client) == tt.refused {
				t.Errorf("marked: %t", !tt.refused)
			}
			if got := r.refusals.Of([]*corev1.Pod{pod}, asked.Add(restarts.AskedAgain-1)); (got["web-0"] != "") != tt.refused {
				t.Errorf("%v", got)
			}
			f.now, f.pods = asked.Add(restarts.AskedAgain), []*corev1.Pod{pod}
			if err := r.askAgain(t.Context(), &v1beta1.CloneSet{}, &f); err != nil || (f.refused["web-0"] != "") != tt.refused {
				t.Errorf("asked again: %v, %v", f.refused, err)
			}
			r.client = clientOf(t, nil, pod)
			f.now = f.now.Add(restarts.AskedAgain)
			if err := r.askAgain(t.Context(), &v1beta1.CloneSet{}, &f); err != nil || len(f.refused) > 0 {
				t.Errorf("asked when it is allowed: %v, %v", f.refused, err)
			}
			requests := &v1beta1.ContainerRecreateRequestList{}
			if err := r.client.List(t.Context(), requests); err != nil || len(requests.Items) > 0 {
				t.Errorf("asking creates requests: %d, %v", len(requests.Items), err)
			}
		})
	}
}

// refusing is PodUnavailableBudgets that refuse the pods of these names.
type refusing []string

func (r refusing) Ask(
	context.Context, string, policy.PubOperation, []*corev1.Pod, bool,
) (map[string]*disruption.Refusal, error) {
	out := map[string]*disruption.Refusal{}
	for _, name := range r {
		out[name] = &disruption.Refusal{}
	}
	return out, nil
}

// TestRefusedDisruptions: pods that budgets refuse count as refused, and restart after those that they do not refuse.
// None counts as refused while one restarts.
func TestRefusedDisruptions(t *testing.T) {
	pods := []*corev1.Pod{podOf("web-0", true), podOf("web-1", true)}
	for _, pod := range pods {
		pod.Namespace, pod.UID = "shop", types.UID(pod.Name)
	}
	r := &restarter{client: clientOf(t, nil, pods[0], pods[1]), kind: kinds()[0], refusals: &restarts.Refusals{}}
	f := facts{order: orderOf(t), now: asked, pods: pods, replicas: 2, unavailable: 1, granted: true}
	for _, tt := range []struct {
		refused refusing
		change  func(*plan)
		want    []string
	}{
		{refusing{"web-1"}, nil, []string{"web-1"}},
		{refusing{"web-1"}, nil, nil}, // web-0 restarts
		{refusing{"web-1"}, func(p *plan) { p.flights = 1 }, nil},
		{refusing{"web-0", "web-1"}, nil, []string{"web-0", "web-1"}},
		{refusing{"web-1"}, func(p *plan) { p.mark = nil }, []string{"web-0", "web-1"}}, // the hub takes the grant back
		{nil, nil, nil},
	} {
		r.disruptions = tt.refused
		f.disrupted = r.refusals.Disrupted(pods)
		p := makePlan(f)
		if tt.change != nil {
			tt.change(&p)
		}
		if _, err := r.carryOut(t.Context(), &v1beta1.CloneSet{}, f, p); err != nil {
			t.Fatal(err)
		}
		for _, pod := range pods {
			if got := r.refusals.Refused(pod.UID, asked); got != slices.Contains(tt.want, pod.Name) {
				t.Errorf("%v: pod %s is refused: %t", tt.refused, pod.Name, got)
			}
		}
	}
}

// TestRefusedDisruptionsAreAskedAgain: a refusal holds while budgets repeat it, although the hub grants nothing.
func TestRefusedDisruptionsAreAskedAgain(t *testing.T) {
	pods := []*corev1.Pod{podOf("web-0", true), podOf("web-1", true)}
	for _, pod := range pods {
		pod.UID = types.UID(pod.Name)
	}
	r := &restarter{client: clientOf(t, nil), kind: kinds()[0], refusals: &restarts.Refusals{}}
	r.refusals.Disruptions(pods, true, asked)
	f := facts{order: orderOf(t), pods: pods, replicas: 2, granted: true}
	for minute, tt := range []struct {
		budgets refusing
		want    []string
	}{
		{refusing{"web-0", "web-1"}, []string{"web-0", "web-1"}},
		{refusing{"web-0", "web-1"}, []string{"web-0", "web-1"}},
		{refusing{"web-0"}, []string{"web-0"}},
	} {
		r.disruptions = tt.budgets
		f.now = asked.Add(time.Duration(minute+1) * restarts.AskedAgain)
		if err := r.askAgain(t.Context(), &v1beta1.CloneSet{}, &f); err != nil {
			t.Fatal(err)
		}
		if _, err := r.carryOut(t.Context(), &v1beta1.CloneSet{}, f, makePlan(f)); err != nil {
			t.Fatal(err)
		}
		for _, pod := range pods {
			if got := r.refusals.Refused(pod.UID, f.now); got != slices.Contains(tt.want, pod.Name) {
				t.Errorf("after %d minutes %s is refused: %t", minute+1, pod.Name, got)
			}
		}
	}
}

// TestAllRefusedPodsAreAskedAgain: in turn, also while the API server does not answer about some.
func TestAllRefusedPodsAreAskedAgain(t *testing.T) {
	r := &restarter{kind: kinds()[0], refusals: &restarts.Refusals{}}
	f := facts{order: orderOf(t), replicas: 50}
	for i := range 50 {
		pod := podOf(fmt.Sprint("web-", i), true)
		pod.Namespace, pod.UID = "shop", types.UID(pod.Name)
		f.pods = append(f.pods, pod)
		r.refusals.Request(pod.UID, "quota", asked)
	}
	r.client = clientOf(t, errors.New("connection refused"))
	f.now = asked.Add(restarts.AskedAgain)
	err := r.askAgain(t.Context(), &v1beta1.CloneSet{}, &f)
	if err == nil || strings.Count(err.Error(), "web-") < mostAsked {
		t.Errorf("not all are asked: %v", err)
	}
	r.client = clientOf(t, apierrors.NewBadRequest("quota"))
	for minute := range 15 { // as long as a refusal that is not seen is kept, and longer
		f.now = asked.Add(time.Duration(minute+1) * restarts.AskedAgain)
		if err := r.askAgain(t.Context(), &v1beta1.CloneSet{}, &f); err != nil || len(f.refused) != 50 {
			t.Fatalf("minute %d: %d are refused, %v", minute, len(f.refused), err)
		}
	}
	r.client = clientOf(t, nil)
	for range 50 / mostAsked {
		if err := r.askAgain(t.Context(), &v1beta1.CloneSet{}, &f); err != nil {
			t.Fatal(err)
		}
		f.now = f.now.Add(restarts.AskedAgain)
	}
	if len(f.refused) > 0 {
		t.Errorf("never asked again: %v", f.refused)
	}
}

// TestOrphanedPodLosesTheMark: a pod that no workload controls any more is not marked, once its request has ended.
func TestOrphanedPodLosesTheMark(t *testing.T) {
	request := func(phase v1beta1.ContainerRecreateRequestPhase) *v1beta1.ContainerRecreateRequest {
		r := requestIn(phase)
		r.Namespace, r.Name = "shop", "web-0-1"
		r.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "web-0", UID: "p"}}
		return r
	}
	for _, tt := range []struct {
		name  string
		owner string
		phase *v1beta1.ContainerRecreateRequestPhase
		stays bool
	}{
		{"orphaned", "", nil, false},
		{"controlled by another kind", "Other", nil, false},
		{"not orphaned", "DaemonSet", nil, true},
		{"orphaned, and it restarts", "", new(v1beta1.CRRRecreating), true},
		{"orphaned, and it has restarted", "", new(v1beta1.CRRCompleted), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			objects := []client.Object{markedPod(tt.owner)}
			if tt.phase != nil {
				objects = append(objects, request(*tt.phase))
			}
			o := &orphans{restarter{client: clientOf(t, nil, objects...)}}
			of := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "shop", Name: "web-0"}}
			if _, err := o.Reconcile(t.Context(), of); err != nil {
				t.Fatal(err)
			}
			if isStillMarked(t, o.client) != tt.stays {
				t.Errorf("the pod is marked: %t", !tt.stays)
			}
		})
	}
}
