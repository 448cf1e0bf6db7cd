package try

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/flotilla-dev/flotilla/apis/crds"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

// members are the clusters of the try-out: zones b and c are each in two of them.
func members() []fleet.ClusterSpec {
	const nodesPerZone = 2
	spec := func(name, region string, zones ...string) fleet.ClusterSpec {
		return fleet.ClusterSpec{Name: name, Nodes: fleet.Nodes(name, region, zones, nodesPerZone)}
	}
	return []fleet.ClusterSpec{
		spec("east", "sunrise", "a", "b"),
		spec("west", "sunset", "b", "c"),
		spec("south", "noon", "c", "d"),
	}
}

// up starts everything, or repairs what is there.
func (o *options) up(cmd *cobra.Command) error {
	if o.output != "text" && o.output != "json" {
		return fmt.Errorf("output %q: it can be text or json", o.output)
	}
	return o.locked("up", func() error { return o.upLocked(cmd) })
}

func (o *options) upLocked(cmd *cobra.Command) error {
	ctx, cancel := context.WithTimeoutCause(
		cmd.Context(),
		o.timeout,
		fmt.Errorf("not done within --timeout %s: %w", o.timeout, context.DeadlineExceeded),
	)
	defer cancel()
	t := &talk{out: cmd.ErrOrStderr(), began: time.Now()}
	f, err := o.bringUp(ctx, t)
	if err != nil {
		return o.explain(ctx, err)
	}
	samples, err := o.readSamples()
	if err != nil {
		return err
	}
	tree, err := waitSettled(ctx, f, t, samples)
	if tree != nil {
		if printErr := o.print(cmd, tree); printErr != nil {
			return printErr
		}
	}
	if err != nil {
		return o.explain(ctx, err)
	}
	if o.output == "text" {
		fmt.Fprint(cmd.OutOrStdout(), o.nextSteps(f))
	}
	return nil
}

// explain adds to an error of up what to do now.
func (o *options) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = fmt.Errorf("%w (%w)", context.Cause(ctx), err)
	}
	dir, dirErr := o.folder()
	if dirErr != nil {
		return err
	}
	if _, statErr := os.Stat(dir); statErr != nil {
		return err // nothing is left behind
	}
	return fmt.Errorf("%w\nWhat was started is left as it is, its logs are in %s. Go on with: %s; start anew with: %s",
		err, shortPath(filepath.Join(dir, "logs")), o.self("up"), o.self("down"))
}

func (o *options) bringUp(ctx context.Context, t *talk) (*fleet.Fleet, error) {
	programs, err := o.findPrograms()
	if err != nil {
		return nil, err
	}
	all, err := o.readSamples()
	if err != nil {
		return nil, err
	}
	f, err := o.clusters(ctx, t)
	if err != nil {
		return nil, err
	}
	t.say("installing the CRDs in all clusters")
	err = everywhere(f.Clusters(), func(c *fleet.Cluster) error {
		if err := c.InstallCRDs(ctx, crds.FS); err != nil {
			return err
		}
		if err := c.InstallProtection(ctx); err != nil {
			return err
		}
		return c.InstallWarnings(ctx, c == f.Hub())
	})
	if err != nil {
		return nil, err
	}
	if err := stopOutdated(ctx, f, programs, t); err != nil {
		return nil, err
	}
	t.say("starting %s and an agent for each member", fleet.HubProgram)
	// Its Lease says whether it runs.
	if err := f.RunHub(ctx, programs, "--leader-elect"); err != nil {
		return nil, err
	}
	err = everywhere(f.Members(), func(c *fleet.Cluster) error {
		if err := f.Accept(ctx, c.Name); err != nil {
			return err
		}
		return f.RunAgent(ctx, programs, c)
	})
	if err != nil {
		return nil, err
	}
	if err := waitMembers(ctx, f, t); err != nil {
		return nil, err
	}
	return f, applySamples(ctx, f, all, t)
}

