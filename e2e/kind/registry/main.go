// Command registry serves one image from a node of e2e/kind, by plain HTTP on localhost: as open/app:1 to all, and as
// closed/app:1 to those who have the name and the password. Container runtimes pull from localhost without TLS.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:5000", "`address` to serve at")
	archive := flag.String("archive", "", "`file` with the image, as docker save writes it")
	username := flag.String("username", "", "`name` that closed/app needs")
	password := flag.String("password", "", "`password` that closed/app needs")
	flag.Parse()
	if err := run(*listen, *archive, *username, *password); err != nil {
		fmt.Fprintln(os.Stderr, "registry:", err)
		os.Exit(1)
	}
}

// run serves until it fails.
func run(listen, archive, username, password string) error {
	image, err := tarball.ImageFromPath(archive, nil)
	if err != nil {
		return fmt.Errorf("read the image in %s: %w", archive, err)
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("listen at %s: %w", listen, err)
	}
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second,
		Handler: guard(registry.New(registry.Logger(log.New(io.Discard, "", 0))), username, password)}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	for _, repository := range []string{"open", "closed"} {
		reference, err := name.NewTag(listen+"/"+repository+"/app:1", name.Insecure)
		if err != nil {
			return fmt.Errorf("name the image: %w", err)
		}
		auth := remote.WithAuth(&authn.Basic{Username: username, Password: password})
		if err := remote.Write(reference, image, auth); err != nil {
			return fmt.Errorf("push %s: %w", reference, err)
		}
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// guard asks for the name and the password below /v2/closed/.
func guard(next http.Handler, username, password string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, secret, _ := r.BasicAuth()
		if strings.HasPrefix(r.URL.Path, "/v2/closed/") && (user != username || secret != password) {
			w.Header().Set("WWW-Authenticate", `Basic realm="closed"`)
			http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`, http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}
