package mutator

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/apiserver"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/member-agent/admission"
)

// limit is how long anything may take on a busy machine.
const limit = 120 * time.Second

// timeout is how long the API server waits for an answer here. It is long, so that a process that stands still for
// seconds changes no spread; the agent's own is admission.DefaultTimeout.
const timeout = 8 * time.Second

// world is one cluster, and in front of it a server that may have several replicas behind it.
type world struct {
	testing.TB
	client.Client
	config  *rest.Config
	cluster *fleet.Cluster
	server  *server
}

// newWorld starts a cluster with three zones, and the server with one replica.
func newWorld(t testing.TB) *world {
	t.Helper()
	nodes := fleet.Nodes("solo", "eu", []string{"a", "b", "c"}, 1)
	c := apiserver.Cluster(t, fleet.ClusterSpec{Name: "solo", Nodes: nodes}, false,
		"clonesets.apps.kruise.io", "statefulsets.apps.kruise.io", "workloadspreads.apps.kruise.io")
	w := &world{TB: t, cluster: c, config: c.RESTConfig(), server: newServer(t)}
	var err error
	if w.Client, err = client.New(w.config, client.Options{Scheme: apiserver.Scheme(t)}); err != nil {
		t.Fatal(err)
	}
	w.server.start()
	w.startReplica(true)
	return w
}

// startReplica runs admission in a manager until the test ends. Only the leader keeps the configuration.
func (w *world) startReplica(leader bool) {
	w.Helper()
	w.Cleanup(func() {
		if w.Failed() {
			w.Logf("admissions: %s", outcomesSeen(w))
		}
	})
	apiserver.Run(w, rest.CopyConfig(w.config), func(ctx context.Context, mgr ctrl.Manager) error {
		spreads, err := New(ctx, mgr, Options{
			Federated: func(_ context.Context, namespace string) (bool, error) { return namespace == "federated", nil },
		})
		if err != nil {
			return err
		}
		return admission.Setup(mgr, admission.Options{
			Server: &replica{server: w.server, leader: leader}, Timeout: timeout, Mutators: []admission.Mutator{spreads},
		})
	})
}

// replica is the part of the server that one replica of the agent has. Only the leader's knows how it is reached.
type replica struct {
	*server
	leader bool
}

func (r *replica) Register(path string, handler http.Handler) {
	if path != admission.Path {
		r.t.Errorf("registered %s", path)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.replicas = append(r.replicas, handler)
}

func (r *replica) ClientConfig(path string) (admissionregistrationv1.WebhookClientConfig, error) {
	if !r.leader {
		return admissionregistrationv1.WebhookClientConfig{}, errors.New("this replica does not lead")
	}
	return r.clientConfig(path), nil
}

func (r *replica) OnChange(func()) {}

// server is the TLS server that the API server calls. It gives the replicas their turns.
type server struct {
	t       testing.TB
	address string
	https   *httptest.Server
	bundle  []byte

	mu       sync.Mutex
	replicas []http.Handler
	turn     int
	hanging  bool
	calls    []call
}

// call is one question of the API server.
type call struct {
	namespace, name string
	labels          map[string]string
}

func newServer(t testing.TB) *server {
	s := &server{t: t}
	t.Cleanup(s.stop)
	return s
}

// listenAnywhere takes a port below those that systems give to connections, and below those of fleets: nothing takes it
// while the server is down.
func listenAnywhere() (listener net.Listener, err error) {
	const lowest, span, attempts = 5000, 7000, 100
	for range attempts {
		if listener, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", lowest+rand.IntN(span))); err == nil {
			break
		}
	}
	return listener, err
}

// start listens, at the same address as before.
func (s *server) start() {
	s.t.Helper()
	listen := listenAnywhere
	if s.address != "" {
		listen = func() (net.Listener, error) { return net.Listen("tcp", s.address) }
	}
	listener, err := listen()
	if err != nil {
		s.t.Fatal(err)
	}
	s.https = httptest.NewUnstartedServer(s)
	s.https.Listener.Close()
	s.https.Listener = listener
	s.https.StartTLS()
	if s.address == "" {
		s.address = listener.Addr().String()
		s.bundle = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.https.Certificate().Raw}) // the same each time
	}
}