// clusters returns the running clusters: those that are there, started where they are not, else new ones.
func (o *options) clusters(ctx context.Context, t *talk) (*fleet.Fleet, error) {
	dir, err := o.folder()
	if err != nil {
		return nil, err
	}
	f, err := fleet.Open(dir)
	if err == nil {
		t.say("found the clusters in %s", shortPath(dir))
		return f, everywhere(f.Clusters(), func(c *fleet.Cluster) error {
			if c.Whole(ctx) == nil {
				return nil
			}
			t.say("%s does not run, starting it again", c.Name)
			return c.Start(ctx)
		})
	}
	if _, statErr := os.Stat(filepath.Join(dir, "fleet.json")); statErr == nil {
		t.say("the clusters in %s are not complete, making them anew", shortPath(dir))
		if err := fleet.Remove(dir); err != nil {
			return nil, err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	bin, err := o.findControlPlane(dir)
	if err != nil {
		return nil, err
	}
	specs := members()
	t.say("starting %d control planes in %s", len(specs)+1, shortPath(dir))
	return fleet.Start(ctx, fleet.Config{
		Bin: bin, Dir: dir, Members: specs, Detached: !o.owned, Audit: true,
		Progress: func(step string) { t.say("%s", step) },
	})
}

// everywhere runs do for all clusters at once.
func everywhere(clusters []*fleet.Cluster, do func(*fleet.Cluster) error) error {
	var group errgroup.Group
	for _, c := range clusters {
		group.Go(func() error { return do(c) })
	}
	return group.Wait()
}

// stopOutdated stops those of our programs whose file was built after they were started.
func stopOutdated(ctx context.Context, f *fleet.Fleet, programs string, t *talk) error {
	for _, name := range f.Programs() {
		file := fleet.HubProgram
		if strings.HasPrefix(name, fleet.AgentProgram) {
			file = fleet.AgentProgram
		}
		built, err := os.Stat(filepath.Join(programs, file))
		if err != nil {
			return fmt.Errorf("look at %s: %w", file, err)
		}
		started, running := f.StartedAt(name)
		if !running || started.After(built.ModTime()) {
			continue
		}
		t.say("%s is newer than the running %s, which is stopped", file, name)
		if err := f.Quit(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// findPrograms returns the folder with our programs.
func (o *options) findPrograms() (string, error) {
	dir := o.programs
	if dir == "" {
		self, err := os.Executable()
		if err != nil {
			return "", fmt.Errorf("find %s: %w; name its folder with --programs", fleet.HubProgram, err)
		}
		dir = filepath.Dir(self)
	}
	for _, name := range []string{fleet.HubProgram, fleet.AgentProgram} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return "", fmt.Errorf(
				"folder %s has no %s; build it with `make programs`, or name its folder with --programs",
				dir,
				name,
			)
		}
	}
	return filepath.Abs(dir)
}

// findControlPlane returns a folder with the control-plane programs.
func (o *options) findControlPlane(dir string) (string, error) {
	if o.bin != "" {
		return o.bin, fleet.CheckBinaries(o.bin)
	}
	if env := os.Getenv("FLOTILLA_BIN"); env != "" {
		return env, fleet.CheckBinaries(env)
	}
	if self, err := os.Executable(); err == nil && fleet.CheckBinaries(filepath.Dir(self)) == nil {
		return filepath.Dir(self), nil
	}
	bin, err := fleet.LinkBinaries(linked(dir))
	if err != nil {
		return "", fmt.Errorf("%w; in a checkout `make setup` builds them into .bin: name a folder with --bin", err)
	}
	return bin, nil
}

// nextSteps returns commands to go on with, that work as they stand.
func (o *options) nextSteps(f *fleet.Fleet) string {
	kubectl := shortPath(filepath.Join(f.Bin(), "kubectl"))
	return fmt.Sprintf(`
It runs on. Try next:

  export KUBECONFIG=%[1]s

  # The workloads, where they are placed, and the members.
  %[2]s get ud,clone,wp,mc -A

  # More pods; nothing that runs moves.
  %[2]s -n shop scale ud/web --replicas=30

  # A new image, in place, for half of the pods of all members together.
  %[2]s -n shop patch clone/api --type=json -p '[
    {"op":"replace","path":"/spec/template/spec/containers/0/image","value":"httpd:2.4.63"},
    {"op":"replace","path":"/spec/updateStrategy/rollingUpdate/partition","value":"50%%"}]'

  # The pods of one member.
  %[2]s --kubeconfig %[3]s -n shop get pods -o wide

  # What runs where, again; stop a member; end and remove it all.
  %[4]s
  %[5]s
  %[6]s
`, quoted(f.Hub().Kubeconfig()), kubectl, shortPath(f.Members()[0].Kubeconfig()),
		o.self("status"), o.self("stop "+f.Members()[1].Name), o.self("down"))
}
