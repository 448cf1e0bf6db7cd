package serving

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsfake "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/fake"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/flotilla-dev/flotilla/apis/crds"
)

const namespace = "flotilla-system"

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// world is an API server without anything in it, and a clock.
type world struct {
	t          *testing.T
	core       *fake.Clientset
	extensions *apiextensionsfake.Clientset
	clock      *clocktesting.FakeClock
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, core: fake.NewClientset(), extensions: apiextensionsfake.NewClientset(),
		clock: clocktesting.NewFakeClock(begin)}
	w.core.PrependReactor("update", "secrets", versioned(w.core.Tracker()))
	return w
}

// versioned refuses updates of Secrets that another writer has changed since they were read, as an API server does.
func versioned(tracker clienttesting.ObjectTracker) clienttesting.ReactionFunc {
	var mu sync.Mutex
	version := 0
	return func(action clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		update := action.(clienttesting.UpdateAction).GetObject().(*corev1.Secret).DeepCopy()
		have, err := tracker.Get(action.GetResource(), update.Namespace, update.Name)
		if err != nil {
			return true, nil, err
		}
		if have.(*corev1.Secret).ResourceVersion != update.ResourceVersion {
			return true, nil, apierrors.NewConflict(corev1.Resource("secrets"), update.Name, errors.New("it was changed"))
		}
		version++
		update.ResourceVersion = strconv.Itoa(version)
		return true, update, tracker.Update(action.GetResource(), update, update.Namespace)
	}
}

// replica is one server that runs.
type replica struct {
	*Server
	address string
	stop    func()
}

// start starts a replica of a program and ends it with the test.
func (w *world) start(edit ...func(*Options)) *replica {
	w.t.Helper()
	address := w.freeAddress()
	o := Options{
		Flags: Flags{BindAddress: address}, Program: "flotilla-agent", Namespace: namespace, Clock: w.clock,
		Log:           logr.Discard(),
		AuthorityLife: short.authority, CertificateLife: short.certificate,
	}
	for _, e := range edit {
		e(&o)
	}
	s, err := newServer(w.core, w.extensions, o)
	if err != nil {
		w.t.Fatal(err)
	}
	s.Register("/hello", http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) { fmt.Fprint(out, "hello") }))
	ctx, cancel := context.WithCancel(w.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Start(ctx); err != nil {
			w.t.Error(err)
		}
	})
	stop := sync.OnceFunc(func() { cancel(); running.Wait() })
	w.t.Cleanup(stop)
	return &replica{Server: s, address: address, stop: stop}
}

// freeAddress returns an address for a server. Its port is below those that systems give to connections, and below
// those of fleets, so that nothing takes it before the server does.
func (w *world) freeAddress() string {
	w.t.Helper()
	const lowest, span, attempts = 5000, 7000, 100
	for range attempts {
		address := fmt.Sprintf("127.0.0.1:%d", lowest+rand.IntN(span))
		if listener, err := net.Listen("tcp", address); err == nil {
			_ = listener.Close()
			return address
		}
	}
	w.t.Fatal("no port is free")
	return ""
}

// call asks the replica as an API server does that trusts the bundle, and returns the certificate that it met.
func (w *world) call(r *replica, bundle []byte) (*x509.Certificate, error) {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(bundle)
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: host, Time: w.clock.Now},
	}}
	response, err := client.Get("https://" + r.address + "/hello")
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if text, err := io.ReadAll(response.Body); err != nil || string(text) != "hello" {
		return nil, fmt.Errorf("it answers %q, %w", text, err)
	}
	return response.TLS.PeerCertificates[0], nil
}

// eventually polls until check returns nil, and fails the test with its last answer after two minutes.
func (w *world) eventually(what string, check func() error) {
	w.t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(w.t.Context(), 5*time.Millisecond, 2*time.Minute, true,
		func(context.Context) (bool, error) {
			last = check()
			return last == nil, nil
		})
	if err != nil {
		w.t.Fatalf("%s: %v", what, last)
	}
}

