package fleet

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// lockFile in a fleet's folder is locked as long as the fleet's owner lives; the system drops the lock with it.
const lockFile = "owner.lock"

//go:embed watchdog.sh
var watchdog string

// owner ties a fleet to this process: a lock that tells the living from the dead, and a watchdog, a shell of its own
// session that waits for the end of a pipe whose other end only this process holds.
type owner struct {
	lock *os.File
	pipe io.Closer
	dog  *exec.Cmd
}

func own(dir string) (*owner, error) {
	// It gets its name when it is locked: Reap must never see it unlocked while the owner lives.
	path := filepath.Join(dir, lockFile)
	lock, err := os.OpenFile(path+".new", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		err = os.Rename(lock.Name(), path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), lock.Close())
	}
	script := filepath.Join(dir, "watchdog.sh")
	if err := os.WriteFile(script, []byte(watchdog), 0o600); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	dog := exec.Command("/bin/sh", script, dir)
	dog.SysProcAttr = ownSession() // an interrupt typed at the terminal must not reach it
	pipe, err := dog.StdinPipe()
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	if err := dog.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the watchdog: %w", err), lock.Close())
	}
	return &owner{lock: lock, pipe: pipe, dog: dog}, nil
}

// release lets the watchdog end; it finds nothing left to do after destroyDir.
func (o *owner) release() {
	_ = o.pipe.Close()
	_ = o.dog.Wait()
	_ = o.lock.Close()
}

// Reap removes the fleets below Root whose owner is dead, which a watchdog that was killed too left behind.
// Detached fleets and fleets in folders of their own are not touched.
func Reap() error {
	dirs, err := filepath.Glob(filepath.Join(Root(), "fleet-*"))
	if err != nil {
		return fmt.Errorf("reap fleets: %w", err)
	}
	var errs []error
	for _, dir := range dirs {
		lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR, 0)
		if err != nil {
			continue // not yet locked, or detached
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			errs = append(errs, destroyDir(dir))
		}
		_ = lock.Close()
	}
	return errors.Join(errs...)
}

func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
