package pods

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
)

// member is an API server that answers what the verbs ask of a member.
type member struct {
	t    testing.TB
	pods []corev1.Pod
	// exec speaks with a client that runs a command.
	exec func(*websocket.Conn)
	// forward forwards ports of a pod.
	forward func(w http.ResponseWriter, r *http.Request)
	// log answers for the log of a pod; nil has two lines.
	log func(w http.ResponseWriter, r *http.Request, pod string)
	// metrics is what metrics.k8s.io answers, "" for a member without it.
	metrics string
	// refused are the paths below the namespace that are forbidden.
	refused string
	events  []corev1.Event

	mu sync.Mutex
	// asked are the requests, as path?query.
	asked []string
}

func (m *member) requests() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.asked)
}

// change changes the pods.
func (m *member) change(f func(pods []corev1.Pod) []corev1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pods = f(m.pods)
}

func (m *member) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const namespace = "/api/v1/namespaces/shop"
	m.mu.Lock()
	m.asked = append(m.asked, r.URL.Path+"?"+r.URL.RawQuery)
	pods := slices.Clone(m.pods)
	m.mu.Unlock()
	rest, below := strings.CutPrefix(r.URL.Path, namespace)
	path := strings.Split(strings.Trim(rest, "/"), "/")
	switch {
	case m.refused != "" && strings.Contains(r.URL.Path, m.refused):
		m.refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden)
	case strings.HasPrefix(r.URL.Path, "/apis/metrics.k8s.io/") && m.metrics != "":
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, m.metrics)
	case below && path[0] == "events":
		m.answer(w, http.StatusOK, &corev1.EventList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "EventList"}, Items: m.events})
	case below && path[0] == "pods" && len(path) == 1 && r.URL.Query().Get("watch") != "":
		m.watch(w, r)
	case below && path[0] == "pods" && len(path) == 1:
		m.answer(w, http.StatusOK, &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"},
			ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: pods})
	case below && path[0] == "pods":
		m.pod(w, r, pods, path[1], strings.Join(path[2:], "/"))
	default:
		m.refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound)
	}
}

// watch says nothing until the client has gone.
func (m *member) watch(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	said := map[string]bool{}
	for _, pod := range m.pods {
		said[pod.Name] = true
	}
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
		m.mu.Lock()
		for _, pod := range m.pods {
			if said[pod.Name] {
				continue
			}
			said[pod.Name] = true
			pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
			object, err := json.Marshal(&pod)
			if err != nil {
				m.t.Error(err)
			}
			fmt.Fprintf(w, `{"type":"ADDED","object":%s}`+"\n", object)
			w.(http.Flusher).Flush()
		}
		m.mu.Unlock()
	}
}

func (m *member) pod(w http.ResponseWriter, r *http.Request, pods []corev1.Pod, name, sub string) {
	at := slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Name == name })
	switch {
	case at < 0:
		m.refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound)
	case sub == "log" && m.log != nil:
		m.log(w, r, name)
	case sub == "log" && strings.HasSuffix(name, "broken"):
		http.Error(w, "the kubelet is away", http.StatusInternalServerError)
	case sub == "log":
		fmt.Fprintf(w, "first of %s\nlast of %s", name, name)
	case sub == "portforward":
		m.forward(w, r)
	case sub == "exec":
		upgrade := websocket.Upgrader{Subprotocols: []string{"v5.channel.k8s.io"}}
		conn, err := upgrade.Upgrade(w, r, nil)
		if err != nil {
			m.t.Error(err)
			return
		}
		defer conn.Close()
		m.exec(conn)
	default:
		pod := pods[at]
		pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
		m.answer(w, http.StatusOK, &pod)
	}
}

func (m *member) refuse(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	m.answer(w, code, &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status: metav1.StatusFailure, Reason: reason, Code: int32(code)})
}

func (m *member) answer(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(object); err != nil {
		m.t.Error(err)
	}
}

// reach returns the member as the verbs see it.
func (m *member) reach(workloads ...client.Object) *reached { return m.reachAs("east", workloads...) }

