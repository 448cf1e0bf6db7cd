package apiserver

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	appsv1alpha1 "github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/apis/crds"
	policy "github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podset"
	"github.com/flotilla-dev/flotilla/member-agent/workload"
)

// Cluster starts a cluster of this name without a hub, with one fleet of its own that ends with the test, and these of
// our definitions, "<plural>.<group>".
func Cluster(t testing.TB, spec fleet.ClusterSpec, audit bool, definitions ...string) *fleet.Cluster {
	t.Helper()
	c := fleet.ForTest(t, fleet.Config{NoHub: true, Audit: audit, Members: []fleet.ClusterSpec{spec}}).Member(spec.Name)
	Install(t, c, definitions...)
	return c
}

// Install gives a cluster these of our definitions, "<plural>.<group>".
func Install(t testing.TB, c *fleet.Cluster, definitions ...string) {
	t.Helper()
	files, err := Files(definitions...)
	if err == nil {
		err = c.InstallCRDs(t.Context(), files)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Files returns the files of these of our definitions, "<plural>.<group>".
func Files(definitions ...string) (fstest.MapFS, error) {
	files := fstest.MapFS{}
	for _, name := range definitions {
		plural, group, _ := strings.Cut(name, ".")
		file := group + "_" + plural + ".yaml"
		data, err := fs.ReadFile(crds.FS, file)
		if err != nil {
			return nil, fmt.Errorf("read the definition %s: %w", name, err)
		}
		files[file] = &fstest.MapFile{Data: data}
	}
	return files, nil
}

// Scheme returns a scheme with the kinds of Kubernetes and the workloads of the suite.
func Scheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apps.AddToScheme, appsv1alpha1.AddToScheme, policy.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

// Run starts a manager with these controllers, with caches as an agent has them. It ends with the test, or before by
// the returned function.
func Run(t testing.TB, own *rest.Config, setup func(context.Context, ctrl.Manager) error) (ctrl.Manager, func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context())) // until Cleanup
	mgr, err := ctrl.NewManager(own, ctrl.Options{
		Scheme: Scheme(t), Logger: logr.Discard(),
		Cache: cache.Options{DefaultTransform: podset.Slim, ByObject: map[client.Object]cache.ByObject{
			&corev1.Node{}: {Transform: workload.SlimNode}}},
		Metrics: metrics.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err == nil {
		err = setup(ctx, mgr)
	}
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return mgr, stop
}
