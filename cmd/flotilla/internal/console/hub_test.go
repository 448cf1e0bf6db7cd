package console

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestClockOfTheServer: the clock that comes with a client follows the API server, not this machine.
func TestClockOfTheServer(t *testing.T) {
	for _, ahead := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
			w.WriteHeader(http.StatusForbidden)
		}))
		t.Cleanup(server.Close)
		var hub Hub
		cmd := &cobra.Command{Use: "verb"}
		hub.AddFlags(cmd)
		if err := cmd.Flags().Parse([]string{"--server", server.URL}); err != nil {
			t.Fatal(err)
		}
		c, now, err := hub.ClientAndClock()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), client.ObjectKey{Name: "shop"}, &corev1.Namespace{}); err == nil {
			t.Error("the server refuses, but the namespace was read")
		}
		if off := time.Until(now.Now()) - ahead; off.Abs() > time.Minute {
			t.Errorf("the server is %s ahead, the clock %s off", ahead, off)
		}
	}
}
