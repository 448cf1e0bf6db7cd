package pods

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/flotilla-dev/flotilla/e2e/apiserver"
)

// echo is an API server that knows SPDY alone, and a pod that sends back what it gets.
func echo(t *testing.T, w http.ResponseWriter, r *http.Request) {
	if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		http.Error(w, "no WebSockets here", http.StatusBadRequest)
		return
	}
	if _, err := httpstream.Handshake(r, w, []string{"portforward.k8s.io"}); err != nil {
		t.Error(err)
		return
	}
	streams := make(chan httpstream.Stream, 2)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		streams <- s
		return nil
	})
	if conn == nil {
		t.Error("the connection is not upgraded")
		return
	}
	defer conn.Close()
	for range 2 {
		s := <-streams
		if s.Headers().Get(corev1.StreamType) == corev1.StreamTypeError {
			_ = s.Close()
			continue
		}
		if port := s.Headers().Get(corev1.PortHeader); port != "8080" {
			t.Errorf("port %s", port)
		}
		line := make([]byte, 4)
		if _, err := io.ReadFull(s, line); err != nil {
			t.Error(err)
		}
		_, _ = s.Write(bytes.ToUpper(line))
		_ = s.Close()
	}
	<-conn.CloseChan()
}

// TestPortForward holds that a connection to a local port reaches the port of the pod, and that the user ends it.
func TestPortForward(t *testing.T) {
	m := &member{t: t, pods: []corev1.Pod{pod("api-1", corev1.PodRunning, "main")}}
	m.forward = func(w http.ResponseWriter, r *http.Request) { echo(t, w, r) }
	c := &chosen{member: m.reach(), pod: &m.pods[0]}
	ctx, cancel := context.WithCancel(t.Context())
	out, talk, ended := &buffer{}, &buffer{}, make(chan error, 1)
	go func() { ended <- c.forward(ctx, []string{"127.0.0.1"}, []string{":8080"}, out, talk) }()
	address := ""
	apiserver.Eventually(t, 10*time.Second, "it listens", func() string {
		_, after, found := strings.Cut(out.String(), "Forwarding from ")
		address, _, _ = strings.Cut(after, " ")
		if !found {
			return "so far: " + out.String() + talk.String()
		}
		return ""
	})
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var asked sync.WaitGroup
	asked.Go(func() { _, _ = io.WriteString(conn, "ping") })
	answer := make([]byte, 4)
	if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != "PING" {
		t.Errorf("%q, %v", answer, err)
	}
	asked.Wait()
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it goes on")
	}
}
