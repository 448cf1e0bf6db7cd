package cri

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/fakecri"
)

// folder returns a folder whose paths are short enough for sockets.
func folder(t *testing.T) string {
	t.Helper()
	at, err := os.MkdirTemp("", "cri")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(at) })
	return at
}

func start(t *testing.T, folder, socket string) *fakecri.Server {
	t.Helper()
	s := fakecri.New(filepath.Join(folder, socket))
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

func TestFindsTheSocketOfEachRuntime(t *testing.T) {
	for _, socket := range sockets() {
		in := folder(t)
		start(t, in, socket)
		got, err := Find(t.Context(), Options{Directory: in})
		if want := "unix://" + filepath.Join(in, socket); err != nil || got != want {
			t.Errorf("found %s (%v), want %s", got, err, want)
		}
	}
}

func TestFindSaysWhyThereIsNoRuntime(t *testing.T) {
	for _, row := range []struct {
		name   string
		set    func(t *testing.T, in string)
		reason string
		says   []string
	}{
		{"no socket", func(*testing.T, string) {}, ReasonNoSocket, []string{"containerd/containerd.sock", Flag}},
		{"a file that is no socket", func(t *testing.T, in string) {
			t.Helper()
			if err := os.WriteFile(filepath.Join(in, "cri-dockerd.sock"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, ReasonNoSocket, []string{Flag}},
		{"two runtimes", func(t *testing.T, in string) {
			t.Helper()
			start(t, in, "containerd/containerd.sock")
			start(t, in, "crio/crio.sock")
		}, ReasonSeveral, []string{"containerd/containerd.sock", "crio/crio.sock", Flag}},
		{"a runtime that does not serve CRI", func(t *testing.T, in string) {
			t.Helper()
			start(t, in, "crio/crio.sock").Always("Version", fakecri.Answer{Code: codes.Unimplemented})
		}, ReasonRefused, []string{"crio/crio.sock: it does not serve CRI v1", Flag}},
	} {
		t.Run(row.name, func(t *testing.T) {
			in := folder(t)
			row.set(t, in)
			_, err := Find(t.Context(), Options{Directory: in})
			var found *DiscoveryError
			if !errors.As(err, &found) || found.Reason != row.reason {
				t.Fatalf("%v, want the reason %s", err, row.reason)
			}
			for _, part := range row.says {
				if !strings.Contains(found.Message, part) {
					t.Errorf("%q does not say %q", found.Message, part)
				}
			}
		})
	}
}

func TestContainerdOfDockerDoesNotCount(t *testing.T) {
	in := folder(t)
	start(t, in, "containerd/containerd.sock").Always("Version", fakecri.Answer{Code: codes.Unimplemented})
	start(t, in, "cri-dockerd.sock")
	if got, err := Find(t.Context(), Options{Directory: in}); err != nil || !strings.HasSuffix(got, "/cri-dockerd.sock") {
		t.Errorf("found %s (%v), want that of cri-dockerd", got, err)
	}
}

func TestALinkToASocketCountsOnce(t *testing.T) {
	in := folder(t)
	start(t, in, "containerd/containerd.sock")
	if err := os.Symlink(in+"/containerd/containerd.sock", in+"/cri-dockerd.sock"); err != nil {
		t.Fatal(err)
	}
	if _, err := Find(t.Context(), Options{Directory: in}); err != nil {
		t.Error(err)
	}
}

func TestConnectNamesTheRuntime(t *testing.T) {
	in := folder(t)
	s := start(t, in, "any.sock")
	s.SetVersion("cri-o", "1.36.0")
	for _, at := range []string{s.Socket(), "unix://" + s.Socket()} {
		c, err := Connect(t.Context(), Options{Endpoint: at})
		if err != nil {
			t.Fatal(err)
		}
		if want := (Runtime{"cri-o", "1.36.0"}); c.Runtime != want {
			t.Errorf("connected to %v, want %v", c.Runtime, want)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestConnectFailsWithWhatTheRuntimeAnswers(t *testing.T) {
	in := folder(t)
	s := start(t, in, "any.sock")
	s.Always("Version", fakecri.Answer{Code: codes.Unavailable, Message: "the runtime starts"})
	if _, err := Connect(t.Context(), Options{Endpoint: s.Socket()}); err == nil ||
		!strings.Contains(err.Error(), "the runtime starts") || !strings.Contains(err.Error(), s.Socket()) {
		t.Errorf("%v, want the answer and the socket", err)
	}
	_, err := Connect(t.Context(), Options{Endpoint: filepath.Join(in, "none.sock")})
	if err == nil || !strings.Contains(err.Error(), "there is no socket "+in+"/none.sock: check "+Flag) {
		t.Errorf("%v, want the socket and the flag", err)
	}
	if _, err = Connect(t.Context(), Options{Endpoint: "tcp://127.0.0.1:1"}); err == nil ||
		!strings.Contains(err.Error(), "no Unix socket") {
		t.Errorf("%v, want that it is no Unix socket", err)
	}
}

// eventually calls f until it returns nil.
func eventually(t *testing.T, f func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-ticker.C:
		}
	}
}

func TestConnectsAgainWhenTheRuntimeRestarts(t *testing.T) {
	in := folder(t)
	s := start(t, in, "any.sock")
	s.AddImage("web:1", "sha256:a")
	c, err := Connect(t.Context(), Options{Endpoint: s.Socket()})
	if err != nil {
		t.Fatal(err)
	}
	s.Stop()
	if err := c.Check(t.Context()); err == nil || strings.Contains(err.Error(), "desc =") {
		t.Errorf("a stopped runtime answers, or with the words of gRPC: %v", err)
	}
	s.SetVersion("containerd", "v2.2.0")
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error { return c.Check(t.Context()) })
	if c.Runtime.Version != "v2.2.0" {
		t.Errorf("the version is %s after an upgrade", c.Runtime.Version)
	}
	eventually(t, func() error {
		images, err := c.ImageService.ListImages(t.Context(), &runtimeapi.ImageFilter{})
		if err == nil && len(images) != 1 {
			t.Errorf("%d images after the restart", len(images))
		}
		return err
	})
}
