// Command pause is the first process of a pod: it keeps the pod's namespaces until it is told to end, and buries
// processes that lost their parent.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	dead := make(chan os.Signal, 1)
	signal.Notify(dead, syscall.SIGCHLD)
	for {
		select {
		case <-end:
			return
		case <-dead:
			bury()
		}
	}
}

// bury takes the exit of every process that has ended: several of them may be behind one signal.
func bury() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if pid <= 0 || err != nil {
			return
		}
	}
}
