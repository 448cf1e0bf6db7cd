package probes

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/events"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/cri"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/fakecri"
)

// node is a node with a scripted runtime and a daemon that probes.
type node struct {
	*testing.T
	*fakecri.Server
	client client.Client
	clock  *clocktesting.FakeClock
	events *events.FakeRecorder
	env    nodedaemon.Env
	r      *reconciler
	stop   func()
	// writes counts the writes of the status; refuse has them fail.
	writes atomic.Int64
	refuse atomic.Bool

	mu      sync.Mutex
	answers map[string]fakecri.ExecResult // by the first word of the command
}

func newNode(t *testing.T, pods ...v1alpha1.PodProbe) *node {
	t.Helper()
	klog.SetLogger(logr.Discard()) // the client of the runtime logs every failed call
	folder, err := os.MkdirTemp("", "probes")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	n := &node{T: t, Server: fakecri.New(filepath.Join(folder, "cri.sock")), events: events.NewFakeRecorder(1000),
		clock: clocktesting.NewFakeClock(noon()), answers: map[string]fakecri.ExecResult{}}
	if err := n.Server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Server.Stop)
	n.OnExec(func(_ context.Context, _ string, command []string) fakecri.ExecResult {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.answers[command[0]]
	})
	connection, err := cri.Connect(t.Context(), cri.Options{Endpoint: n.Socket()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close(context.WithoutCancel(t.Context())) })
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	object := &v1alpha1.NodePodProbe{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	object.Spec.PodProbes = pods
	n.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(object).WithStatusSubresource(object).
		WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: n.patch}).Build()
	n.env = nodedaemon.Env{Node: "a", Client: n.client, Live: n.client, Runtime: connection.RuntimeService,
		Clock: n.clock, Log: logr.Discard(), Events: n.events}
	n.run()
	return n
}

func (n *node) patch(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
	options ...client.SubResourcePatchOption) error {
	if n.refuse.Load() {
		return fmt.Errorf("refused")
	}
	n.writes.Add(1)
	return c.SubResource(sub).Patch(ctx, o, p, options...)
}

// run starts a daemon. stop ends it at once, as it does when the process is killed: what it knew is lost.
func (n *node) run() {
	n.Helper()
	n.r = newReconciler(n.env)
	n.r.reporter.jitter = func(time.Duration) time.Duration { return time.Second }
	ctx, cancel := context.WithCancel(n.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = n.r.run(ctx) // it never fails
	}()
	n.stop = func() {
		cancel()
		<-done
	}
	n.Cleanup(n.stop)
	n.look()
}

// look has the daemon read the NodePodProbe.
func (n *node) look() {
	n.Helper()
	if _, err := n.r.Reconcile(n.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "a"}}); err != nil {
		n.Fatal(err)
	}
}

func (n *node) object() *v1alpha1.NodePodProbe {
	n.Helper()
	object := &v1alpha1.NodePodProbe{}
	if err := n.client.Get(n.Context(), client.ObjectKey{Name: "a"}, object); err != nil {
		n.Fatal(err)
	}
	return object
}

// change changes the pods of the NodePodProbe.
func (n *node) change(f func(pods []v1alpha1.PodProbe) []v1alpha1.PodProbe) {
	n.Helper()
	object := n.object()
	object.Spec.PodProbes = f(object.Spec.PodProbes)
	if err := n.client.Update(n.Context(), object); err != nil {
		n.Fatal(err)
	}
	n.look()
}

// answer sets what a command ends with.
func (n *node) answer(command string, result fakecri.ExecResult) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answers[command] = result
}

// started adds a container that started long ago.
func (n *node) started(pod, name string) string {
	return n.AddContainer(fakecri.Container{Namespace: "shop", Pod: pod, UID: pod, Name: name,
		StartedAt: n.clock.Now().Add(-time.Hour)})
}

// until lets the clock go on until the condition holds.
func (n *node) until(what string, holds func() bool) {
	n.Helper()
	ctx, cancel := context.WithTimeout(n.Context(), 30*time.Second)
	defer cancel()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			n.Fatalf("%s: the status is %+v", what, n.object().Status)
		case <-ticker.C:
			n.clock.Step(time.Second)
		}
	}
}

