package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

// usage is what a process has used so far.
type usage struct {
	cpu float64 // seconds, user and system
	rss float64 // MiB now
}

// ticks per second of the times in /proc: the same on every Linux.
const ticks = 100

// readUsage reads /proc/<pid>.
func readUsage(pid int) (usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return usage{}, err
	}
	// The second field is the name in brackets and may hold blanks; utime and stime are fields 14 and 15, rss is 24.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 22 {
		return usage{}, fmt.Errorf("/proc/%d/stat has %d fields after the name", pid, len(fields))
	}
	var numbers [3]float64
	for i, field := range []int{14, 15, 24} {
		if numbers[i], err = strconv.ParseFloat(fields[field-3], 64); err != nil {
			return usage{}, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
	}
	return usage{
		cpu: (numbers[0] + numbers[1]) / ticks,
		rss: numbers[2] * float64(os.Getpagesize()) / (1 << 20),
	}, nil
}

// meters are processes to watch, by the name under which they are reported; processes of one name are summed.
type meters map[string][]int

// reading is the usage of each meter at one moment.
type reading map[string]usage

func (m meters) read() (reading, error) {
	r := reading{}
	for name, pids := range m {
		var sum usage
		for _, pid := range pids {
			u, err := readUsage(pid)
			if err != nil {
				return nil, fmt.Errorf("usage of %s: %w", name, err)
			}
			sum.cpu += u.cpu
			sum.rss += u.rss
		}
		r[name] = sum
	}
	return r, nil
}

// since reports the CPU time that each meter used since before, and its memory now.
func (r reading) since(before reading, add func(what, unit string, value float64)) {
	names := slices.Sorted(maps.Keys(r))
	for _, name := range names {
		add(name, "s", r[name].cpu-before[name].cpu)
	}
	for _, name := range names {
		add(name, "MiB", r[name].rss)
	}
}

// componentPid returns the process id of a component of a cluster's control plane.
func componentPid(c *fleet.Cluster, component string) (int, error) {
	data, err := os.ReadFile(filepath.Join(filepath.Dir(c.LogDir()), "pids", component+".pid"))
	if err != nil {
		return 0, fmt.Errorf("find %s of %s: %w", component, c.Name, err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return 0, fmt.Errorf("find %s of %s: %w", component, c.Name, err)
	}
	return pid, nil
}
