package main

import (
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/images"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/meta"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/probes"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/restarts"
)

// parts is the one list of what the daemon does.
func parts(f *flags) []nodedaemon.Part {
	return []nodedaemon.Part{
		images.Part(f.pullWorkers, metrics.Registry),
		meta.Part(),
		probes.Part(),
		restarts.Part(),
	}
}
