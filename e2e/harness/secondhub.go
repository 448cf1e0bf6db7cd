package harness

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

// RunHubOn runs the hub program of this harness on a member of a harness that is Alone: that cluster is a hub, too,
// until the program is forgotten.
func (h *Harness) RunHubOn(ctx context.Context, alone *Harness, member string) error {
	return alone.Fleet.RunHubOn(ctx, h.programs, alone.Fleet.Member(member))
}

// RunAgentFor runs one more agent on a member of this harness, for a hub that RunHubOn made; program is its name in
// this harness's fleet. Of the agents of a cluster one leads.
func (h *Harness) RunAgentFor(ctx context.Context, hub *Cluster, program, member string) error {
	own, err := h.Fleet.AgentIdentity(ctx, h.Fleet.Member(member))
	if err != nil {
		return err
	}
	remote, err := hub.MemberIdentity(ctx, member)
	if err != nil {
		return err
	}
	ports, err := h.Fleet.FreePorts(2)
	if err != nil {
		return err
	}
	err = h.Fleet.Run(fleet.Program{Name: program, Path: filepath.Join(h.programs, fleet.AgentProgram), Args: []string{
		"--kubeconfig=" + own, "--hub-kubeconfig=" + remote, "--cluster-name=" + member, "--leader-elect=true",
		fmt.Sprintf("--metrics-bind-address=127.0.0.1:%d", ports[0]),
		fmt.Sprintf("--health-probe-bind-address=127.0.0.1:%d", ports[1]),
		"--webhook-bind-address=0", // the other one serves the member
	}})
	if err != nil {
		return err
	}
	return h.Fleet.WaitReady(ctx, program)
}

// Elected starts the agent of a member anew as one of several, of which one leads. The returned function starts it as
// before.
func (h *Harness) Elected(ctx context.Context, member string) (undo func(context.Context) error, err error) {
	return h.Fleet.Change(ctx, fleet.AgentName(member), func(p *fleet.Program) {
		p.Args = append(p.Args, "--leader-elect=true") // of two flags the last one holds
	})
}
