package try

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// lock keeps other processes from changing the clusters of one folder.
type lock struct{ file *os.File }

// takeLock locks the clusters in dir for a verb of try, until release; the system drops the lock with the process. Its
// file lies beside dir, since `down` removes dir itself.
//
// It does not wait for another process: `up` may take minutes, and a person who typed it twice, or `down` too early, is
// better told than held. The error names that process.
func takeLock(dir, verb string) (*lock, error) {
	path := dir + ".lock"
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	for {
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, fmt.Errorf("lock %s: %w", dir, err)
		}
		if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			if errors.Is(err, syscall.EWOULDBLOCK) {
				err = fmt.Errorf(
					"%s is at work on %s; wait until it is done, or end it, and try again",
					holder(file),
					shortPath(dir),
				)
			} else {
				err = fmt.Errorf("lock %s: %w", dir, err)
			}
			return nil, errors.Join(err, file.Close())
		}
		if !stands(file, path) {
			// Who held it has removed it in between: what is locked here has no name any more.
			if err := file.Close(); err != nil {
				return nil, fmt.Errorf("lock %s: %w", dir, err)
			}
			continue
		}
		err = file.Truncate(0) // a process that was killed leaves its name
		if err == nil {
			_, err = fmt.Fprintf(file, "flotilla try %s (process %d)", verb, os.Getpid())
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), file.Close())
		}
		return &lock{file}, nil
	}
}

// holder is who holds the lock, as its file says; it says nothing for a moment after it was locked.
func holder(file *os.File) string {
	const longest = 100 // "flotilla try start (process 4194304)" and some room
	text, err := io.ReadAll(io.LimitReader(file, longest))
	if err != nil || len(text) == 0 {
		return "another flotilla try"
	}
	return string(text)
}

// stands tells whether path still names the file.
func stands(file *os.File, path string) bool {
	mine, err := file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(path)
	return err == nil && os.SameFile(mine, named)
}

// release removes the file, while it is locked still, and unlocks it.
func (l *lock) release() error {
	if err := errors.Join(os.Remove(l.file.Name()), l.file.Close()); err != nil {
		return fmt.Errorf("unlock: %w", err)
	}
	return nil
}

// locked runs do while no other process changes the clusters.
func (o *options) locked(verb string, do func() error) error {
	dir, err := o.folder()
	if err != nil {
		return err
	}
	l, err := takeLock(dir, verb)
	if err != nil {
		return err
	}
	return errors.Join(do(), l.release())
}
