package faultproxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// opened returns a proxy to a server that answers every request with its path, and the address of the proxy.
func opened(t *testing.T) (*Proxy, string) {
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
	p, err := Open(t.Context(), "test", path, Options{Seed: 1, Chances: []Chance{
		{TooMany, 50}, {Internal, 40}, {Unavailable, 40}, {Conflict, 40}, {LostAnswer, 40},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	through, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	address := through.Clusters["c"].Server
	if u, err := url.Parse(address); err != nil || address == server.URL || u.Scheme != "http" {
		t.Fatalf("the kubeconfig leads to %s (%v)", address, err)
	}
	return p, address
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

func TestProxyPassesOnCutsAndJoins(t *testing.T) {
	p, address := opened(t)
	if code, text, err := get(t, address+"/api"); err != nil || code != http.StatusOK || text != "hello /api" {
		t.Errorf("through an open proxy: %d %q %v", code, text, err)
	}
	p.SetCut(true)
	if code, _, err := get(t, address+"/api"); err == nil {
		t.Errorf("a proxy that is cut answers %d", code)
	}
	p.SetCut(false)
	if _, _, err := get(t, address+"/api"); err != nil {
		t.Errorf("a proxy that is joined again: %v", err)
	}
}

func TestProxyAnswersWithErrors(t *testing.T) {
	p, address := opened(t)
	p.SetFaulty(true)
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
	if codes[http.StatusConflict] > 0 || p.Made()[LostAnswer] > 0 {
		t.Errorf("reads met faults of writes: %v %v", codes, p.Made())
	}
}

func TestProxyRefusesWatchesAndHasOutages(t *testing.T) {
	p, address := opened(t)
	p.CutWatches(time.Hour)
	if code, _, err := get(t, address+"/api?watch=true"); err != nil || code != http.StatusServiceUnavailable {
		t.Errorf("a watch that is to be refused: %d %v", code, err)
	}
	if code, _, err := get(t, address+"/api"); err != nil || code != http.StatusOK {
		t.Errorf("a request beside refused watches: %d %v", code, err)
	}
	p.BeginOutage(time.Hour)
	if code, _, err := get(t, address+"/api"); err == nil {
		t.Errorf("in an outage the answer is %d", code)
	}
	p.SetFaulty(false)
	if code, _, err := get(t, address+"/api?watch=true"); err != nil || code != http.StatusOK {
		t.Errorf("a watch after the outage: %d %v", code, err)
	}
}

func TestObserverSeesWhatPasses(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.URL.Path+"\nsecond\n")
	}))
	t.Cleanup(server.Close)
	var mu sync.Mutex
	var seen []string
	see := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, text)
	}
	p, err := New(t.Context(), "test", &rest.Config{Host: server.URL}, Options{Observer: Observer{
		Request: func(r *http.Request, _ []byte, _ Fault) func() {
			see("request " + r.URL.Path)
			return func() { see("done " + r.URL.Path) }
		},
		Answer: func(_ *http.Request, code int, body []byte) { see(fmt.Sprintf("answer %d %q", code, body)) },
		Event:  func(_ *http.Request, line []byte) { see("event " + string(line)) },
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/one", "/two?watch=1"} {
		if _, _, err := get(t, p.URL()+path); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	server.Close()
	mu.Lock()
	defer mu.Unlock()
	want := []string{"request /one", `answer 200 "/one\nsecond\n"`, "done /one", "request /two", "event /two",
		"event second",
		"done /two"}
	if !slices.Equal(seen, want) {
		t.Errorf("got %q, want %q", seen, want)
	}
}

func TestProxyDelaysWatches(t *testing.T) {
	p, address := opened(t)
	p.SetLag(time.Hour) // longer than any machine stands still
	held := &lateWriter{ResponseWriter: httptest.NewRecorder(), proxy: p}
	if _, err := held.Write([]byte("event")); err != nil {
		t.Fatal(err)
	}
	if held.written() != "" {
		t.Error("a watch told at once")
	}
	held.end()

	const lag = 300 * time.Millisecond
	p.SetLag(lag)
	began := time.Now()
	_, _, _ = get(t, address+"/api?watch=true") // the server ends it before the lag is over
	if _, text, err := get(t, address+"/api"); err != nil || !strings.HasPrefix(text, "hello") {
		t.Errorf("a request that is no watch: %q %v", text, err)
	}
	late := &lateWriter{ResponseWriter: httptest.NewRecorder(), proxy: p}
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
