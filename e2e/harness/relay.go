package harness

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/flotilla-dev/flotilla/e2e/faultproxy"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

// Relay lets the agent of a member dial the hub through a proxy from now on, which can cut the two off from one another
// while both run. The agent is restarted for that. The returned function undoes it, and waits until the member is Ready
// over its own link.
func (h *Harness) Relay(ctx context.Context, member string) (relay *faultproxy.Proxy,
	undo func(context.Context) error, err error) {
	path, err := h.Fleet.MemberIdentity(ctx, member)
	if err != nil {
		return nil, nil, err
	}
	direct, err := os.ReadFile(path) //nolint:gosec // a path of the fleet's own
	if err != nil {
		return nil, nil, fmt.Errorf("read the kubeconfig of %s: %w", member, err)
	}
	relay, err = faultproxy.Open(ctx, fleet.AgentName(member)+" to hub", path, faultproxy.Options{})
	if err != nil {
		return nil, nil, err
	}
	return relay, func(ctx context.Context) error {
		err := os.WriteFile(path, direct, 0o600)
		if err == nil {
			err = h.again(ctx, member)
		}
		if err = errors.Join(err, relay.Close()); err != nil {
			return fmt.Errorf("let the agent of %s dial the hub itself: %w", member, err)
		}
		return h.Fleet.WaitMembersReady(ctx, Patience)
	}, h.again(ctx, member)
}

// again restarts the agent of a member, so that it reads its kubeconfig anew.
func (h *Harness) again(ctx context.Context, member string) error {
	name := fleet.AgentName(member)
	if err := h.Fleet.Kill(ctx, name); err != nil {
		return err
	}
	if err := h.Fleet.Restart(name); err != nil {
		return err
	}
	return h.Fleet.WaitReady(ctx, name)
}
