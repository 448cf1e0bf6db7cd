package try

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"
)

// holdLock names the folder that a copy of this test program is to lock until it is killed.
const holdLock = "FLOTILLA_TEST_HOLD_LOCK"

func TestMain(m *testing.M) {
	if dir := os.Getenv(holdLock); dir != "" {
		if _, err := takeLock(dir, "up"); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("locked")
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n') // until the test ends
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestLockOfAnotherProcess holds that a second process names the first one and starts nothing, and that the lock ends
// with its process, however that ends.
func TestLockOfAnotherProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "try")
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), holdLock+"="+dir)
	if _, err := other.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	ended := sync.OnceFunc(func() { _ = other.Process.Kill(); _ = other.Wait() })
	t.Cleanup(ended)
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "locked\n" {
		t.Fatalf("the other process says %q, %v", line, err)
	}

	o := &options{dir: dir, output: "text"}
	want := fmt.Sprintf("flotilla try up (process %d) is at work on %s", other.Process.Pid, dir)
	for verb, args := range map[string][]string{"up": nil, "down": nil, "stop": {"west"}, "start": {"west"}} {
		command := NewCommand()
		command.SetArgs(append([]string{verb, "--dir", dir}, args...))
		command.SetOut(&strings.Builder{})
		command.SetErr(&strings.Builder{})
		command.SilenceUsage, command.SilenceErrors = true, true
		if err := command.ExecuteContext(t.Context()); err == nil || !strings.HasPrefix(err.Error(), want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want one sentence that begins with %q", verb, err, want)
		}
	}
	ended()
	cmd, said := &cobra.Command{}, &strings.Builder{}
	cmd.SetOut(said)
	if err := o.down(cmd); err != nil || !strings.Contains(said.String(), "nothing runs") {
		t.Errorf("down after the other process was killed: %v, %s", err, said)
	}
	if left, _ := os.ReadDir(filepath.Dir(dir)); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

// TestLockIsHeldByOneAtATime takes and releases the lock from many sides; its file goes and comes meanwhile.
func TestLockIsHeldByOneAtATime(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "try")
	var holders, most, taken int
	var mu sync.Mutex
	count := func(by int) {
		mu.Lock()
		defer mu.Unlock()
		if holders += by; by > 0 {
			taken++
		}
		most = max(most, holders)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				l, err := takeLock(dir, "up")
				if err != nil {
					if !strings.Contains(err.Error(), "is at work on") {
						t.Error(err)
					}
					continue
				}
				count(1)
				count(-1)
				if err := l.release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if most != 1 || taken == 0 {
		t.Errorf("%d held it at once, %d times in all", most, taken)
	}
}