func (m *member) reachAs(name string, workloads ...client.Object) *reached {
	m.t.Helper()
	server := httptest.NewServer(m)
	m.t.Cleanup(server.Close)
	r, err := newReached(name, "shop", name, &rest.Config{Host: server.URL, QPS: -1}, memberPatience)
	if err != nil {
		m.t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(apps.AddToScheme(scheme), batchv1.AddToScheme(scheme)); err != nil {
		m.t.Fatal(err)
	}
	r.client, r.expected = fake.NewClientBuilder().WithScheme(scheme).WithObjects(workloads...).Build(), true
	return r
}

// target reads an argument.
func targetFor(t *testing.T, argument string) *target {
	t.Helper()
	found, err := targetOf(argument, "shop")
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// buffer is a writer for several goroutines.
type buffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *buffer) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(data)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func pod(name string, phase corev1.PodPhase, containers ...string) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)},
		Status: corev1.PodStatus{Phase: phase}}
	for _, c := range containers {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: c})
	}
	return p
}

func cloneSet() *apps.CloneSet {
	return &apps.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "api"},
		Spec: apps.CloneSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "api"}}}}
}

// TestPods holds which pods an argument names.
func TestPods(t *testing.T) {
	m := &member{t: t, pods: []corev1.Pod{pod("api-2", corev1.PodRunning, "main"),
		pod("api-1", corev1.PodRunning, "main")}}
	r := m.reach(cloneSet())
	for argument, want := range map[string]string{
		"api-1": "api-1", "pod/api-2": "api-2", "clone/api": "api-1 api-2",
		"api-9": "member east has no pod api-9 in namespace shop; name its workload, as in clone/api, for all its " +
			"pods there",
		"clone/none": "member east has no CloneSet shop/none; flotilla why clone/none -C east says why",
		"svc/api":    `"svc" is no kind that the hub places`,
		"pub/api":    "PodUnavailableBudget shop/api has no pods of its own",
		"pod/":       "names no pod",
	} {
		var found []corev1.Pod
		asked, err := targetOf(argument, "shop")
		if err == nil {
			found, err = r.pods(t.Context(), asked)
		}
		var names []string
		for i := range found {
			names = append(names, found[i].Name)
		}
		got := strings.Join(names, " ")
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", argument, got, want)
		}
	}
	if !slices.ContainsFunc(m.requests(), func(a string) bool { return strings.Contains(a, "labelSelector=app%3Dapi") }) {
		t.Errorf("pods are not asked for by the selector: %v", m.requests())
	}
	m.pods = nil
	if _, err := r.pods(t.Context(), targetFor(t, "clone/api")); err == nil ||
		!strings.Contains(err.Error(), "CloneSet shop/api has no pods in member east") {
		t.Errorf("says %v", err)
	}
}

func TestSelectorOfSaysWhatIsWrong(t *testing.T) {
	unknown := map[string]any{"matchExpressions": []any{map[string]any{"key": "app", "operator": "Like"}}}
	for want, spec := range map[string]map[string]any{
		"spec.selector is missing":      {},
		".spec.selector accessor error": {"selector": "app=api"},
		"is not a valid label selector": {"selector": unknown},
	} {
		_, err := selectorOf(&unstructured.Unstructured{Object: map[string]any{"spec": spec}})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "%!") {
			t.Errorf("%v: %v, want %s", spec, err, want)
		}
	}
}

func TestContainerOf(t *testing.T) {
	one, many := pod("a", corev1.PodRunning, "first", "second"), pod("b", corev1.PodRunning, "first", "second")
	many.Annotations = map[string]string{defaultContainer: "second"}
	many.Spec.InitContainers = []corev1.Container{{Name: "before"}}
	for _, test := range []struct {
		pod   corev1.Pod
		named string
		want  string
	}{
		{one, "", "first"}, {many, "", "second"}, {many, "first", "first"}, {many, "before", "before"},
		{one, "third", "pod a has no container third; it has first, second"},
		{pod("c", corev1.PodRunning), "", "pod c has no containers"},
	} {
		got, err := containerOf(&test.pod, test.named)
		if err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s of %s: %q, want %q", test.named, test.pod.Name, got, test.want)
		}
	}
}

