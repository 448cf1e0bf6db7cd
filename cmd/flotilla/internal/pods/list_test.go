package pods

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/apiserver"
)

func labelled(name string) corev1.Pod {
	p := pod(name, corev1.PodRunning, "main")
	p.Labels = map[string]string{"app": "api"}
	return p
}

func listerOf(output format) *lister { return &lister{format: output, clock: clock.RealClock{}} }

// TestGetPods holds that the pods of all members are in one table, and that a member that refuses has a line.
func TestGetPods(t *testing.T) {
	east := &member{t: t, pods: []corev1.Pod{labelled("api-2"), labelled("api-1")}}
	west := &member{t: t, pods: []corev1.Pod{labelled("api-3")}}
	south := &member{t: t, refused: "/pods"}
	talk, out := &buffer{}, &bytes.Buffer{}
	f := &fleet{notes: &notes{out: talk}, members: []*reached{east.reachAs("east", cloneSet()),
		south.reachAs("south", cloneSet()), west.reachAs("west", cloneSet())}}
	if err := listerOf("name").pods(t.Context(), f, targetFor(t, "clone/api"), out); err != nil ||
		out.String() != "east/api-1\neast/api-2\nwest/api-3\n" {
		t.Errorf("%v: %s", err, out)
	}
	if want := "you may not list pods in namespace shop in member south"; strings.Count(talk.String(), want) != 1 {
		t.Errorf("says %s", talk)
	}
	out.Reset()
	if err := listerOf("json").pods(t.Context(), f, targetFor(t, "pod/api-3"), out); err != nil {
		t.Fatal(err)
	}
	var rows []Pod
	if err := json.Unmarshal(out.Bytes(), &rows); err != nil || len(rows) != 1 || rows[0].Member != "west" ||
		rows[0].Containers != 1 {
		t.Errorf("%v: %s", err, out)
	}
}

// TestGetPodsOfTheNamespace holds that without a workload the pods of those that a hub placed are shown alone.
func TestGetPodsOfTheNamespace(t *testing.T) {
	other := pod("other", corev1.PodRunning, "main")
	placed := cloneSet()
	placed.Labels = map[string]string{topology.LabelHub: "id"}
	local := cloneSet()
	local.Name, local.Spec.Selector = "local", &metav1.LabelSelector{}
	m := &member{t: t, pods: []corev1.Pod{labelled("api-1"), other}}
	out := &bytes.Buffer{}
	f := &fleet{notes: &notes{out: &buffer{}}, members: []*reached{m.reach(placed, local)}}
	if err := listerOf("name").pods(t.Context(), f, nil, out); err != nil || out.String() != "east/api-1\n" {
		t.Errorf("%v: %s", err, out)
	}
	// Watched: a pod that appears is shown, another workload's is not.
	ctx, cancel := context.WithCancel(t.Context())
	shown, ended := &buffer{}, make(chan error, 1)
	l := listerOf("name")
	l.watch = true
	go func() { ended <- l.pods(ctx, f, nil, shown) }()
	waitFor := func(want string) {
		t.Helper()
		apiserver.Eventually(t, 10*time.Second, want, func() string {
			if strings.HasSuffix(shown.String(), want) {
				return ""
			}
			return "so far: " + shown.String()
		})
	}
	waitFor("east/api-1\n")
	m.change(func(pods []corev1.Pod) []corev1.Pod {
		return append(slices.Clone(pods), labelled("api-2"), pod("other-2", corev1.PodRunning, "main"))
	})
	waitFor("east/api-1\neast/api-2\n")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestGetEvents(t *testing.T) {
	event := func(kind, name, reason string) corev1.Event {
		return corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, Reason: reason,
			LastTimestamp:  metav1.NewTime(time.Now()),
			InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: "shop", Name: name}}
	}
	m := &member{t: t, pods: []corev1.Pod{labelled("api-1")},
		events: []corev1.Event{event("Pod", "api-1", "Pulled"), event("Pod", "b", "Killing"), event("CloneSet", "api", "Scaled")}}
	f := &fleet{notes: &notes{out: &buffer{}}, members: []*reached{m.reach(cloneSet())}}
	for argument, want := range map[string]int{"clone/api": 2, "pod/b": 1} {
		rows, err := f.events(t.Context(), targetFor(t, argument), "shop", 0, clock.RealClock{})
		if err != nil || len(rows) != want {
			t.Errorf("%s: %v, %v", argument, rows, err)
		}
	}
	rows, err := f.events(t.Context(), nil, "shop", 0, clock.RealClock{})
	if err != nil || len(rows) != 3 {
		t.Errorf("%v, %v", rows, err)
	}
}

// TestPodsThatAreNotReady holds what a page says of a member.
func TestPodsThatAreNotReady(t *testing.T) {
	ready, done, pulls := labelled("a"), pod("b", corev1.PodSucceeded, "main"), labelled("c")
	ready.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	pulls.Status.Phase = corev1.PodPending
	pulls.Spec.NodeName, pulls.Spec.Containers[0].Image = "n1", "nginx:typo"
	pulls.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main",
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}}}
	m := memberOf("east", []corev1.Pod{ready, done, pulls}, time.Now())
	if m.Pods != 3 || m.Ready != 2 || len(m.NotReady) != 1 || m.NotReady[0] != (NotReady{Name: "c",
		Status: "ImagePullBackOff", Why: "ImagePullBackOff: container main cannot pull image nginx:typo"}) {
		t.Errorf("%+v", m)
	}
}

// TestTheHubDoesNotAnswer holds that members that are named are asked without the hub, with one line that says so, and
// that a member that refuses is the error.
func TestTheHubDoesNotAnswer(t *testing.T) {
	m := &member{t: t, pods: []corev1.Pod{labelled("api-1")}}
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{apiVersion: v1, kind: Config, current-context: hub, clusters: [{name: hub, cluster: {server: "http://127.0.0.1:1"}},
{name: east, cluster: {server: "` + server.URL + `"}}], contexts: [{name: hub, context: {cluster: hub}},
{name: east, context: {cluster: east}}]}`
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func() (string, string, error) {
		var out, talk bytes.Buffer
		command := NewGetPods()
		command.SetOut(&out)
		command.SetErr(&talk)
		command.SilenceErrors, command.SilenceUsage = true, true
		command.SetArgs([]string{"--kubeconfig", kubeconfig, "-n", "shop", "-C", "east", "pod/api-1", "-o", "name"})
		err := command.ExecuteContext(t.Context())
		return out.String(), talk.String(), err
	}
	out, talk, err := run()
	if err != nil || out != "east/api-1\n" || strings.Count(talk, "\n") != 1 ||
		!strings.HasPrefix(talk, "The hub does not answer, so it is not checked which cluster each context reaches") {
		t.Errorf("%v: %s\n%s", err, out, talk)
	}
	m.refused = "/pods"
	if _, _, err = run(); err == nil || !strings.Contains(err.Error(), "you may not read pod shop/api-1 in member east") {
		t.Errorf("says %v", err)
	}
}
