package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

// wait is how long anything may take on a busy machine.
const wait = 120 * time.Second

// cluster is an API server, and the server that it sends pods to.
type cluster struct {
	*testing.T
	client.Client
	config *rest.Config
	https  *httptest.Server
	mux    *http.ServeMux
	down   atomic.Bool
	sent   sync.Map // how often, by the name of the pod

	mu     sync.Mutex
	scopes []Scope
	// misbehave is called before the mutators.
	misbehave func() error
	probes    int
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	f := fleet.ForTest(t, fleet.Config{NoHub: true, Members: []fleet.ClusterSpec{{Name: "solo", NoKubelets: true}}})
	c := &cluster{
		T:         t,
		config:    f.Member("solo").RESTConfig(),
		mux:       http.NewServeMux(),
		misbehave: func() error { return nil },
	}
	c.https = httptest.NewTLSServer(c)
	t.Cleanup(c.https.Close)
	var err error
	if c.Client, err = client.New(c.config, client.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, env := range []string{"prod", "dev"} {
		c.must(c.Create(t.Context(), &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: env, Labels: map[string]string{"env": env}},
		}))
		c.eventually("pods can be created in "+env, func() string {
			account := &corev1.ServiceAccount{}
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: env, Name: "default"}, account); err != nil {
				return err.Error()
			}
			return ""
		})
	}
	return c
}

// ServeHTTP counts the request and passes it on; while the server is down it ends the connection.
func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &review)
	}
	if err != nil {
		c.Errorf("read a request: %v", err)
		return
	}
	n, _ := c.sent.LoadOrStore(review.Request.Name, new(atomic.Int32))
	n.(*atomic.Int32).Add(1)
	if c.down.Load() {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	c.mux.ServeHTTP(w, r)
}

func (c *cluster) Register(path string, handler http.Handler) { c.mux.Handle(path, handler) }

func (c *cluster) ClientConfig(path string) (admissionregistrationv1.WebhookClientConfig, error) {
	return admissionregistrationv1.WebhookClientConfig{
		URL:      new(c.https.URL + path),
		CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.https.Certificate().Raw}),
	}, nil
}

func (c *cluster) OnChange(func()) {}

func (c *cluster) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// eventually polls until check returns "", and fails with what it returned last.
func (c *cluster) eventually(what string, check func() string) {
	c.Helper()
	last := ""
	for deadline := time.Now().Add(wait); time.Now().Before(deadline); {
		if last = check(); last == "" {
			return
		}
		select {
		case <-c.Context().Done():
			c.Fatal(c.Context().Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
	c.Fatalf("%s: %s", what, last)
}

// start runs the chain in a manager until the test ends: two mutators, the first of which selects the pods.
func (c *cluster) start() {
	c.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	mgr, err := ctrl.NewManager(rest.CopyConfig(c.config), ctrl.Options{
		Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err == nil {
		first, second := appending("a"), appending("b")
		first.Watches = []Watch{{&corev1.ConfigMap{}, predicate.ResourceVersionChangedPredicate{}}}
		first.Scope = func(context.Context) ([]Scope, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.scopes, nil
		}
		second.Scope = func(context.Context) ([]Scope, error) { return nil, nil }
		unruly := Mutator{Name: "unruly", Scope: second.Scope, Mutate: func(context.Context, *Request) error {
			c.mu.Lock()
			misbehave := c.misbehave
			c.mu.Unlock()
			return misbehave()
		}}
		err = Setup(mgr, Options{Server: c, Timeout: 8 * time.Second, Mutators: []Mutator{first, unruly, second}})
	}
	if err != nil {
		cancel()
		c.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	c.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			c.Error(err)
		}
	})
}

// selects has the first mutator select these pods.
func (c *cluster) selects(scopes ...Scope) {
	c.Helper()
	c.mu.Lock()
	c.scopes = scopes
	c.mu.Unlock()
	c.must(
		c.Create(
			c.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "changed-"}},
		),
	)
}

func (c *cluster) misbehaves(f func() error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.misbehave = f
}

// probe creates a pod, as a dry run, and returns what mutators made of it and how often the API server sent it.
func (c *cluster) probe(namespace string, podLabels map[string]string) (order string, times int, err error) {
	c.Helper()
	c.probes++
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("probe-", c.probes), Labels: podLabels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "web:1"}}},
	}
	err = c.Create(c.Context(), pod, client.DryRunAll)
	if n, ok := c.sent.Load(pod.Name); ok {
		times = int(n.(*atomic.Int32).Load())
	}
	return pod.Annotations["order"], times, err
}

// configuration reports whether there is a configuration.
func (c *cluster) configured() bool {
	c.Helper()
	err := c.Get(
		c.Context(),
		client.ObjectKey{Name: ConfigurationName},
		&admissionregistrationv1.MutatingWebhookConfiguration{},
	)
	if err != nil && !apierrors.IsNotFound(err) {
		c.Fatal(err)
	}
	return err == nil
}