// Channels of a session, the first byte of each message.
const (
	stdinChannel, stdoutChannel, stderrChannel, errorChannel = 0, 1, 2, 3
	closeChannel                                             = 255
)

// TestExec holds that a command gets what is read, that what it says comes on two streams, and that its exit code is
// the error's.
func TestExec(t *testing.T) {
	m := &member{t: t, pods: []corev1.Pod{pod("api-1", corev1.PodRunning, "main")}}
	var read []byte
	status := `{"status":"Success"}`
	say := func(conn *websocket.Conn, channel byte, text string) {
		if err := conn.WriteMessage(websocket.BinaryMessage, append([]byte{channel}, text...)); err != nil {
			t.Error(err)
		}
	}
	m.exec = func(conn *websocket.Conn) {
		for {
			_, message, err := conn.ReadMessage()
			if err != nil {
				t.Error(err)
				return
			}
			if len(message) > 1 && message[0] == closeChannel {
				break
			}
			if len(message) > 0 && message[0] == stdinChannel {
				read = append(read, message[1:]...)
			}
		}
		say(conn, stdoutChannel, "out")
		say(conn, stderrChannel, "err")
		say(conn, errorChannel, status)
		if err := conn.WriteMessage(websocket.CloseMessage,
			websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")); err != nil {
			t.Error(err)
		}
		_, _, _ = conn.ReadMessage() // until the client has closed, too
	}
	run := func() (stdout, stderr string, err error) {
		var out, wrong bytes.Buffer
		read, m.asked = nil, nil
		s := session{stdin: strings.NewReader("in"), stdout: &out, stderr: &wrong}
		r := m.reach()
		err = s.run(t.Context(), r, &m.pods[0], &corev1.PodExecOptions{Container: "main", Command: []string{"ls", "-l"}})
		return out.String(), wrong.String(), err
	}
	stdout, stderr, err := run()
	if err != nil || stdout != "out" || stderr != "err" || string(read) != "in" {
		t.Errorf("%q, %q, %v; it read %q", stdout, stderr, err, read)
	}
	if want := "/api/v1/namespaces/shop/pods/api-1/exec?command=ls&command=-l&container=main&stderr=true&stdin=true&stdout=true"; m.asked[0] != want {
		t.Errorf("asks %s, want %s", m.asked[0], want)
	}
	status = `{"status":"Failure","reason":"NonZeroExitCode","message":"no","details":{"causes":[{"reason":"ExitCode","message":"7"}]}}`
	_, _, err = run()
	var code interface{ ExitStatus() int }
	if !errors.As(err, &code) || code.ExitStatus() != 7 || !strings.Contains(err.Error(), "exit code 7") {
		t.Errorf("says %v", err)
	}
	// A terminal needs one.
	s := session{stdin: strings.NewReader("in"), tty: true}
	if err := s.run(t.Context(), m.reach(), &m.pods[0], &corev1.PodExecOptions{}); !errors.Is(err, console.ErrUsage) {
		t.Errorf("says %v", err)
	}
}

// TestSentences holds what is said before anything is asked.
func TestSentences(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(`{apiVersion: v1, kind: Config, contexts: [{name: hub, context: {}}]}`),
		0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"logs api-1": "which member has pod api-1? name it with -C",
		"logs -C east api-1": "no context reaches member east: your kubeconfig has none of that name; name one with " +
			"--member-context east=CONTEXT (it has hub)",
		"exec -C east api-1 ls": "write the pod, then --, then the command",
		"exec -C east -- ls":    "write the pod, then --, then the command",
		"exec -C east p -- ls":  "no context reaches member east",
	} {
		verb, rest, _ := strings.Cut(args, " ")
		command := NewLogsCommand()
		if verb == "exec" {
			command = NewExecCommand()
		}
		command.SetArgs(append([]string{"--kubeconfig", kubeconfig}, strings.Fields(rest)...))
		command.SilenceErrors, command.SilenceUsage = true, true
		if err := command.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
}