// states returns the status as text.
func (n *node) states() string {
	n.Helper()
	var out []string
	for _, pod := range n.object().Status.PodProbeStatuses {
		for _, state := range pod.ProbeStates {
			out = append(out, fmt.Sprintf("%s/%s %s %s", pod.Name, state.Name, state.State, state.Message))
		}
	}
	return strings.Join(out, "; ")
}

// expect waits until the status is this text.
func (n *node) expect(want string) {
	n.Helper()
	n.until("want "+want, func() bool { return n.states() == want })
}

// pass lets so much time pass, with its probes.
func (n *node) pass(d time.Duration) {
	n.Helper()
	end := n.clock.Now().Add(d)
	n.until("time passes", func() bool { return !n.clock.Now().Before(end) })
}

func podOf(name string, probes ...v1alpha1.ContainerProbe) v1alpha1.PodProbe {
	return v1alpha1.PodProbe{Name: name, Namespace: "shop", UID: types.UID(name), IP: "127.0.0.1", Probes: probes}
}

func execOf(name, command string) v1alpha1.ContainerProbe {
	return v1alpha1.ContainerProbe{Name: name, ContainerName: "db", Probe: v1alpha1.ContainerProbeSpec{
		Exec: &corev1.ExecAction{Command: []string{command}}, PeriodSeconds: 5}}
}

const leader = "roles#leader"

func TestExec(t *testing.T) {
	n := newNode(t, podOf("db-0", execOf(leader, "is-leader")))
	n.answer("is-leader", fakecri.ExecResult{Stdout: "yes\n"})
	n.started("db-0", "db")
	n.expect("db-0/roles#leader Succeeded yes")
	n.answer("is-leader", fakecri.ExecResult{ExitCode: 1, Stderr: "no, db-1 is\n", Stdout: "x"})
	n.expect("db-0/roles#leader Failed no, db-1 is")
	n.answer("is-leader", fakecri.ExecResult{ExitCode: 3})
	n.expect("db-0/roles#leader Failed the command ended with exit code 3")
	n.answer("is-leader", fakecri.ExecResult{Code: codes.Unknown, Message: "executable file not found"})
	n.until("unknown", func() bool {
		return strings.HasPrefix(n.states(), "db-0/roles#leader Unknown the command cannot be run: ")
	})
	n.answer("is-leader", fakecri.ExecResult{})
	n.expect("db-0/roles#leader Succeeded ")
	n.until("the events", func() bool { return len(n.events.Events) >= 3 }) // they come after the status
	var told []string
	for len(n.events.Events) > 0 {
		told = append(told, <-n.events.Events)
	}
	if got, want := strings.Join(told, "; "), "Normal KruiseProbeSucceeded roles#leader: yes; Normal KruiseProbeFailed "+
		"roles#leader: no, db-1 is; Normal KruiseProbeSucceeded roles#leader: "; got != want {
		t.Errorf("events %s, want %s", got, want)
	}
}

// TestTextsThatChange: what is other in each answer alone is not written.
func TestTextsThatChange(t *testing.T) {
	n := newNode(t, podOf("db-0", execOf(leader, "is-leder")))
	var times atomic.Int64
	n.OnExec(func(context.Context, string, []string) fakecri.ExecResult {
		return fakecri.ExecResult{Code: codes.Unknown, Message: fmt.Sprintf("failed to start exec %q: %q not found",
			fmt.Sprintf("%064x", times.Add(1)), "is-leder")}
	})
	n.started("db-0", "db")
	n.until("unknown", func() bool { return strings.Contains(n.states(), `exec "…"`) })
	before, writes := times.Load(), n.writes.Load()
	n.until("more probes", func() bool { return times.Load() > before+3 })
	if more := n.writes.Load() - writes; more > 0 {
		t.Errorf("%d writes of the same answer", more)
	}
}

