package fleet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
