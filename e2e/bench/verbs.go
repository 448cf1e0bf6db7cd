package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// planned is for how many workloads plan is asked; shown and shownPods are what tree shows.
	planned          = 1000
	shown, shownPods = 1000, 10
	// asked is how often a verb is asked; the median counts.
	asked = 3
	// cli is the command line.
	cli = "flotilla"
)

// planSection asks `flotilla plan` for 1 000 workloads on three members: the whole process, without any cluster.
func planSection(ctx context.Context, b *bench) error {
	dir, err := os.MkdirTemp("", "flotilla-bench-plan-")
	if err != nil {
		return fmt.Errorf("make a folder for what is planned: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is below the folder for temporary files
	var members, workloads strings.Builder
	for i, name := range []string{"east", "south", "west"} {
		fmt.Fprintf(
			&members,
			"apiVersion: topology.flotilla.dev/v1alpha1\nkind: MemberCluster\nmetadata: {name: %s}\nspec: {accepted: true}\n"+
				"status: {zones: [{name: a%d, nodes: 9, ready: 9}, {name: b%d, nodes: 9, ready: 9}]}\n---\n",
			name,
			i,
			i,
		)
	}
	members.WriteString(
		"apiVersion: topology.flotilla.dev/v1alpha1\nkind: ClusterFederationPolicy\nmetadata: {name: everywhere}\nspec: " +
			"{workloads: [{kind: CloneSet}]}\n",
	)
	for i := range planned {
		fmt.Fprintf(
			&workloads,
			"apiVersion: apps.kruise.io/v1beta1\nkind: CloneSet\nmetadata: {name: web-%d, namespace: bench}\nspec:\n  "+
				"replicas: %d\n  selector: {matchLabels: {app: web-%[1]d}}\n"+
				"  template:\n    metadata: {labels: {app: web-%[1]d}}\n    spec: {containers: [{name: main, image: "+
				"web:1}]}\n---\n",
			i,
			10+i%90,
		)
	}
	fleetFile, file := filepath.Join(dir, "fleet.yaml"), filepath.Join(dir, "workloads.yaml")
	for name, text := range map[string]string{fleetFile: members.String(), file: workloads.String()} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return fmt.Errorf("write what is planned: %w", err)
		}
	}
	took, out, err := b.ask(ctx, "", "plan", "--members", fleetFile, "-f", file)
	if err != nil {
		return err
	}
	if n := bytes.Count(out, []byte("CloneSet bench/web-")); n < planned {
		return fmt.Errorf("plan tells of %d workloads, not of %d", n, planned)
	}
	b.report.add("command line", fmt.Sprintf("plan of %d workloads, the whole process", planned), "s", took.Seconds())
	return nil
}

// treeSection asks `flotilla tree` for 1 000 workloads with 10 000 pods on a hub whose three members are simulated.
func treeSection(ctx context.Context, b *bench) error {
	filled := *b
	filled.fan, filled.replicas, filled.treeOnly = shown, shownPods, true
	return simulate(ctx, &filled, perGroup)
}

// tree asks for the tree of all that stands on the hub.
func (s *simulation) tree(ctx context.Context) error {
	took, out, err := s.ask(ctx, s.hub.cluster.Kubeconfig(), "tree", "-A", "-o", "json")
	if err != nil {
		return err
	}
	if n := bytes.Count(out, []byte(`"kind": "CloneSet"`)); n < s.fan {
		return fmt.Errorf("tree tells of %d workloads, not of %d", n, s.fan)
	}
	s.report.add(
		"command line",
		fmt.Sprintf("tree of %d workloads with %d pods, the whole process", s.fan, s.fan*s.replicas),
		"s",
		took.Seconds(),
	)
	return nil
}

// ask runs a verb of the command line a few times, and returns the median of how long it took, and what it printed
// last.
func (b *bench) ask(
	ctx context.Context,
	kubeconfig string,
	args ...string,
) (took time.Duration, out []byte, err error) {
	var all []time.Duration
	for range asked {
		cmd := exec.CommandContext(ctx, filepath.Join(b.ours, cli), args...)
		var problems bytes.Buffer
		cmd.Env, cmd.Stderr = append(os.Environ(), "KUBECONFIG="+kubeconfig), &problems
		began := time.Now()
		if out, err = cmd.Output(); err != nil {
			return 0, nil, fmt.Errorf("%s %s: %w: %s", cli, args[0], err, problems.String())
		}
		all = append(all, time.Since(began))
	}
	slices.Sort(all)
	return all[len(all)/2], out, nil
}
