package fleet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// TB is what ForTest needs of a *testing.T, *testing.B or ginkgo's GinkgoTB.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
	Failed() bool
	Context() context.Context
}

// ForTest starts a fleet that ends with the test, and fails the test if it cannot. Config.Bin may be empty: then
// FindBinaries looks. Logs of a failed test are kept if the environment variable FLOTILLA_KEEP_LOGS names a folder.
func ForTest(t TB, cfg Config) *Fleet {
	t.Helper()
	if cfg.Bin == "" {
		bin, err := FindBinaries()
		if err != nil {
			t.Fatalf("this test needs a real control plane: %v", err)
		}
		cfg.Bin = bin
	}
	if err := Reap(); err != nil {
		t.Logf("remove fleets that were left behind: %v", err)
	}
	if cfg.Progress == nil {
		cfg.Progress = func(step string) { t.Logf("fleet: %s", step) }
	}
	f, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if keep := os.Getenv("FLOTILLA_KEEP_LOGS"); keep != "" && t.Failed() {
			if err := f.copyLogs(keep); err != nil {
				t.Logf("keep logs: %v", err)
			}
		}
		if err := f.Destroy(); err != nil {
			t.Logf("%v", err)
		}
	})
	return f
}

// Eventually returns once problem says nothing any more, and fails the test with its last words after the patience,
// which is to be generous: machines may be busy. what names what is waited for, after is added to the failure, nil for
// nothing.
func Eventually(t TB, patience time.Duration, what string, problem func(ctx context.Context) string,
	after func() string) {
	t.Helper()
	const between = 200 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(between)
	defer tick.Stop()
	for {
		says := problem(ctx)
		if says == "" {
			return
		}
		select {
		case <-ctx.Done():
			if after != nil {
				says += after()
			}
			t.Fatalf("%s: %s", what, says)
		case <-tick.C:
		}
	}
}

// copyLogs copies every log of the fleet into a new folder below to.
func (f *Fleet) copyLogs(to string) error {
	to = filepath.Join(to, filepath.Base(f.Dir))
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, pattern := range []string{"logs/*.log", "clusters/*/logs/*.log"} {
		files, err := filepath.Glob(filepath.Join(f.Dir, pattern))
		if err != nil {
			return err
		}
		for _, file := range files {
			name, err := filepath.Rel(f.Dir, file)
			if err != nil {
				return err
			}
			data, err := os.ReadFile(file)
			if err == nil {
				err = os.WriteFile(filepath.Join(to, strings.ReplaceAll(name, "/", "_")), data, 0o644)
			}
			if err != nil {
				return fmt.Errorf("copy %s: %w", file, err)
			}
		}
	}
	return nil
}
