package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

// cliProgram is the command line of users.
const cliProgram = "flotilla"

// programs returns the folder with the hub and agent programs and the command line: bin where the caller's Makefile has
// just built them there (it sets FLOTILLA_BIN), else they are built into dir, so that nothing old is tested.
func programs(ctx context.Context, bin, dir string) (string, error) {
	if os.Getenv("FLOTILLA_BIN") != "" && haveAll(bin, fleet.HubProgram, fleet.AgentProgram, cliProgram) {
		return bin, nil
	}
	out := filepath.Join(dir, "programs")
	if err := os.MkdirAll(out, 0o700); err != nil {
		return "", fmt.Errorf("build our programs: %w", err)
	}
	const module = "github.com/flotilla-dev/flotilla/cmd/"
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", out+"/", module+fleet.HubProgram,
		module+fleet.AgentProgram, module+cliProgram)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build our programs: %w\n%s", err, output)
	}
	return out, nil
}

func haveAll(dir string, names ...string) bool {
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}
