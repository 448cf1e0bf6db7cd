package main

import (
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/restarts"
)

// parts is the one list of what the daemon does.
func parts() []nodedaemon.Part {
	return []nodedaemon.Part{restarts.Part()}
}
