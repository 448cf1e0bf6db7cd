package harness

import "context"

// RunApprover starts the program that gives members their certificates and rights.
func (h *Harness) RunApprover(ctx context.Context) error { return h.Fleet.RunApprover(ctx, h.programs) }

// RunJoinedOn runs the agent of this harness on a member of a harness that is Alone, by the Secret that flotilla join
// wrote there.
func (h *Harness) RunJoinedOn(ctx context.Context, alone *Harness, member string) error {
	return alone.Fleet.RunJoined(ctx, h.programs, alone.Fleet.Member(member))
}
