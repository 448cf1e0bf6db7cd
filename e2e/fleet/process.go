package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Program is one of our own programs to run beside the clusters.
type Program struct {
	// Name is unique in the fleet; the log is logs/<Name>.log in the fleet's folder.
	Name string
	// Path is the executable file.
	Path string
	// Args are the arguments. One of them must name a file in the fleet's folder, as a kubeconfig of the fleet does:
	// by that the program is known again when the fleet is cleared away.
	Args []string
	// Env are additional KEY=value settings.
	Env []string
}

// children counts the processes that this process started and must collect.
type children struct{ group sync.WaitGroup }

func (c *children) wait() { c.group.Wait() }

// Run starts the program, unless a program with that name runs. It is recorded, so that Restart works also in a later
// process that opened the fleet. It does not wait until the program is ready.
func (f *Fleet) Run(p Program) error {
	if f.Running(p.Name) {
		return nil
	}
	if !slices.ContainsFunc(p.Args, func(arg string) bool { return strings.Contains(arg, f.Dir) }) {
		return fmt.Errorf("start %s: no argument names a file in %s, so nothing could end it", p.Name, f.Dir)
	}
	data, err := json.MarshalIndent(p, "", "  ")
	if err == nil {
		err = os.WriteFile(f.programFile(p.Name), data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	return f.Restart(p.Name)
}

// Restart starts a program again that was stopped, killed or ended by itself, with its former arguments. It does
// nothing if the program runs.
func (f *Fleet) Restart(name string) error {
	if f.Running(name) {
		return nil
	}
	p, err := f.program(name)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(f.LogFile(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	defer log.Close()
	cmd := exec.Command(p.Path, p.Args...)
	cmd.Env = append(os.Environ(), p.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = ownSession()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	ended := make(chan struct{})
	f.children.group.Go(func() {
		_ = cmd.Wait() // collects it; that it ended is seen by Running
		close(ended)
	})
	if err := os.WriteFile(f.pidFile(name), []byte(strconv.Itoa(cmd.Process.Pid)), 0o600); err != nil {
		return errors.Join(fmt.Errorf("start %s: %w", name, err), cmd.Process.Kill())
	}
	return awaitVisible(cmd.Process.Pid, f.Dir, ended)
}

// awaitVisible returns when the process can be known by its command line, which is a moment after it was started, or
// has ended.
func awaitVisible(pid int, dir string, ended <-chan struct{}) error {
	// Microseconds on a quiet machine; 5 s at most.
	patience := wait.Backoff{Duration: time.Millisecond, Factor: 1, Steps: 5000}
	return wait.ExponentialBackoff(patience, func() (bool, error) {
		select {
		case <-ended:
			return true, nil
		default:
			return belongs(pid, dir), nil
		}
	})
}

// Change starts a program anew, in another way than it was started. The returned function starts it as before.
func (f *Fleet) Change(ctx context.Context, name string, change func(*Program)) (undo func(context.Context) error,
	err error) {
	before, err := f.program(name)
	if err != nil {
		return nil, err
	}
	after := before
	after.Args, after.Env = slices.Clone(before.Args), slices.Clone(before.Env)
	change(&after)
	start := func(ctx context.Context, p Program) error {
		if err := f.Kill(ctx, name); err != nil {
			return err
		}
		if err := f.Run(p); err != nil {
			return err
		}
		return f.WaitReady(ctx, name)
	}
	return func(ctx context.Context) error { return start(ctx, before) }, start(ctx, after)
}

// Forget ends a program, and Restart and Programs know it no more.
func (f *Fleet) Forget(ctx context.Context, name string) error {
	if err := f.Kill(ctx, name); err != nil {
		return err
	}
	if err := os.Remove(f.programFile(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget %s: %w", name, err)
	}
	return nil
}

// program returns what Run recorded.
func (f *Fleet) program(name string) (Program, error) {
	var p Program
	data, err := os.ReadFile(f.programFile(name))
	if err == nil {
		err = json.Unmarshal(data, &p)
	}
	if err != nil {
		return p, fmt.Errorf("program %s of fleet %s: %w", name, f.Dir, err)
	}
	return p, nil
}

// Running reports whether the program runs.
func (f *Fleet) Running(name string) bool {
	pid, err := readPid(f.pidFile(name))
	return err == nil && belongs(pid, f.Dir)
}

// Programs returns the names of all programs that were started, also of those that ended, sorted.
func (f *Fleet) Programs() []string {
	files, _ := filepath.Glob(f.programFile("*"))
	for i, file := range files {
		files[i] = strings.TrimSuffix(filepath.Base(file), ".json")
	}
	slices.Sort(files)
	return files
}

// Pid returns the process id of the program, or 0 if it does not run.
func (f *Fleet) Pid(name string) int {
	if !f.Running(name) {
		return 0
	}
	pid, _ := readPid(f.pidFile(name))
	return pid
}

// StartedAt returns when the program was started, and whether it runs.
func (f *Fleet) StartedAt(name string) (time.Time, bool) {
	info, err := os.Stat(f.pidFile(name))
	if err != nil || !f.Running(name) {
		return time.Time{}, false
	}
	return info.ModTime(), true
}

// Quit asks the program to end and returns when it has ended. A program that takes more than 20 s is killed, which is
// an error.
func (f *Fleet) Quit(ctx context.Context, name string) error {
	// Programs of ours give themselves 15 s to end their work.
	const patience = 20 * time.Second
	err := f.signal(ctx, name, syscall.SIGTERM, patience)
	if err == nil {
		return nil
	}
	return errors.Join(fmt.Errorf("stop %s: %w", name, err), f.Kill(ctx, name))
}

// Kill ends the program at once, as a crash does, and returns when it is gone. It is no error if it does not run.
func (f *Fleet) Kill(ctx context.Context, name string) error {
	if err := f.signal(ctx, name, syscall.SIGKILL, 10*time.Second); err != nil {
		return fmt.Errorf("kill %s: %w", name, err)
	}
	return nil
}

// LogFile returns the path of the program's log.
func (f *Fleet) LogFile(name string) string { return filepath.Join(f.Dir, "logs", name+".log") }

// LogTail returns the last n lines of the program's log, for error messages.
func (f *Fleet) LogTail(name string, n int) string {
	data, err := os.ReadFile(f.LogFile(name))
	if err != nil {
		return err.Error()
	}
	return lastLines(string(data), n)
}

// FreePorts returns n loopback ports that are kept for this fleet as long as it exists.
func (f *Fleet) FreePorts(n int) ([]int, error) { return reservePorts(f.Dir, n) }

func (f *Fleet) programFile(name string) string {
	return filepath.Join(f.Dir, "processes", name+".json")
}

func (f *Fleet) pidFile(name string) string { return filepath.Join(f.Dir, "pids", name+".pid") }

func (f *Fleet) signal(ctx context.Context, name string, sig syscall.Signal, patience time.Duration) error {
	pid, err := readPid(f.pidFile(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !belongs(pid, f.Dir) {
		return nil
	}
	if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return waitGone(ctx, []int{pid}, f.Dir, patience)
}

func waitGone(ctx context.Context, pids []int, dir string, patience time.Duration) error {
	return wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		return !slices.ContainsFunc(pids, func(pid int) bool { return belongs(pid, dir) }), nil
	})
}

func readPid(file string) (int, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(data)))
}

// belongs reports whether pid is a living process whose command line names dir. The pid alone may have been given to
// another program.
func belongs(pid int, dir string) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if errors.Is(err, fs.ErrNotExist) {
		if _, noProc := os.Stat("/proc/self"); noProc == nil {
			return false
		}
		// A system without /proc.
		line, err = exec.Command("ps", "-o", "args=", "-p", strconv.Itoa(pid)).Output()
	}
	// A process that ended and was not collected has an empty command line.
	return err == nil && bytes.Contains(line, []byte(dir))
}

// destroyDir kills every process of the fleet in dir, then removes dir.
func destroyDir(dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	// Twice: the first round ends kwokctl, which may have started one more component meanwhile.
	for range 2 {
		if err := killAll(dir); err != nil {
			return fmt.Errorf("end the processes of %s: %w", dir, err)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	return nil
}

func killAll(dir string) error {
	pids, err := pidsOf(dir)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("kill %d: %w", pid, err)
		}
	}
	// Not bound to a caller's context: clearing away must work after that was cancelled. 12 s at most.
	patience := wait.Backoff{Duration: 10 * time.Millisecond, Factor: 1, Steps: 1200}
	err = wait.ExponentialBackoff(patience, func() (bool, error) {
		return !slices.ContainsFunc(pids, func(pid int) bool { return belongs(pid, dir) }), nil
	})
	if err != nil {
		return fmt.Errorf("processes %v do not end: %w", pids, err)
	}
	return nil
}

// pidsOf returns the processes of the fleet in dir: those that its pid files name, and those that run a component from
// its folder, because kwokctl may have been killed before it wrote a pid file.
func pidsOf(dir string) ([]int, error) {
	var pids []int
	for _, pattern := range []string{"pids/*.pid", "clusters/*/pids/*.pid"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if pid, err := readPid(file); err == nil && belongs(pid, dir) {
				pids = append(pids, pid)
			}
		}
	}
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, err
	}
	for _, file := range processes {
		line, err := os.ReadFile(file)
		if err != nil || !bytes.HasPrefix(line, []byte(filepath.Join(dir, "clusters")+"/")) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && !slices.Contains(pids, pid) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
