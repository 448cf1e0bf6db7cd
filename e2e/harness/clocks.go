package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

// clockVariable names the file by which a program that was built for that has a wrong clock (cmd/internal/clocks).
const clockVariable = "FLOTILLA_CLOCK_FILE"

// WrongClock starts the agent of a member anew with a clock that is wrong by so much. The returned function starts it
// as before.
func (h *Harness) WrongClock(ctx context.Context, member string, by time.Duration) (undo func(context.Context) error,
	err error) {
	dir := filepath.Join(h.Fleet.Dir, "wrong-clocks")
	path := filepath.Join(dir, fleet.AgentProgram)
	if _, err := os.Stat(path); err != nil {
		// As make builds them, so that only what the tag changes is compiled again.
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-tags=flotilla_clocks", "-o", path,
			"github.com/flotilla-dev/flotilla/cmd/"+fleet.AgentProgram)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if output, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build the agent with a wrong clock: %w\n%s", err, output)
		}
	}
	file := filepath.Join(dir, member)
	if err := os.WriteFile(file, []byte(by.String()), 0o600); err != nil {
		return nil, fmt.Errorf("set the clock of the agent of %s: %w", member, err)
	}
	undo, err = h.Fleet.Change(ctx, fleet.AgentName(member), func(p *fleet.Program) {
		p.Path = path
		p.Env = append(p.Env, clockVariable+"="+file)
	})
	if err != nil && undo != nil {
		err = errors.Join(err, undo(ctx))
	}
	return undo, err
}
