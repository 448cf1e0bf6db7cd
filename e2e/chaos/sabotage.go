package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

// sabotage switches one rule of the protocol off: in a file of this module, one text stands for another one. No code of
// the programs knows of it.
type sabotage struct{ name, file, text, instead string }

// sabotages are the rules without which the limits do not hold.
func sabotages() []sabotage {
	return []sabotage{
		{
			"lower-before-raise", "topology/lending/lending.go",
			"l.reserved[i] = max(int64(pick(c.Reserved)), l.granted[i])",
			"l.reserved[i] = l.granted[i] // a smaller grant counts as acknowledged",
		},
		{
			"freshness", "member-agent/kernel/freshness/freshness.go",
			"return len(writes) == 0, overdue\n",
			"return true, nil // the cache is believed, whatever it lacks\n",
		},
		{
			"lease-expiry", "member-agent/link/session.go",
			"return l.sessions.fresh(l.config.Clock.Now()) && sequence >= ordered",
			"_ = ordered; return true // what was granted once is granted for ever",
		},
		{
			"unique-ordinals", "topology/ordinals/ordinals.go",
			"	l.Next += Stride\n",
			"	// the next member gets the same ordinals\n",
		},
		{
			"budget-records", "member-agent/kernel/disruption/decide.go",
			"if Available(pod, now) && !recorded(status, pod.Name, now) {",
			"if Available(pod, now) { // what was let go counts as available until it is gone",
		},
		{
			"server-time", "member-agent/kernel/servertime/servertime.go",
			"return c.begun.Add(c.WithTicker.Since(c.begun) + c.shift)",
			"return c.WithTicker.Now() // the clock of the machine is believed, wrong or set",
		},
	}
}

func sabotageNames() (names []string) {
	for _, s := range sabotages() {
		names = append(names, s.name)
	}
	return names
}

// apply returns the source of the file with the rule switched off; the file must have the text once.
func (s sabotage) apply(root string) (string, error) {
	data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(s.file)))
	if err != nil {
		return "", fmt.Errorf("switch %s off: %w", s.name, err)
	}
	if n := strings.Count(string(data), s.text); n != 1 {
		return "", fmt.Errorf("switch %s off: %s has %q %d times, and it must be there once; change package chaos with "+
			"the rule", s.name, s.file, s.text, n)
	}
	return strings.Replace(string(data), s.text, s.instead, 1), nil
}

// buildChanged fills a folder with our programs, whose clocks can be set and with one rule switched off, "" for none,
// and links to the programs of the control plane.
func buildChanged(ctx context.Context, name, dir string) error {
	var changes []sabotage
	if name != "" {
		at := slices.IndexFunc(sabotages(), func(s sabotage) bool { return s.name == name })
		if at < 0 {
			return fmt.Errorf("-sabotage %q: use one of %s", name, strings.Join(sabotageNames(), ", "))
		}
		changes = sabotages()[at : at+1]
	}
	bin, err := fleet.FindBinaries()
	if err != nil {
		return err
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	list, err := overlay(changes, root, dir)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-tags=flotilla_clocks", "-overlay="+
		list, "-o", dir+string(filepath.Separator),
		"./cmd/"+fleet.HubProgram, "./cmd/"+fleet.AgentProgram)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the programs with clocks that can be set, and without %q: %w\n%s", name, err, output)
	}
	entries, err := os.ReadDir(bin)
	if err != nil {
		return fmt.Errorf("link the control-plane programs: %w", err)
	}
	for _, e := range entries {
		link := filepath.Join(dir, e.Name())
		if _, err := os.Lstat(link); err == nil || e.IsDir() {
			continue
		}
		if err := os.Symlink(filepath.Join(bin, e.Name()), link); err != nil {
			return fmt.Errorf("link the control-plane programs: %w", err)
		}
	}
	return nil
}

// overlay writes changed sources into a folder, and returns the path of what tells the compiler of them.
func overlay(changes []sabotage, root, dir string) (string, error) {
	replace := map[string]string{}
	for i, s := range changes {
		source, err := s.apply(root)
		if err != nil {
			return "", err
		}
		changed := filepath.Join(dir, fmt.Sprintf("changed-%d.go.txt", i))
		if err := os.WriteFile(changed, []byte(source), 0o600); err != nil {
			return "", fmt.Errorf("switch %s off: %w", s.name, err)
		}
		replace[filepath.Join(root, filepath.FromSlash(s.file))] = changed
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, data, 0o600); err != nil {
		return "", fmt.Errorf("tell the compiler of changes: %w", err)
	}
	return list, nil
}

// moduleRoot returns the folder of this module: the nearest one upwards with go.mod.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("find the module: no go.mod here or above; run this in the repository")
		}
		dir = parent
	}
}
