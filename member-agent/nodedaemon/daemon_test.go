package nodedaemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/cri"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/fakecri"
)

// running is a daemon in a folder of sockets.
type running struct {
	*Daemon
	folder string
	clock  *clocktesting.FakeClock
	added  chan Env
	ended  chan error
	// servers are those of the sockets given at the start.
	servers []*fakecri.Server
	// refuses has the part fail to start.
	refuses atomic.Bool
}

// run starts a daemon in a folder where runtimes serve these sockets already.
func run(t *testing.T, sockets ...string) *running {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	folder, err := os.MkdirTemp("", "daemon")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	// Nothing here asks an API server.
	mgr, err := ctrl.NewManager(&rest.Config{Host: "127.0.0.1:1"}, ctrl.Options{Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	r := &running{folder: folder, clock: clocktesting.NewFakeClock(time.Unix(1e9, 0)), added: make(chan Env, 9),
		ended: make(chan error, 1)}
	part := Part{Name: "test", Add: func(_ manager.Manager, env Env) error {
		r.added <- env
		if r.refuses.Load() {
			return errors.New("no")
		}
		return nil
	}}
	r.Daemon, err = Setup(mgr, Options{Node: "a", CRI: cri.Options{Directory: folder}, Parts: []Part{part},
		Clock: r.clock, Log: logr.Discard(), Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	for _, socket := range sockets {
		r.servers = append(r.servers, r.serve(t, socket))
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { r.ended <- r.Start(ctx) }()
	t.Cleanup(cancel)
	return r
}

func (r *running) serve(t *testing.T, socket string) *fakecri.Server {
	t.Helper()
	s := fakecri.New(filepath.Join(r.folder, socket))
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// until lets the clock go on until the daemon reports the reason.
func (r *running) until(t *testing.T, reason string) State {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		state, changed := r.Health().Watch()
		if state.Reason == reason {
			return state
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%+v, want the reason %s", state, reason)
		case <-changed:
		case <-ticker.C:
			r.clock.Step(retryAfter)
		}
	}
}

func TestPartsStartOnceTheRuntimeAnswers(t *testing.T) {
	r := run(t)
	r.until(t, cri.ReasonNoSocket)
	if err := r.Health().Ready(nil); err == nil || !strings.Contains(err.Error(), cri.ReasonNoSocket) {
		t.Errorf("the daemon is ready without a runtime: %v", err)
	}
	s := r.serve(t, "crio/crio.sock")
	s.SetVersion("cri-o", "1.36.0")
	state := r.until(t, ReasonConnected)
	if !state.Ready || !strings.Contains(state.Message, "cri-o 1.36.0 answers at unix://"+s.Socket()) {
		t.Errorf("state %+v, want the runtime and its socket", state)
	}
	env := <-r.added
	if _, err := env.Runtime.Version(t.Context(), ""); err != nil || env.Node != "a" {
		t.Errorf("node %s, and the runtime: %v", env.Node, err)
	}
	s.Stop()
	if state := r.until(t, ReasonNotAnswering); state.Ready || state.Runtime.Name != "cri-o" {
		t.Errorf("state %+v of a runtime that is stopped", state)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	r.until(t, ReasonConnected)
	if len(r.added) > 0 {
		t.Error("the part was started twice")
	}
}

func TestTwoRuntimesAreReported(t *testing.T) {
	r := run(t, "crio/crio.sock", "containerd/containerd.sock")
	state := r.until(t, cri.ReasonSeveral)
	if !strings.Contains(state.Message, "crio.sock") || !strings.Contains(state.Message, "containerd.sock") {
		t.Errorf("%q does not name both", state.Message)
	}
	r.servers[1].Stop()
	r.until(t, ReasonConnected)
}

func TestAnotherRuntimeEndsTheDaemon(t *testing.T) {
	r := run(t)
	s := r.serve(t, "containerd/containerd.sock")
	r.until(t, ReasonConnected)
	s.Stop()
	r.serve(t, "crio/crio.sock")
	r.until(t, ReasonNotAnswering)
	select {
	case err := <-r.ended:
		if err == nil || !strings.Contains(err.Error(), "crio.sock") {
			t.Errorf("%v, want that another runtime answers", err)
		}
	case <-time.After(30 * time.Second):
		t.Error("the daemon goes on without its runtime")
	}
}

func TestAPartThatCannotStartEndsTheDaemon(t *testing.T) {
	r := run(t)
	r.refuses.Store(true)
	r.serve(t, "crio/crio.sock")
	r.until(t, ReasonConnected)
	if err := <-r.ended; err == nil || !strings.Contains(err.Error(), "start the part test: no") {
		t.Errorf("ended with %v", err)
	}
}

func TestOneTypeIsReadOneWay(t *testing.T) {
	reads := func(node string) map[client.Object]cache.ByObject {
		return map[client.Object]cache.ByObject{&corev1.Pod{}: Pods(node)}
	}
	options := CacheOptions("a", []Part{{Name: "x", Reads: reads}, {Name: "y", Reads: reads}, {Name: "z"}})
	var got []string
	for object, how := range options.ByObject {
		got = append(got, fmt.Sprintf("%T by %s", object, how.Field))
	}
	slices.Sort(got)
	if want := []string{"*v1.Pod by spec.nodeName=a", "*v1beta1.NodeImage by metadata.name=a"}; !slices.Equal(got, want) {
		t.Errorf("read %q, want %q", got, want)
	}
}
