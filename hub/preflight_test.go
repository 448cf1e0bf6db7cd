package hub_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/flotilla-dev/flotilla/hub"
)

func TestCheckCRDs(t *testing.T) {
	if err := hub.CheckCRDs(apiServers.of(t)); err != nil {
		t.Errorf("an API server with all of them: %v", err)
	}
	empty := httptest.NewServer(http.NotFoundHandler())
	defer empty.Close()
	err := hub.CheckCRDs(&rest.Config{Host: empty.URL})
	if err == nil || !strings.Contains(err.Error(), "clonesets.apps.kruise.io") ||
		!strings.Contains(err.Error(), "works.work.karmada.io") || !strings.Contains(err.Error(), "kubectl apply") {
		t.Errorf("an API server without: %v", err)
	}
}