// TestOnAnAPIServer plays one story after the other on one cluster.
func TestOnAnAPIServer(t *testing.T) {
	c := newCluster(t)
	c.start()
	web, db := map[string]string{"tier": "web"}, map[string]string{"app": "db"}
	both := map[string]string{"tier": "web", "app": "db"}
	scopes := []Scope{
		{FailurePolicy: ignore, Condition: labelled("app", "db")},
		{FailurePolicy: fail, NamespaceSelector: within(in("env", "prod")), Condition: labelled("tier", "web")},
	}
	for _, story := range []struct {
		name string
		play func(*cluster)
	}{
		{"selected pods are sent once, others are not", func(c *cluster) {
			if c.configured() {
				c.Error("there is a configuration, and no pod is selected")
			}
			c.selects(scopes...)
			c.eventually("the API server sends", func() string {
				for _, namespace := range []string{"prod", "dev"} {
					if _, times, err := c.probe(namespace, db); err != nil || times == 0 {
						return fmt.Sprintf("%d times from %s, %v", times, namespace, err)
					}
				}
				return ""
			})
			for _, tt := range []struct {
				namespace string
				labels    map[string]string
				want      int
			}{
				{"prod", nil, 0}, {"dev", nil, 0}, {"prod", web, 1}, {"dev", web, 0}, {"prod", db, 1}, {"dev", db, 1},
				{"prod", both, 1}, {"dev", both, 1}, {"default", both, 1}, {"default", web, 0},
			} {
				order, times, err := c.probe(tt.namespace, tt.labels)
				if want := strings.Repeat("ab", tt.want); err != nil || times != tt.want || order != want {
					c.Errorf("%v in %s: sent %d times, order %q, %v", tt.labels, tt.namespace, times, order, err)
				}
			}
		}},
		{"a refusal reaches the creator", func(c *cluster) {
			c.misbehaves(func() error { return errors.New("no") })
			if _, _, err := c.probe("dev", db); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "unruly: no") {
				c.Errorf("error %v", err)
			}
		}},
		{"a panic is a failed call", func(c *cluster) {
			c.misbehaves(func() error { panic(http.ErrAbortHandler) })
			failurePolicies(c, web, db, both)
		}},
		{"nobody answers", func(c *cluster) {
			c.misbehaves(func() error { return nil })
			c.down.Store(true)
			failurePolicies(c, web, db, both)
			c.down.Store(false)
		}},
		{"the longest conditions cost less than half of what is allowed", longestConditions},
		{"no pod is selected any more", func(c *cluster) {
			c.selects()
			c.eventually("the configuration is deleted", func() string {
				if c.configured() {
					return "it exists"
				}
				return ""
			})
		}},
	} {
		ok := t.Run(story.name, func(t *testing.T) {
			c.T = t
			story.play(c)
		})
		if c.T = t; !ok {
			t.FailNow()
		}
	}
}

// failurePolicies checks what happens to pods while calls fail.
func failurePolicies(c *cluster, web, db, both map[string]string) {
	for _, tt := range []struct {
		namespace string
		labels    map[string]string
		refused   bool
	}{
		{"prod", nil, false}, {"dev", web, false}, {"prod", db, false}, {"dev", db, false}, {"dev", both, false},
		{"prod", web, true}, {"prod", both, true},
	} {
		order, _, err := c.probe(tt.namespace, tt.labels)
		if (err != nil) != tt.refused || order != "" {
			c.Errorf("%v in %s: order %q, %v", tt.labels, tt.namespace, order, err)
		}
	}
}

// longestConditions has the API server evaluate each of the longest conditions twice.
func longestConditions(c *cluster) {
	scopes := append(longestScopes(fail, maxFail), longestScopes(ignore, MaxConditions-maxFail)...)
	for i := range scopes {
		scopes[i].Namespaces = []string{"default"}
	}
	clientConfig, err := c.ClientConfig(Path)
	c.must(err)
	webhooks := webhooksOf(planOf(scopes).entries, clientConfig, 8*time.Second)
	length := 0
	for i := range webhooks {
		for j := range webhooks[i].MatchConditions {
			condition := &webhooks[i].MatchConditions[j]
			length += len(condition.Expression)
			condition.Expression = "[1, 2].map(i, " + condition.Expression + ")[1]"
		}
	}
	c.Logf("%d scopes in %d characters", len(scopes), length)
	besides := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "besides"}, Webhooks: webhooks,
	}
	c.must(c.Create(c.Context(), besides))
	last := fmt.Sprintf("example.com/label-%05d", len(scopes)/2-1)
	c.eventually("the API server sends pods of the last scope", func() string {
		if _, times, err := c.probe("default", map[string]string{last: "x", "app": "y"}); err != nil || times != 1 {
			return fmt.Sprintf("sent %d times, %v", times, err)
		}
		return ""
	})
	many := map[string]string{"app": "y"}
	for i := range len(scopes) {
		many[fmt.Sprintf("example.com/label-%05d", i)] = "z"
	}
	if _, times, err := c.probe("default", many); err != nil || times > 0 {
		c.Errorf("a pod that no scope selects is sent %d times, %v", times, err)
	}
	c.must(c.Delete(c.Context(), besides))
	c.noEvaluationFailed()
}

// noEvaluationFailed checks what the API server counts.
func (c *cluster) noEvaluationFailed() {
	c.Helper()
	httpClient, err := rest.HTTPClientFor(c.config)
	c.must(err)
	request, err := http.NewRequestWithContext(c.Context(), http.MethodGet, c.config.Host+"/metrics", http.NoBody)
	c.must(err)
	response, err := httpClient.Do(request)
	c.must(err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	c.must(err)
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(line, "apiserver_admission_match_condition_evaluation_errors_total{") {
			c.Errorf("an expression could not be evaluated: %s", line)
		}
	}
}