// TestRuntimeThatDoesNotAnswer: it says nothing of the pod.
func TestRuntimeThatDoesNotAnswer(t *testing.T) {
	n := newNode(t, podOf("db-0", execOf(leader, "is-leader")))
	n.started("db-0", "db")
	n.expect("db-0/roles#leader Succeeded ")
	n.Server.Stop()
	n.expect("db-0/roles#leader Unknown the container runtime does not answer")
	if err := n.Server.Start(); err != nil {
		t.Fatal(err)
	}
	n.expect("db-0/roles#leader Succeeded ")
}

func TestCommandThatTakesTooLong(t *testing.T) {
	n := newNode(t, podOf("db-0", execOf(leader, "is-leader")))
	n.started("db-0", "db")
	n.expect("db-0/roles#leader Succeeded ")
	n.Always("ExecSync", fakecri.Answer{Code: codes.DeadlineExceeded, Message: "timeout 1s exceeded"})
	n.expect("db-0/roles#leader Failed the command did not end within 1s")
}

// TestContainers: what was known of a container does not hold for the next one.
func TestContainers(t *testing.T) {
	slow := execOf(leader, "is-leader")
	slow.Probe.InitialDelaySeconds = 20
	n := newNode(t, podOf("db-0", slow))
	n.pass(12 * time.Second)
	if got := n.states(); got != "" {
		t.Errorf("before the container starts: %s", got)
	}
	first := n.started("db-0", "db")
	n.started("db-0", "other")
	n.expect("db-0/roles#leader Succeeded ")
	n.Exit(first, 1)
	n.expect("db-0/roles#leader Failed container db does not run")
	second := n.AddContainer(fakecri.Container{Namespace: "shop", Pod: "db-0", UID: "db-0", Name: "db", Attempt: 1,
		StartedAt: n.clock.Now()})
	before := len(n.Calls("ExecSync"))
	n.expect("db-0/roles#leader Unknown ")
	n.pass(10 * time.Second)
	if ran := len(n.Calls("ExecSync")) - before; ran > 0 {
		t.Errorf("%d commands ran within initialDelaySeconds of the new container", ran)
	}
	n.expect("db-0/roles#leader Succeeded ")
	for _, call := range n.Calls("ExecSync")[before:] {
		if !strings.Contains(fmt.Sprint(call.Request), second) {
			t.Errorf("a command ran in another container: %v", call.Request)
		}
	}
}

// TestDaemonStartsAgain: what was reported holds until there is another result, and is not written again.
func TestDaemonStartsAgain(t *testing.T) {
	n := newNode(t, podOf("db-0", execOf(leader, "is-leader")))
	container := n.started("db-0", "db")
	n.expect("db-0/roles#leader Succeeded ")
	n.stop()
	before := n.writes.Load()
	n.run()
	n.pass(30 * time.Second)
	if wrote := n.writes.Load() - before; wrote > 0 || n.states() != "db-0/roles#leader Succeeded " {
		t.Errorf("%d writes, %s", wrote, n.states())
	}
	n.stop()
	n.Exit(container, 0)
	n.run()
	n.expect("db-0/roles#leader Failed container db does not run")
}

// TestSpecChanges: probes and pods come, change and go.
func TestSpecChanges(t *testing.T) {
	n := newNode(t, podOf("db-0", execOf(leader, "is-leader"), execOf("roles-2#leader", "other")))
	n.started("db-0", "db")
	n.started("db-1", "db")
	n.expect("db-0/roles#leader Succeeded ; db-0/roles-2#leader Succeeded ")
	n.change(func(pods []v1alpha1.PodProbe) []v1alpha1.PodProbe {
		pods[0].Probes = pods[0].Probes[1:]
		return append(pods, podOf("db-1", execOf(leader, "is-leader")))
	})
	n.expect("db-0/roles-2#leader Succeeded ; db-1/roles#leader Succeeded ")
	n.answer("changed", fakecri.ExecResult{Stdout: "changed"})
	n.change(func(pods []v1alpha1.PodProbe) []v1alpha1.PodProbe {
		pods[0].Probes[0].Probe.Exec.Command[0] = "changed"
		return pods[:1]
	})
	n.expect("db-0/roles-2#leader Succeeded changed")
	n.change(func([]v1alpha1.PodProbe) []v1alpha1.PodProbe { return nil })
	n.expect("")
	n.pass(20 * time.Second)
	before := len(n.Calls(""))
	n.pass(20 * time.Second)
	if calls := len(n.Calls("")) - before; calls > 0 {
		t.Errorf("%d calls without a probe", calls)
	}
}

