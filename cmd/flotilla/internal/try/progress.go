package try

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

// talk writes one line per step, with the seconds since the start.
type talk struct {
	mutex sync.Mutex
	out   io.Writer
	began time.Time
}

func (t *talk) say(format string, args ...any) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	fmt.Fprintf(t.out, "[%5.1f s] %s\n", time.Since(t.began).Seconds(), fmt.Sprintf(format, args...))
}

// poll looks until nothing is waited for any more. It says what is waited for: each change, and now and then that it
// still goes on.
func (t *talk) poll(ctx context.Context, look func(ctx context.Context) (waitingFor string, err error)) error {
	const interval, silence = 300 * time.Millisecond, 5 * time.Second
	said, saidAt := "", time.Now()
	err := wait.PollUntilContextCancel(ctx, interval, true, func(ctx context.Context) (bool, error) {
		waitingFor, err := look(ctx)
		if err != nil || waitingFor == "" {
			return err == nil, err
		}
		if waitingFor != said || time.Since(saidAt) > silence {
			said, saidAt = waitingFor, time.Now()
			t.say("waiting: %s", waitingFor)
		}
		return false, nil
	})
	if err != nil && said != "" {
		return fmt.Errorf("%w while waiting: %s", err, said)
	}
	return err
}

// waitMembers waits until the hub sees all members as Ready.
func waitMembers(ctx context.Context, f *fleet.Fleet, t *talk) error {
	return t.poll(ctx, func(ctx context.Context) (string, error) {
		for _, name := range append([]string{fleet.HubProgram}, agentNames(f)...) {
			if !f.Running(name) {
				return "", fmt.Errorf(
					"%s ended; the end of its log (%s):\n%s",
					name,
					shortPath(f.LogFile(name)),
					f.LogTail(name, 5),
				)
			}
		}
		tree, err := readTree(ctx, f)
		if err != nil {
			return "", err
		}
		var waiting []string
		for _, m := range tree.Members {
			if !m.Ready {
				waiting = append(waiting, "member "+m.Name+": "+m.Message)
			}
		}
		return strings.Join(waiting, "; "), nil
	})
}

func agentNames(f *fleet.Fleet) []string {
	var names []string
	for _, m := range f.Members() {
		names = append(names, fleet.AgentName(m.Name))
	}
	return names
}

// waitSettled waits until every workload among the samples is as asked for; what else the user has applied may be as it
// is. It returns the last tree that it saw, also with an error.
func waitSettled(ctx context.Context, f *fleet.Fleet, t *talk, samples []sample) (*Tree, error) {
	mine := map[[3]string]bool{}
	for _, s := range samples {
		mine[[3]string{s.object.GetKind(), s.object.GetNamespace(), s.object.GetName()}] = true
	}
	var tree *Tree
	err := t.poll(ctx, func(ctx context.Context) (string, error) {
		seen, err := readTree(ctx, f)
		if err != nil {
			return "", err
		}
		tree = seen
		var waiting []string
		for i := range tree.Workloads {
			w := &tree.Workloads[i]
			if !mine[[3]string{w.Kind, w.Namespace, w.Name}] {
				continue
			}
			if w.Problem != "" {
				return "", fmt.Errorf("%s %s/%s: %s", w.Kind, w.Namespace, w.Name, w.Problem)
			}
			if w.Waiting != "" {
				waiting = append(waiting, w.Name+" "+w.Waiting)
			}
		}
		return strings.Join(waiting, "; "), nil
	})
	if err != nil {
		return tree, fmt.Errorf(
			"wait until the samples run: %w; logs are in %s",
			err,
			shortPath(filepath.Join(f.Dir, "logs")),
		)
	}
	t.say("all samples run as asked for")
	return tree, nil
}
