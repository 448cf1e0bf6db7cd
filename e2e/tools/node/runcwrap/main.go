// Command runcwrap runs runc where a machine has not every capability. Docker's --privileged asks for all of them, and
// runc fails for one that the machine cannot give. runcwrap takes what is outside its own bounding set out of what a
// container asks for. Where nothing is missing it is runc.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const (
	// resource is the capability that virtual machines for tests lack, and the number of its bit in /proc/self/status.
	resource    = "CAP_SYS_RESOURCE"
	resourceBit = 24
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "runcwrap:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	program := os.Getenv("FLOTILLA_RUNC")
	if program == "" {
		program = "/usr/sbin/runc"
	}
	missing, err := lacks()
	if err != nil {
		return err
	}
	if missing {
		if err := ease(args); err != nil {
			return err
		}
	}
	if err := syscall.Exec(program, append([]string{program}, args...), os.Environ()); err != nil {
		return fmt.Errorf("run %s: %w", program, err)
	}
	return nil
}

// lacks tells whether this machine cannot give the capability.
func lacks() (bool, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false, fmt.Errorf("read the own capabilities: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		if hex, found := strings.CutPrefix(line, "CapBnd:"); found {
			set, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
			if err != nil {
				return false, fmt.Errorf("read the own capabilities: %w", err)
			}
			return set&(1<<resourceBit) == 0, nil
		}
	}
	return false, nil
}

// ease changes the file that says what a new process may: that of the container for create and run, that of the process
// for exec.
func ease(args []string) error {
	if slices.Contains(args, "exec") {
		file := option(args, "--process", "-p")
		if file == "" {
			return nil // what may be done is said by runc's own flags
		}
		return rewrite(file, func(spec map[string]any) map[string]any { return spec })
	}
	if slices.Contains(args, "create") || slices.Contains(args, "run") {
		file := filepath.Join(option(args, "--bundle", "-b"), "config.json")
		return rewrite(file, func(spec map[string]any) map[string]any {
			process, _ := spec["process"].(map[string]any)
			return process
		})
	}
	return nil
}

// option returns the value of an option, under either of its names.
func option(args []string, names ...string) string {
	for i, arg := range args {
		for _, name := range names {
			if value, found := strings.CutPrefix(arg, name+"="); found {
				return value
			}
			if arg == name && i+1 < len(args) {
				return args[i+1]
			}
		}
	}
	return ""
}

func rewrite(file string, process func(spec map[string]any) map[string]any) error {
	data, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil // runc says it better
	}
	if err != nil {
		return fmt.Errorf("read what the container asks for: %w", err)
	}
	var spec map[string]any
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber() // limits are larger than a float holds
	if err := decoder.Decode(&spec); err != nil {
		return fmt.Errorf("read what the container asks for in %s: %w", file, err)
	}
	sets, _ := process(spec)["capabilities"].(map[string]any)
	for name, set := range sets {
		if all, is := set.([]any); is {
			sets[name] = slices.DeleteFunc(all, func(c any) bool { return c == resource })
		}
	}
	if data, err = json.Marshal(spec); err != nil {
		return fmt.Errorf("write what the container asks for: %w", err)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return fmt.Errorf("write what the container asks for: %w", err)
	}
	return nil
}