// TestOneWriteInAPeriod: results that change at each probe are reported at most once per period of the node.
// TestNodePodProbeThatIsReplaced: the next one gets the states too, though nothing changed.
func TestNodePodProbeThatIsReplaced(t *testing.T) {
	n := newNode(t, podOf("db-0", execOf(leader, "is-leader")))
	n.started("db-0", "db")
	n.expect("db-0/roles#leader Succeeded ")
	before := n.object()
	if err := n.client.Delete(n.Context(), before); err != nil {
		t.Fatal(err)
	}
	again := &v1alpha1.NodePodProbe{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "again"}, Spec: before.Spec}
	if err := n.client.Create(n.Context(), again); err != nil {
		t.Fatal(err)
	}
	n.look()
	n.expect("db-0/roles#leader Succeeded ")
}

func TestOneWriteInAPeriod(t *testing.T) {
	var pods []v1alpha1.PodProbe
	for i := range 10 {
		pods = append(pods, podOf(fmt.Sprint("db-", i), execOf(leader, "is-leader")))
	}
	n := newNode(t, pods...)
	var count atomic.Int64
	n.OnExec(func(context.Context, string, []string) fakecri.ExecResult {
		return fakecri.ExecResult{Stdout: strconv.FormatInt(count.Add(1), 10)}
	})
	for _, pod := range pods {
		n.started(pod.Name, "db")
	}
	n.until("all have results", func() bool { return len(n.object().Status.PodProbeStatuses) == len(pods) })
	before, begin := n.writes.Load(), n.clock.Now()
	n.pass(60 * time.Second)
	periods := int64(n.clock.Since(begin)/(5*time.Second)) + 1
	if wrote := n.writes.Load() - before; wrote == 0 || wrote > periods {
		t.Errorf("%d writes in %d periods", wrote, periods)
	}
}

func TestWritesThatFailAreRepeated(t *testing.T) {
	n := newNode(t, podOf("db-0", execOf(leader, "is-leader")))
	n.refuse.Store(true)
	n.started("db-0", "db")
	n.pass(30 * time.Second)
	n.refuse.Store(false)
	n.expect("db-0/roles#leader Succeeded ")
}

func TestClockThatIsSetBack(t *testing.T) {
	n := newNode(t, podOf("db-0", execOf(leader, "is-leader")))
	n.started("db-0", "db")
	n.expect("db-0/roles#leader Succeeded ")
	n.clock.SetTime(n.clock.Now().Add(-time.Hour))
	n.answer("is-leader", fakecri.ExecResult{ExitCode: 1})
	// Timers of the fake clock hold its time; a probe that was due an hour ago by the new one is started again.
	n.change(func(pods []v1alpha1.PodProbe) []v1alpha1.PodProbe {
		pods[0].Probes[0].Probe.PeriodSeconds = 6
		return pods
	})
	n.expect("db-0/roles#leader Failed the command ended with exit code 1")
}

// TestProbesThatGetNoAnswerHoldNoOthersUp: commands that never end take their timeout, and other probes go on.
func TestProbesThatGetNoAnswerHoldNoOthersUp(t *testing.T) {
	n := newNode(t, podOf("db-0", execOf(leader, "stuck")), podOf("db-1", execOf(leader, "is-leader")))
	n.OnExec(func(ctx context.Context, _ string, command []string) fakecri.ExecResult {
		if command[0] == "stuck" {
			<-ctx.Done()
		}
		return fakecri.ExecResult{}
	})
	n.started("db-0", "db")
	n.started("db-1", "db")
	n.until("the other", func() bool { return strings.Contains(n.states(), "db-1/roles#leader Succeeded") })
	n.until("the stuck one", func() bool {
		return strings.Contains(n.states(), "db-0/roles#leader Failed the command did not end within 1s")
	})
}

