package memberagent_test

import (
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/flotilla-dev/flotilla/e2e/apiserver"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
	memberagent "github.com/flotilla-dev/flotilla/member-agent"
)

// TestSetupNeedsNoDefinition sets every kind up in a member with the definition of one of them, as where the agent is
// upgraded before the definitions: the agent must not end.
func TestSetupNeedsNoDefinition(t *testing.T) {
	c := apiserver.Cluster(t, fleet.ClusterSpec{Name: "solo"}, false, "clonesets.apps.kruise.io")
	scheme := runtime.NewScheme()
	if err := memberagent.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(c.RESTConfig(), ctrl.Options{
		Scheme: scheme, Cache: memberagent.CacheOptions(), Metrics: metrics.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)}, Logger: logr.Discard(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := memberagent.Setup(t.Context(), mgr, memberagent.Options{Clock: clock.RealClock{}, Workers: 1}); err != nil {
		t.Error(err)
	}
}
