package harness

import (
	"context"
	"io/fs"

	"github.com/flotilla-dev/flotilla/apis/crds"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

// Earlier is an earlier version of Flotilla.
type Earlier struct {
	// Definitions has its CustomResourceDefinitions as files *.yaml.
	Definitions fs.FS
	// Programs is the folder with its hub and its agent.
	Programs string
}

// runEarlier starts the hub and the agents of an earlier version, with no flags but those that every version has.
func (h *Harness) runEarlier(ctx context.Context, earlier *Earlier) error {
	if err := h.Fleet.RunHub(ctx, earlier.Programs); err != nil {
		return err
	}
	for _, member := range h.Fleet.Members() {
		if err := h.Fleet.Accept(ctx, member.Name); err != nil {
			return err
		}
		if err := h.Fleet.RunAgent(ctx, earlier.Programs, member); err != nil {
			return err
		}
	}
	return h.Fleet.WaitMembersReady(ctx, Patience)
}

// UpgradeDefinitions gives a cluster the definitions and policies of this version, as the chart flotilla-crds and those
// of the programs do.
func (h *Harness) UpgradeDefinitions(ctx context.Context, c *Cluster) error {
	if err := c.InstallCRDs(ctx, crds.FS); err != nil {
		return err
	}
	if err := c.InstallProtection(ctx); err != nil {
		return err
	}
	return c.InstallWarnings(ctx, c == h.Hub)
}

// UpgradeHub ends the hub of an earlier version, starts that of this one, and returns when all members are Ready.
func (h *Harness) UpgradeHub(ctx context.Context) error {
	if err := h.Fleet.Quit(ctx, fleet.HubProgram); err != nil {
		return err
	}
	if err := h.Fleet.RunHub(ctx, h.programs, hubFlags()...); err != nil {
		return err
	}
	return h.Fleet.WaitMembersReady(ctx, Patience)
}

// UpgradeAgent is UpgradeHub for the agent of a member.
func (h *Harness) UpgradeAgent(ctx context.Context, member string) error {
	if err := h.Fleet.Quit(ctx, fleet.AgentName(member)); err != nil {
		return err
	}
	if err := h.Fleet.RunAgent(ctx, h.programs, h.Fleet.Member(member), agentFlags()...); err != nil {
		return err
	}
	return h.Fleet.WaitMembersReady(ctx, Patience)
}