// TestHangingProbesMakeRoom: as many as may run at the same time hang, and the next one still runs.
func TestHangingProbesMakeRoom(t *testing.T) {
	n := newNode(t)
	n.OnExec(func(ctx context.Context, _ string, command []string) fakecri.ExecResult {
		if command[0] == "stuck" {
			<-ctx.Done()
		}
		return fakecri.ExecResult{}
	})
	n.change(func(pods []v1alpha1.PodProbe) []v1alpha1.PodProbe {
		for i := range atOnce {
			stuck := execOf(leader, "stuck")
			stuck.Probe.TimeoutSeconds = 1 << 30
			pods = append(pods, podOf(fmt.Sprintf("stuck-%d", i), stuck))
			n.started(fmt.Sprintf("stuck-%d", i), "db")
		}
		return pods
	})
	n.until("all hang", func() bool { return len(n.Calls("ExecSync")) == atOnce })
	for _, call := range n.Calls("ExecSync") {
		if most := call.Request.(*runtimeapi.ExecSyncRequest).Timeout; most > 60 {
			t.Fatalf("a command may take %d s", most)
		}
	}
	n.started("db-0", "db")
	n.change(func(pods []v1alpha1.PodProbe) []v1alpha1.PodProbe {
		return append(pods, podOf("db-0", execOf(leader, "is-leader")))
	})
	n.expect("db-0/roles#leader Succeeded ")
}

// TestIdle holds what 50 probes of 110 pods cost while nothing changes: no write, and one list of containers a second
// at most.
func TestIdle(t *testing.T) {
	var pods []v1alpha1.PodProbe
	for i := range 50 {
		probe := execOf(leader, "is-leader")
		probe.Probe.PeriodSeconds = 10
		pods = append(pods, podOf(fmt.Sprint("db-", i), probe))
	}
	n := newNode(t, pods...)
	for i := range 110 {
		n.started(fmt.Sprint("db-", i), "db")
	}
	n.until("all have results", func() bool { return len(n.object().Status.PodProbeStatuses) == len(pods) })
	n.pass(20 * time.Second)
	writes, lists, begin := n.writes.Load(), len(n.Calls("ListContainers")), n.clock.Now()
	n.pass(100 * time.Second)
	seconds := int(n.clock.Since(begin)/time.Second) + 1
	if wrote := n.writes.Load() - writes; wrote > 0 {
		t.Errorf("%d writes at rest", wrote)
	}
	if n := len(n.Calls("ListContainers")) - lists; n > seconds {
		t.Errorf("%d lists of containers in %d seconds", n, seconds)
	}
}

// check runs one probe against an address.
func check(t *testing.T, spec v1alpha1.ContainerProbeSpec, address string) string {
	t.Helper()
	return checkBy(t, newChecker(nil), spec, address)
}

func checkBy(t *testing.T, c *checker, spec v1alpha1.ContainerProbeSpec, address string) string {
	t.Helper()
	o := c.run(t.Context(), &spec, timingOf(&spec), "", address)
	return map[kind]string{succeeds: "succeeds", fails: "fails", unreachable: "unreachable"}[o.kind] + ": " + o.message
}

func portOf(t *testing.T, address string) int32 {
	t.Helper()
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return int32(port)
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}

