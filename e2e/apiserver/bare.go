package apiserver

import (
	"errors"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/flotilla-dev/flotilla/apis/crds"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

const (
	// patience is for busy machines: the defaults are 20 s for the start, and 10 s for definitions whose rules take
	// longer.
	patience = 3 * time.Minute
	// attempts to install definitions: an API server may take longer for their rules than it gives itself for a request.
	attempts = 5
)

// Start starts etcd and an API server with these of our definitions, "<plural>.<group>"; all of them without names.
// stop ends both, also after an error.
func Start(definitions ...string) (config *rest.Config, stop func() error, err error) {
	stop = func() error { return nil }
	bin, err := fleet.FindBinaries()
	if err != nil {
		return nil, stop, fmt.Errorf("find an API server: %w", err)
	}
	wanted, err := definitionsOf(definitions)
	if err != nil {
		return nil, stop, err
	}
	server := &envtest.Environment{BinaryAssetsDirectory: bin, ControlPlaneStartTimeout: patience,
		ControlPlaneStopTimeout: time.Minute}
	if config, err = server.Start(); err != nil {
		return nil, server.Stop, fmt.Errorf("start an API server: %w", err)
	}
	return config, server.Stop, InstallOthers(config, wanted)
}

// InstallOthers installs definitions that need not be ours.
func InstallOthers(config *rest.Config, definitions []*apiextensionsv1.CustomResourceDefinition) (err error) {
	for range attempts {
		options := envtest.CRDInstallOptions{CRDs: definitions, MaxTime: patience}
		if _, err = envtest.InstallCRDs(config, options); err == nil {
			return nil
		}
	}
	return fmt.Errorf("install the definitions: %w", err)
}

// ForTest starts an API server that ends with the test; see [Start].
func ForTest(t fleet.TB, definitions ...string) *rest.Config {
	t.Helper()
	config, stop, err := Start(definitions...)
	if err != nil {
		t.Fatalf("this test needs a real API server: %v", errors.Join(err, stop()))
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Logf("stop the API server: %v", err)
		}
	})
	return config
}

// definitionsOf returns those of our definitions that have these names, all without names.
func definitionsOf(names []string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	all, err := crds.All()
	if err != nil {
		return nil, fmt.Errorf("read our definitions: %w", err)
	}
	wanted := map[string]bool{}
	for _, name := range names {
		wanted[name] = true
	}
	var out []*apiextensionsv1.CustomResourceDefinition
	for _, object := range all {
		if len(names) > 0 && !wanted[object.GetName()] {
			continue
		}
		delete(wanted, object.GetName())
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, crd); err != nil {
			return nil, fmt.Errorf("read the definition %s: %w", object.GetName(), err)
		}
		out = append(out, crd)
	}
	for name := range wanted {
		return nil, fmt.Errorf("we have no definition %s", name)
	}
	return out, nil
}