// stop refuses connections from now on.
func (s *server) stop() {
	s.hang(false)
	if s.https != nil {
		s.https.CloseClientConnections()
		s.https.Close()
		s.https = nil
	}
}

// hang lets the server accept questions and answer none.
func (s *server) hang(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hanging = on
}

func (s *server) clientConfig(path string) admissionregistrationv1.WebhookClientConfig {
	return admissionregistrationv1.WebhookClientConfig{
		URL: new("https://" + s.address + path), CABundle: s.bundle,
	}
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var review admissionv1.AdmissionReview
	if err == nil {
		err = json.Unmarshal(body, &review)
	}
	var pod corev1.Pod
	if err == nil {
		err = json.Unmarshal(review.Request.Object.Raw, &pod)
	}
	if err != nil {
		s.t.Errorf("read a question: %v", err)
		return
	}
	s.mu.Lock()
	name := pod.Name
	if name == "" {
		name = pod.GenerateName
	}
	s.calls = append(s.calls, call{review.Request.Namespace, name, pod.Labels})
	hanging := s.hanging
	s.turn++
	next := s.replicas[s.turn%len(s.replicas)]
	s.mu.Unlock()
	if hanging {
		<-r.Context().Done()
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	next.ServeHTTP(w, r)
}

// asked returns how often the API server asked about pods with this label app.
func (s *server) asked(app string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, c := range s.calls {
		if c.labels["app"] == app {
			n++
		}
	}
	return n
}

// eventually polls until check returns "", and fails with what it said last.
func (w *world) eventually(what string, check func() string) {
	w.Helper()
	apiserver.Eventually(w, limit, what, check)
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// configuration returns the configuration; nil if there is none.
func (w *world) configuration() *admissionregistrationv1.MutatingWebhookConfiguration {
	w.Helper()
	c := &admissionregistrationv1.MutatingWebhookConfiguration{}
	err := w.Get(w.Context(), client.ObjectKey{Name: admission.ConfigurationName}, c)
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.must(err)
	return c
}

// create creates a WorkloadSpread of its target, and waits until the API server asks about the target's pods.
func (w *world) create(ws *v1beta1.WorkloadSpread) {
	w.Helper()
	w.must(w.Client.Create(w.Context(), ws))
	t, ok := targetOf(ws)
	if !ok {
		w.Fatalf("%+v is no target", ws.Spec.TargetReference)
	}
	w.asks(t, true)
}

// asks waits until the API server asks about pods of the target, or does not ask any more.
func (w *world) asks(t target, want bool) {
	w.Helper()
	w.eventually(fmt.Sprintf("the API server asks about pods of %s: %v", t, want), func() string {
		const app = "is-it-asked"
		before := w.server.asked(app)
		pod := podOf(t, app)
		w.must(w.Client.Create(w.Context(), pod, client.DryRunAll))
		if got := w.server.asked(app) > before; got != want {
			return fmt.Sprintf("asked: %v", got)
		}
		return ""
	})
}

// podOf returns a pod as the controllers of the target create it. Its owner does not exist.
func podOf(t target, app string) *corev1.Pod {
	owner := metav1.OwnerReference{APIVersion: "apps/v1", Kind: t.kind, Name: t.Name, UID: "0", Controller: new(true)}
	podLabels := map[string]string{"app": app}
	switch t.kind {
	case kindDeployment:
		owner.Kind, owner.Name = kindReplicaSet, t.Name+"-"+hash
		podLabels[labelTemplateHash] = hash
	case kindJob:
		owner.APIVersion = "batch/v1"
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       t.Namespace,
			GenerateName:    t.Name + "-",
			Labels:          podLabels,
			OwnerReferences: []metav1.OwnerReference{owner},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "web:1"}}},
	}
}