func TestHTTP(t *testing.T) {
	handler := http.NewServeMux()
	stuck := make(chan struct{})
	t.Cleanup(func() { close(stuck) })
	handler.HandleFunc("/code/", func(w http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/code/"))
		w.WriteHeader(code)
	})
	handler.HandleFunc("/header", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-A") != "b" || r.Host != "db.shop" || r.URL.RawQuery != "q=1" {
			w.WriteHeader(http.StatusTeapot)
		}
	})
	handler.HandleFunc("/here", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/code/503", http.StatusFound)
	})
	handler.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://elsewhere.example/", http.StatusFound)
	})
	var times atomic.Int64
	handler.HandleFunc("/other", func(w http.ResponseWriter, _ *http.Request) {
		connection, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_, _ = fmt.Fprintf(connection, "%d hello\n\n", times.Add(1))
			_ = connection.Close()
		}
	})
	handler.HandleFunc("/stuck", func(http.ResponseWriter, *http.Request) { <-stuck })
	plain, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	t.Cleanup(func() { plain.CloseClientConnections(); secure.Close() })
	for _, row := range []struct{ path, scheme, want string }{
		{"/code/200", "", "succeeds: HTTP 200"}, {"/code/399", "", "succeeds: HTTP 399"},
		{"/code/400", "", "fails: HTTP 400"}, {"/code/503", "", "fails: HTTP 503"},
		{"/header?q=1", "", "succeeds: HTTP 200"}, {"/here", "", "fails: HTTP 503"},
		{"/away", "", "succeeds: redirected to another host"}, {"/stuck", "", "did not answer in time"},
		{"/other", "", "does not answer with HTTP"},
		{"/code/200", "HTTPS", "succeeds: HTTP 200"}, {"code/200", "HTTP", "succeeds: HTTP 200"},
	} {
		server := plain
		if row.scheme == "HTTPS" {
			server = secure
		}
		action := &corev1.HTTPGetAction{Path: row.path, Scheme: corev1.URIScheme(row.scheme),
			Port:        intstr.FromInt32(portOf(t, server.Listener.Addr().String())),
			HTTPHeaders: []corev1.HTTPHeader{{Name: "X-A", Value: "b"}, {Name: "host", Value: "db.shop"}}}
		if got := check(t, v1alpha1.ContainerProbeSpec{HTTPGet: action}, "127.0.0.1"); !strings.Contains(got, row.want) {
			t.Errorf("%s: %s, want %s", row.path, got, row.want)
		}
	}
}