// served waits until the replica is ready and returns its certificate and what it wants to be trusted.
func (w *world) served(r *replica) (*x509.Certificate, []byte) {
	w.t.Helper()
	w.eventually("ready", func() error { return r.ready(nil) })
	certificate, bundle, err := w.asked(r)
	if err != nil {
		w.t.Fatal(err)
	}
	return certificate, bundle
}

// asked returns the replica's certificate and what it wants to be trusted. It errs if the one does not go with the
// other: they are asked for one after the other, and a new authority may come in between.
func (w *world) asked(r *replica) (*x509.Certificate, []byte, error) {
	config, err := r.ClientConfig(crds.ConversionPath)
	if err != nil {
		return nil, nil, err
	}
	certificate, err := w.call(r, config.CABundle)
	return certificate, config.CABundle, err
}

func (w *world) secret() *corev1.Secret {
	w.t.Helper()
	secret, err := w.core.CoreV1().Secrets(namespace).Get(w.t.Context(), "flotilla-agent-webhook", metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return secret
}

// TestTwoReplicas holds that two replicas that start together on an empty cluster serve the same certificate, and that
// one that comes later does too.
func TestTwoReplicas(t *testing.T) {
	w := newWorld(t)
	// Whoever looks first and second sees no Secret, so that both write one.
	var looks atomic.Int32
	w.core.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		if looks.Add(1) <= 2 {
			return true, nil, apierrors.NewNotFound(corev1.Resource("secrets"), "flotilla-agent-webhook")
		}
		return false, nil, nil
	})
	a, b := w.start(), w.start()
	first, bundle := w.served(a)
	second, other := w.served(b)
	if !first.Equal(second) || string(bundle) != string(other) {
		t.Error("they serve different certificates")
	}
	late, _ := w.served(w.start())
	if !late.Equal(first) {
		t.Error("the third one serves another certificate")
	}
	a.stop()
	if _, err := w.call(b, bundle); err != nil {
		t.Errorf("after the first one ended, the second does not serve: %v", err)
	}
}

// TestRotation holds that all replicas serve a new certificate without a restart, that who knows the old bundle is
// served all the time, and that a replica that lost the race for the write serves what the other wrote.
func TestRotation(t *testing.T) {
	w := newWorld(t)
	a, b := w.start(), w.start()
	before, bundle := w.served(a)
	_, _ = w.served(b)
	var refused atomic.Bool
	w.core.PrependReactor("update", "secrets", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if refused.CompareAndSwap(false, true) {
			return true, nil, apierrors.NewConflict(corev1.Resource("secrets"), "flotilla-agent-webhook",
				errors.New("another was first"))
		}
		return false, nil, nil
	})
	last := before
	for step := range 11 { // over the authority's renewal, too
		w.clock.Step(32 * day)
		if step == 9 {
			// The authority is due, too. It is told first, and signs when it has settled; who knows the old one is served.
			for _, r := range []*replica{a, b} {
				w.eventually("a new authority", func() error {
					known, _ := r.ClientConfig(crds.ConversionPath)
					if string(known.CABundle) == string(bundle) {
						return errors.New("the old bundle is told")
					}
					now, err := w.call(r, bundle)
					if err == nil && !now.Equal(last) {
						t.Error("the new authority has signed at once")
					}
					return err
				})
			}
			_, bundle = w.served(a)
			w.clock.Step(settle)
		}
		for _, r := range []*replica{a, b} {
			w.eventually(fmt.Sprintf("a new certificate in step %d", step), func() error {
				now, err := w.call(r, bundle)
				if err != nil {
					return err
				}
				if now.Equal(last) {
					return errors.New("the old one is served")
				}
				return nil
			})
		}
		now, known := w.served(a)
		last = now
		if string(known) != string(bundle) {
			t.Errorf("step %d: the bundle changed with a certificate", step)
		}
		bundle = known // as the leader wrote it before the next step
	}
	if n := strings.Count(string(bundle), "BEGIN CERTIFICATE"); n != 2 {
		t.Errorf("the bundle holds %d authorities after the renewal of one", n)
	}
}

