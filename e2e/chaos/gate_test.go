package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// gated returns a gate to a server that answers every request with its path and streams watches, and the address of the
// gate.
func gated(t *testing.T) (*gate, string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "hello "+r.URL.Path)
	}))
	t.Cleanup(server.Close)
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: server.URL}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c"}
	config.CurrentContext = "c"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	g, err := openGate(t.Context(), "test", path, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.close() })
	through, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	address := through.Clusters["c"].Server
	if u, err := url.Parse(address); err != nil || address == server.URL || u.Scheme != "http" {
		t.Fatalf("the kubeconfig leads to %s (%v)", address, err)
	}
	return g, address
}

func get(t *testing.T, address string) (int, string, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	return response.StatusCode, string(data), err
}

func TestAGateLetsThroughCutsAndJoins(t *testing.T) {
	g, address := gated(t)
	if code, text, err := get(t, address+"/api"); err != nil || code != http.StatusOK || text != "hello /api" {
		t.Errorf("through an open gate: %d %q %v", code, text, err)
	}
	g.setCut(true)
	if code, _, err := get(t, address+"/api"); err == nil {
		t.Errorf("a gate that is cut answers %d", code)
	}
	g.setCut(false)
	if _, _, err := get(t, address+"/api"); err != nil {
		t.Errorf("a gate that is joined again: %v", err)
	}
}

func TestAGateAnswersBadly(t *testing.T) {
	g, address := gated(t)
	g.setBad(true)
	codes := map[int]int{}
	for range 300 {
		code, _, err := get(t, address+"/api")
		if err != nil {
			t.Fatal(err)
		}
		codes[code]++
	}
	for _, code := range []int{http.StatusOK, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusServiceUnavailable} {
		if codes[code] == 0 {
			t.Errorf("of 300 answers none is %d: %v", code, codes)
		}
	}
}

func TestAGateHoldsWatchesBack(t *testing.T) {
	g, address := gated(t)
	g.setLag(time.Hour) // longer than any machine stands still
	held := &lateWriter{ResponseWriter: httptest.NewRecorder(), gate: g}
	if _, err := held.Write([]byte("event")); err != nil {
		t.Fatal(err)
	}
	if held.written() != "" {
		t.Error("a watch told at once")
	}
	held.end()

	const lag = 300 * time.Millisecond
	g.setLag(lag)
	began := time.Now()
	_, _, _ = get(t, address+"/api?watch=true") // the server ends it before the lag is over
	if _, text, err := get(t, address+"/api"); err != nil || !strings.HasPrefix(text, "hello") {
		t.Errorf("a request that is no watch: %q %v", text, err)
	}
	late := &lateWriter{ResponseWriter: httptest.NewRecorder(), gate: g}
	if _, err := late.Write([]byte("event")); err != nil {
		t.Fatal(err)
	}
	told := func(context.Context) (bool, error) { return late.written() == "event", nil }
	if err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, told); err != nil {
		t.Fatalf("a watch that was held back never tells: %v", err)
	}
	if took := time.Since(began); took < lag {
		t.Errorf("a watch told after %s", took)
	}
}

// written returns what has reached the client.
func (l *lateWriter) written() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ResponseWriter.(*httptest.ResponseRecorder).Body.String()
}
