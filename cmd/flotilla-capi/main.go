// flotilla-capi makes members of the clusters of Cluster API.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	_ "github.com/flotilla-dev/flotilla/cmd/internal/roots" // its image has no certificates of authorities
)

func main() {
	os.Exit(run())
}

// run executes the command line and returns the exit code.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "flotilla-capi:", err)
		return 1
	}
	return 0
}