// TestSecretDeleted holds that a new Secret is made, with a new authority, and served.
func TestSecretDeleted(t *testing.T) {
	w := newWorld(t)
	a, b := w.start(), w.start()
	before, old := w.served(a)
	changed := make(chan struct{}, 10)
	a.OnChange(func() { changed <- struct{}{} })
	if err := w.core.CoreV1().Secrets(namespace).Delete(t.Context(), "flotilla-agent-webhook",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("a new certificate", func() error {
		first, bundle, err := w.asked(a)
		if err != nil {
			return err
		}
		second, _, err := w.asked(b)
		if err != nil {
			return err
		}
		if first.Equal(before) || string(bundle) == string(old) || !second.Equal(first) {
			return errors.New("the old one is served")
		}
		return nil
	})
	<-changed
	if kind := w.secret().Type; kind != corev1.SecretTypeTLS {
		t.Errorf("the Secret is of type %s", kind)
	}
}

// TestSecretOfSomebody holds that a Secret that somebody made before, empty or broken, is filled and keeps the rest.
func TestSecretOfSomebody(t *testing.T) {
	w := newWorld(t)
	_, err := w.core.CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "flotilla-agent-webhook",
			Labels: map[string]string{"team": "a"}},
		Data: map[string][]byte{"note": []byte("ours"), caCert: []byte("no certificate")},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.served(w.start())
	if secret := w.secret(); secret.Labels["team"] != "a" || string(secret.Data["note"]) != "ours" {
		t.Errorf("it lost what was in it: %v", secret.Labels)
	}
}

// TestNotReady holds that a replica without a certificate is not ready, says why, and is ready once it has one.
func TestNotReady(t *testing.T) {
	w := newWorld(t)
	var allowed atomic.Bool
	w.core.PrependReactor("create", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		if allowed.Load() {
			return false, nil, nil
		}
		return true, nil, apierrors.NewForbidden(corev1.Resource("secrets"), "flotilla-agent-webhook", errors.New("no right"))
	})
	r := w.start()
	w.eventually("a reason", func() error {
		err := r.ready(nil)
		if err == nil {
			t.Fatal("it is ready")
		}
		for _, word := range []string{"no certificate yet", "create Secret flotilla-system/flotilla-agent-webhook",
			"no right"} {
			if !strings.Contains(err.Error(), word) {
				return err
			}
		}
		return nil
	})
	if _, err := r.ClientConfig("/any"); err == nil {
		t.Error("it tells API servers to call it")
	}
	if _, err := w.call(r, nil); err == nil {
		t.Error("it answers")
	}
	allowed.Store(true)
	w.clock.Step(retry)
	w.served(r)
}

// TestClientConfig holds what API servers are told.
func TestClientConfig(t *testing.T) {
	w := newWorld(t)
	r := w.start()
	_, bundle := w.served(r)
	config, err := r.ClientConfig("/mutate-pods")
	if err != nil {
		t.Fatal(err)
	}
	if s := config.Service; s == nil || s.Namespace != namespace || s.Name != "flotilla-agent" ||
		*s.Path != "/mutate-pods" || *s.Port != 443 || config.URL != nil {
		t.Errorf("by Service: %+v", config)
	}
	if string(config.CABundle) != string(bundle) || len(bundle) == 0 {
		t.Error("the bundle is another one")
	}
	r = w.start(func(o *Options) { o.URL = "https://127.0.0.1:9443/" })
	w.eventually("a certificate for the address", func() error {
		certificate, _ := w.served(r)
		return certificate.VerifyHostname("127.0.0.1")
	})
	if config, err = r.ClientConfig("/mutate-pods"); err != nil || config.Service != nil ||
		*config.URL != "https://127.0.0.1:9443/mutate-pods" {
		t.Errorf("by URL: %+v, %v", config, err)
	}
}

// TestAddressTaken holds that a server that cannot listen ends with the flag in its error.
func TestAddressTaken(t *testing.T) {
	w := newWorld(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	s, err := newServer(w.core, w.extensions, Options{
		Flags: Flags{BindAddress: listener.Addr().String()}, Program: "flotilla-agent", Namespace: namespace, Clock: w.clock,
		Log: logr.Discard(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(),
		"--webhook-bind-address "+listener.Addr().String()) {
		t.Errorf("it says %v", err)
	}
}
