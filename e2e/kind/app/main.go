// Command app is what the pods of e2e/kind run: it says its version at port 8080, and ends when it is told to. Its
// image needs nothing of a registry.
package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// version is written by the linker.
var version = "none"

func main() {
	answer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, version)
	})
	server := &http.Server{Addr: ":8080", ReadHeaderTimeout: 10 * time.Second, Handler: answer}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-end
		_ = server.Close() // what is asked at its end gets no answer
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		fmt.Fprintln(os.Stderr, "app:", err)
		os.Exit(1)
	}
}
