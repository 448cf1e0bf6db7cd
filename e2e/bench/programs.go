package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

// buildPrograms builds hub, agent and command line into a new folder, unless a flag names one. The returned function
// removes it.
func (b *bench) buildPrograms(ctx context.Context) (cleanup func(), err error) {
	if b.programs != "" {
		if b.ours, err = filepath.Abs(b.programs); err != nil {
			return nil, fmt.Errorf("folder of the programs: %w", err)
		}
		return func() {}, nil
	}
	if b.ours, err = os.MkdirTemp("", "flotilla-bench-"); err != nil {
		return nil, fmt.Errorf("make a folder for the programs: %w", err)
	}
	cleanup = func() { _ = os.RemoveAll(b.ours) }
	b.say("building %s, %s and %s", fleet.HubProgram, fleet.AgentProgram, cli)
	const module = "github.com/flotilla-dev/flotilla/cmd/"
	build := exec.CommandContext(
		ctx,
		"go",
		"build",
		"-o",
		b.ours+"/",
		module+fleet.HubProgram,
		module+fleet.AgentProgram,
		module+cli,
	)
	if out, err := build.CombinedOutput(); err != nil {
		cleanup()
		return nil, fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	return cleanup, nil
}

// startHub starts the hub's program with the rights of a hub, and returns its process id.
func (b *bench) startHub(ctx context.Context, f *fleet.Fleet) (int, error) {
	if err := f.RunHub(ctx, b.ours); err != nil {
		return 0, err
	}
	return f.Pid(fleet.HubProgram), nil
}

// startAgent starts the agent of a member with the rights of an agent, and returns its process id. In a fleet without a
// hub it is the workload manager of one cluster.
func (b *bench) startAgent(ctx context.Context, f *fleet.Fleet, member *fleet.Cluster) (int, error) {
	if err := f.RunAgent(ctx, b.ours, member); err != nil {
		return 0, err
	}
	return f.Pid(fleet.AgentName(member.Name)), nil
}

// programLogs names the programs of the fleet that have ended, for the message of a phase that is stuck.
func (b *bench) programLogs(f *fleet.Fleet) string {
	var out strings.Builder
	for _, name := range f.Programs() {
		if !f.Running(name) {
			fmt.Fprintf(&out, "; %s has ended", name)
		}
	}
	return out.String()
}
