// Command flotilla-node runs on the nodes of a member cluster: it does what needs the container runtime's socket, such
// as pulling images before pods need them. It is optional.
package main

import (
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"

	_ "github.com/flotilla-dev/flotilla/cmd/internal/roots" // its image has no certificates of authorities
)

func main() {
	if err := newCommand().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "flotilla-node:", err)
		os.Exit(1)
	}
}
