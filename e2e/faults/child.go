package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/cloneset"
)

// childAgent is the User-Agent of the child.
const childAgent = "faults-child"

// Environment of the child.
const (
	envServer = "FLOTILLA_FAULTS_SERVER"
	envBreak  = "FLOTILLA_FAULTS_BREAK"
)

// The ways in which the child can be made wrong.
const (
	breakStale  = "stale"
	breakDouble = "double"
)

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return scheme, nil
}

// runChild is the child: the controller of CloneSets until stdin ends, as it does when the parent is gone.
func runChild(ctx context.Context, server, broken string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	scheme, err := newScheme()
	if err != nil {
		return err
	}
	options := cache.Options{DefaultTransform: cache.TransformStripManagedFields()}
	if broken == breakDouble {
		options.ByObject = map[client.Object]cache.ByObject{&v1beta1.CloneSet{}: {Transform: double}}
	}
	// JSON, so that the proxy can read which versions a watch delivers.
	config := &rest.Config{Host: server, QPS: -1, UserAgent: childAgent, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Logger: logr.Discard(), Cache: options, Metrics: metrics.Options{BindAddress: "0"},
	})
	if err != nil {
		return fmt.Errorf("make the manager: %w", err)
	}
	if broken == breakStale {
		mgr = staleManager{mgr}
	}
	if err := cloneset.Add(ctx, &workload.Env{Manager: mgr}); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// double is a cache's transform that doubles maxUnavailable.
func double(obj any) (any, error) {
	if cs, ok := obj.(*v1beta1.CloneSet); ok {
		if rolling := cs.Spec.UpdateStrategy.RollingUpdate; rolling != nil && rolling.MaxUnavailable != nil {
			rolling.MaxUnavailable.IntVal *= 2
			if rolling.MaxUnavailable.StrVal != "" {
				rolling.MaxUnavailable.StrVal = "40%" // the script writes 20 %
			}
		}
	}
	return obj, nil
}

// staleManager has a cache that says of every pod that it is up to date: the controller then never waits for its own
// writes to come back.
type staleManager struct{ ctrl.Manager }

// GetCache returns that cache.
func (m staleManager) GetCache() cache.Cache { return staleCache{m.Manager.GetCache()} }

type staleCache struct{ cache.Cache }

// GetInformer returns the informer with the lie in it, for pods.
func (c staleCache) GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	informer, err := c.Cache.GetInformer(ctx, obj, opts...)
	if shared, ok := informer.(toolscache.SharedIndexInformer); ok && err == nil {
		if _, isPod := obj.(*corev1.Pod); isPod {
			return staleInformer{shared}, nil
		}
	}
	return informer, err
}

type staleInformer struct{ toolscache.SharedIndexInformer }

// GetIndexer returns the indexer with the lie in it.
func (i staleInformer) GetIndexer() toolscache.Indexer {
	return staleIndexer{i.SharedIndexInformer.GetIndexer()}
}

type staleIndexer struct{ toolscache.Indexer }

// GetByKey returns a pod on which every write can be seen. Lists by index stay true.
func (staleIndexer) GetByKey(string) (any, bool, error) {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "9223372036854775807", DeletionTimestamp: new(metav1.Now())}}, true, nil
}

// child is the process with the controller, started again after each kill.
type child struct {
	server, broken string
	log            *tail

	mu    sync.Mutex
	cmd   *exec.Cmd
	stdin io.Closer
	done  chan struct{}
	kills int
	// ends is how often the process ended by itself with an error, as it may while it starts in an outage.
	ends int
}

// start starts the process unless it runs. One that ends with an error is started again, as a kubelet does.
func (c *child) start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cmd != nil {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("start the child: %w", err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), envServer+"="+c.server, envBreak+"="+c.broken)
	cmd.Stdout, cmd.Stderr = c.log, c.log
	if c.stdin, err = cmd.StdinPipe(); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("start the child: %w", err)
	}
	done := make(chan struct{})
	c.cmd, c.done = cmd, done
	go func() {
		_ = cmd.Wait() // it is killed, mostly
		close(done)
		c.ended(cmd)
	}()
	return nil
}

// ended starts the process again if it ended by itself and did not crash.
func (c *child) ended(cmd *exec.Cmd) {
	c.mu.Lock()
	again := c.cmd == cmd && !c.log.crashed()
	if again {
		_ = c.stdin.Close() // nobody reads it any more
		c.cmd = nil
		c.ends++
	}
	c.mu.Unlock()
	if again {
		_, _ = c.log.Write([]byte("started again\n"))
		if err := c.start(); err != nil {
			_, _ = fmt.Fprintf(c.log, "%s: %v\n", crash, err)
		}
	}
}

// kill kills the process with SIGKILL and returns when it is gone. The error tells of a crash before.
func (c *child) kill() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.log.crashed() {
		return fmt.Errorf("the child crashed: %s", c.log)
	}
	if c.cmd == nil {
		return nil
	}
	cmd := c.cmd
	c.cmd = nil
	if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill the child: %w", err)
	}
	<-c.done
	_ = c.stdin.Close() // nobody reads it any more
	c.kills++
	return nil
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// tailLength holds the stack of a panic.
const tailLength = 8 << 10

// Write keeps the end of data.
func (t *tail) Write(data []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, data...)
	t.text = t.text[max(0, len(t.text)-tailLength):]
	return len(data), nil
}

// String returns what was kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}

// crash is how the runtime begins the last words of a program.
const crash = "panic:"

// crashed tells whether what was written is of a program that crashed.
func (t *tail) crashed() bool {
	text := t.String()
	return strings.Contains(text, crash) || strings.Contains(text, "fatal error:") || strings.Contains(text, "DATA RACE")
}

// restartWithin is how long a killed child stays away at most: about what a kubelet takes to start a container again.
const restartWithin = 1500 * time.Millisecond
