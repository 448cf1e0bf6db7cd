package main

import (
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/images"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/meta"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/probes"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/restarts"
)

// parts is the one list of what the daemon does.
// parts returns what the daemon does. A node whose name is no value of a label gets no restarts: requests name their
// node in a label, so that there are none for it.
func parts(f *flags, log logr.Logger) []nodedaemon.Part {
	all := []nodedaemon.Part{
		images.Part(f.pullWorkers, metrics.Registry),
		meta.Part(),
		probes.Part(),
	}
	if wrong := validation.IsValidLabelValue(f.node); len(wrong) > 0 {
		log.Info("no ContainerRecreateRequest can be served here: the name of the node is no value of a label",
			"node", f.node, "reason", strings.Join(wrong, ", "))
		return all
	}
	return append(all, restarts.Part())
}