// TestPodThatCannotBeReached: an address that refuses is an answer, one that does not answer is none.
func TestPodThatCannotBeReached(t *testing.T) {
	closed := listen(t)
	port := portOf(t, closed.Addr().String())
	_ = closed.Close()
	const refused, silent = "127.0.0.1", "192.0.2.1"
	cut := newChecker(nil)
	cut.dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, &net.OpError{Op: "dial", Net: network, Err: os.ErrDeadlineExceeded}
	}
	specs := map[string]func(int32) v1alpha1.ContainerProbeSpec{
		"tcp": func(port int32) v1alpha1.ContainerProbeSpec {
			return v1alpha1.ContainerProbeSpec{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(port)}}
		},
		"http": func(port int32) v1alpha1.ContainerProbeSpec {
			return v1alpha1.ContainerProbeSpec{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(port)}}
		},
		"grpc": func(port int32) v1alpha1.ContainerProbeSpec {
			return v1alpha1.ContainerProbeSpec{GRPC: &corev1.GRPCAction{Port: port}}
		},
	}
	for name, spec := range specs {
		got, want := check(t, spec(port), refused), "fails: 127.0.0.1:"+strconv.Itoa(int(port))+" refuses connections"
		if got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		got = checkBy(t, cut, spec(port), silent)
		if !strings.HasPrefix(got, "unreachable: 192.0.2.1:") || !strings.Contains(got, "NetworkPolicy") ||
			!strings.Contains(got, "hostNetwork") {
			t.Errorf("%s: %s", name, got)
		}
		if got := check(t, spec(port), ""); got != "unreachable: the pod has no address yet" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestTCP(t *testing.T) {
	listener := listen(t)
	spec := v1alpha1.ContainerProbeSpec{TCPSocket: &corev1.TCPSocketAction{
		Port: intstr.FromInt32(portOf(t, listener.Addr().String()))}}
	if got := check(t, spec, "127.0.0.1"); got != "succeeds: connected" {
		t.Error(got)
	}
}

func TestGRPC(t *testing.T) {
	states := health.NewServer()
	states.SetServingStatus("ready", healthpb.HealthCheckResponse_SERVING)
	states.SetServingStatus("not", healthpb.HealthCheckResponse_NOT_SERVING)
	serve := func(register func(*grpc.Server), options ...grpc.ServerOption) int32 {
		server, listener := grpc.NewServer(options...), listen(t)
		register(server)
		go func() { _ = server.Serve(listener) }() // it ends with Stop
		t.Cleanup(server.Stop)
		return portOf(t, listener.Addr().String())
	}
	healthy := serve(func(s *grpc.Server) { healthpb.RegisterHealthServer(s, states) })
	without := serve(func(*grpc.Server) {})
	certified := httptest.NewTLSServer(nil)
	t.Cleanup(certified.Close)
	secure := serve(func(s *grpc.Server) { healthpb.RegisterHealthServer(s, states) },
		grpc.Creds(credentials.NewServerTLSFromCert(&certified.TLS.Certificates[0])))
	silent := portOf(t, listen(t).Addr().String())
	resetting := listen(t)
	go func() {
		for {
			connection, err := resetting.Accept()
			if err != nil {
				return
			}
			_, _ = connection.Read(make([]byte, 1)) // then what was sent is not read: the connection is reset
			_ = connection.Close()
		}
	}()
	reset := portOf(t, resetting.Addr().String())
	for _, row := range []struct {
		port    int32
		service *string
		want    string
	}{
		{healthy, nil, "succeeds: SERVING"}, {healthy, new("ready"), "succeeds: SERVING"},
		{healthy, new("not"), "fails: NOT_SERVING"},
		{healthy, new("none"), `fails: the health service does not know service "none"`},
		{without, nil, "fails: the pod does not implement the gRPC health protocol"},
		{silent, nil, "fails: 127.0.0.1:" + strconv.Itoa(int(silent)) + " did not answer in time"},
		{reset, nil, "fails: 127.0.0.1:" + strconv.Itoa(int(reset)) +
			" does not answer as a gRPC health service: Unavailable"},
	} {
		spec := v1alpha1.ContainerProbeSpec{GRPC: &corev1.GRPCAction{Port: row.port, Service: row.service}}
		if got := check(t, spec, "127.0.0.1"); got != row.want {
			t.Errorf("%s, want %s", got, row.want)
		}
	}
	for _, row := range []struct {
		port int32
		mode corev1.GRPCProbeMode
		want string
	}{
		{secure, corev1.GRPCProbeModeTLS, "succeeds: SERVING"},
		{healthy, corev1.GRPCProbeModePlaintext, "succeeds: SERVING"},
		{secure, corev1.GRPCProbeModePlaintext, "fails: "}, {healthy, corev1.GRPCProbeModeTLS, "fails: "},
	} {
		spec := v1alpha1.ContainerProbeSpec{GRPC: &corev1.GRPCAction{Port: row.port, Mode: &row.mode}}
		if got := check(t, spec, "127.0.0.1"); !strings.HasPrefix(got, row.want) {
			t.Errorf("mode %s: %s, want %s", row.mode, got, row.want)
		}
	}
}

// TestProbesOfAllKindsRun: the address and the port of the NodePodProbe reach the probe, and a changed address too.
func TestProbesOfAllKindsRun(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	port := intstr.FromInt32(portOf(t, server.Listener.Addr().String()))
	of := func(name string, spec v1alpha1.ContainerProbeSpec) v1alpha1.ContainerProbe {
		return v1alpha1.ContainerProbe{Name: name, ContainerName: "db", Probe: spec}
	}
	pod := podOf("db-0", of("a#http", v1alpha1.ContainerProbeSpec{HTTPGet: &corev1.HTTPGetAction{Port: port}}),
		of("a#tcp", v1alpha1.ContainerProbeSpec{TCPSocket: &corev1.TCPSocketAction{Port: port}}))
	pod.IP = ""
	n := newNode(t, pod)
	n.started("db-0", "db")
	const none = "Unknown the pod has no address yet"
	n.expect("db-0/a#http " + none + "; db-0/a#tcp " + none)
	n.change(func(pods []v1alpha1.PodProbe) []v1alpha1.PodProbe {
		pods[0].IP = "127.0.0.1"
		return pods
	})
	n.expect("db-0/a#http Succeeded HTTP 200; db-0/a#tcp Succeeded connected")
}

func TestPartReadsItsNodeAlone(t *testing.T) {
	part, found := Part(), false
	for object, how := range nodedaemon.CacheOptions("a", []nodedaemon.Part{part}).ByObject {
		found = found || how.Field.String() == "metadata.name=a" && fmt.Sprintf("%T", object) == "*v1alpha1.NodePodProbe"
	}
	if part.Name != "probes" || !found {
		t.Errorf("part %s does not read the NodePodProbe of its node alone", part.Name)
	}
}
