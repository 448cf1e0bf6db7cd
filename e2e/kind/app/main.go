// Command app is what the pods of e2e/kind run: it says its version at port 8080, at /leader with code 200 only in the
// first pod of a StatefulSet, and at /env the variable TIER. It ends by SIGTERM. Its image needs nothing of a
// registry.
//
//	/program leader   ends with 0 in the first pod of a StatefulSet, else with 1
//	/program version  says the version and ends
package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// version is written by the linker.
var version = "none"

func main() {
	if len(os.Args) > 1 {
		os.Exit(once(os.Args[1]))
	}
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/env":
			fmt.Fprint(w, os.Getenv("TIER"))
			return
		case r.URL.Path == "/leader" && !leads():
			w.WriteHeader(http.StatusServiceUnavailable)
		}
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

// leads reports whether this is the first pod of a StatefulSet.
func leads() bool {
	name, err := os.Hostname()
	return err == nil && strings.HasSuffix(name, "-0")
}

// once runs one command, and returns its exit code.
func once(command string) int {
	if command == "leader" && !leads() {
		return 1
	}
	fmt.Println(version)
	return 0
}