// pods returns the active pods with the label app.
func (w *world) pods(app string) []corev1.Pod {
	w.Helper()
	var list corev1.PodList
	w.must(w.List(w.Context(), &list, client.InNamespace("default"), client.MatchingLabels{"app": app}))
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
		return p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
	})
}

// spreadOver says in words how many pods have which subset: "a=3 b=7", "none" for those in none. It fails where a pod
// runs outside of its subset.
func (w *world) spreadOver(pods []corev1.Pod) string {
	w.Helper()
	counts := map[string]int{}
	for i := range pods {
		subset := given(&pods[i]).Subset
		if node := pods[i].Spec.NodeName; subset != "" && node != "" && node != "solo-"+subset+"-0" {
			w.Errorf("pod %s of subset %s runs on %s", pods[i].Name, subset, node)
		}
		if subset == "" {
			subset = "none"
		}
		counts[subset]++
	}
	var words []string
	for _, subset := range slices.Sorted(maps.Keys(counts)) {
		words = append(words, fmt.Sprintf("%s=%d", subset, counts[subset]))
	}
	return strings.Join(words, " ")
}

// running waits until n pods of the app run, and returns them.
func (w *world) running(app string, n int) []corev1.Pod {
	w.Helper()
	var pods []corev1.Pod
	w.eventually(fmt.Sprintf("%d pods of %s run", n, app), func() string {
		pods = w.pods(app)
		ready := 0
		for i := range pods {
			if pods[i].Status.Phase == corev1.PodRunning {
				ready++
			}
		}
		if len(pods) != n || ready != n {
			return fmt.Sprintf("%d of %d run", ready, len(pods))
		}
		return ""
	})
	return pods
}

func template(app string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "web:1"}}},
	}
}

func newDeployment(name string, replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
			Template: template(name),
		},
	}
}

// change patches a Deployment.
func (w *world) change(name string, change func(*appsv1.Deployment)) {
	w.Helper()
	d := &appsv1.Deployment{}
	w.must(w.Get(w.Context(), client.ObjectKey{Namespace: "default", Name: name}, d))
	before := d.DeepCopy()
	change(d)
	w.must(w.Patch(w.Context(), d, client.MergeFrom(before)))
}

// newSpread is a WorkloadSpread in the namespace default with the name of its target and zones as subsets.
func newSpread(apiVersion, kind, name string, caps ...string) *v1beta1.WorkloadSpread {
	ws := zones(spreadOf(apiVersion, kind, name), caps...)
	ws.Namespace, ws.Name = "default", strings.ToLower(kind)+"-"+name
	return ws
}

// total returns how often the API server asked.
func (s *server) total() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls)
}

// conditionMetrics returns what the API server tells of the evaluation of matchConditions.
func (w *world) conditionMetrics() string {
	w.Helper()
	httpClient, err := rest.HTTPClientFor(w.config)
	w.must(err)
	request, err := http.NewRequestWithContext(w.Context(), http.MethodGet, w.config.Host+"/metrics", http.NoBody)
	w.must(err)
	response, err := httpClient.Do(request)
	w.must(err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	w.must(err)
	var lines []string
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(line, "apiserver_admission_match_condition_evaluation") {
			if strings.Contains(line, "_errors_total") && !strings.HasSuffix(strings.TrimSpace(line), " 0") {
				w.Errorf("an expression could not be evaluated: %s", line)
			}
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// outcomesSeen tells how the admissions of this process ended.
func outcomesSeen(t testing.TB) string {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Error(err)
	}
	var words []string
	for _, family := range families {
		if family.GetName() != "flotilla_pod_admissions_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			words = append(words, fmt.Sprintf("%s=%v", m.GetLabel()[0].GetValue(), m.GetCounter().GetValue()))
		}
	}
	return strings.Join(words, " ")
}
