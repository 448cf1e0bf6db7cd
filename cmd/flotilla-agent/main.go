// Command flotilla-agent runs in a member cluster: the workload controllers, and with --hub-kubeconfig the link to the
// hub. Without a hub it is the workload manager of one cluster.
package main

import (
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"

	_ "github.com/flotilla-dev/flotilla/cmd/internal/roots" // its image has no certificates of authorities
)

func main() {
	ctx := ctrl.SetupSignalHandler()
	go paceCollection(ctx)
	if err := newCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "flotilla-agent:", err)
		os.Exit(1)
	}
}
