package sysdump

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	clientgo "k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/version"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/check"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
)

// errMissing is the error of a dump that is written, and lacks something.
var errMissing = errors.New("the archive lacks what could not be read; its summary.txt says what")

// requestTimeout ends a request to an API server that hangs: the dump goes on with the next.
const requestTimeout = 30 * time.Second

// NewCommand returns the verb.
func NewCommand() *cobra.Command {
	hub, members, file := &console.Hub{}, &console.Members{}, ""
	command := &cobra.Command{
		Use:   "sysdump [-O FILE]",
		Short: "Write into one file what is needed to find out what is wrong",
		Long: `Write into one file what is needed to find out what is wrong: of the hub, and of each member that a context of your kubeconfig
reaches, the objects of Flotilla, workloads and their pods, events, the logs of Flotilla's programs, versions, and what flotilla check says.

No Secret and no ConfigMap is read. Values of environment variables are left out wherever they stand, and so is the data of Secrets and ConfigMaps
that orders carry. Command lines, labels, images, names and logs are in it: look at it before you give it to others. The exit code is 1 if something
could not be read; the archive is written all the same, and says in summary.txt what it lacks.`,
		Example: "  flotilla sysdump --context hub\n  flotilla sysdump -O dump.tar.gz --member-context east=kind-east",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			now := clock.RealClock{}.Now()
			if file == "" {
				file = "flotilla-sysdump-" + now.UTC().Format("20060102-150405") + ".tar.gz"
			}
			out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return fmt.Errorf("make the archive: %w", err)
			}
			d := &dump{hub: hub, members: members, talk: cmd.ErrOrStderr(), now: now}
			missing, err := d.write(
				cmd.Context(),
				out,
				strings.TrimSuffix(strings.TrimSuffix(filepath.Base(file), ".gz"), ".tar"),
			)
			if closed := out.Close(); err == nil && closed != nil {
				err = fmt.Errorf("write the archive: %w", closed)
			}
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), file)
			if missing > 0 {
				return fmt.Errorf("%w: %d parts", errMissing, missing)
			}
			return nil
		},
	}
	hub.AddFlags(command)
	members.AddFlags(command, hub)
	command.Flags().
		StringVarP(&file, "output-file", "O", "", "the file to write; it must not exist. Without it "+
			"flotilla-sysdump-TIME.tar.gz")
	return command
}

// dump is one run of the verb.
type dump struct {
	hub     *console.Hub
	members *console.Members
	talk    io.Writer
	now     time.Time
}

// write reads all clusters and writes the archive. It returns how many parts could not be read.
func (d *dump) write(ctx context.Context, out io.Writer, root string) (int, error) {
	a := newArchive(out, root, d.now)
	hub, names := d.gatherHub(ctx, a)
	for _, name := range names {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		d.gatherMember(ctx, a, hub, name)
	}
	err := a.close(
		fmt.Sprintf(
			"flotilla sysdump of %s\nwritten by flotilla %s\n",
			d.now.UTC().Format(time.RFC3339),
			version.Get().GitVersion,
		),
	)
	return len(a.missing), err
}

// gatherHub reads the hub, and returns its client, nil if there is none, and the members that are to be read.
func (d *dump) gatherHub(ctx context.Context, a *archive) (client.Client, []string) {
	names := d.members.Named()
	cfg, scheme, err := d.hub.Config()
	if err != nil {
		a.lacks("hub", err)
		return nil, names
	}
	cfg.Timeout = requestTimeout
	fmt.Fprintf(d.talk, "Reading the hub at %s\n", cfg.Host)
	c, err := connect(cfg, scheme, "hub", true)
	if err != nil {
		a.lacks("hub", err)
		return nil, names
	}
	if text, err := check.Text(ctx, cfg, scheme); err != nil {
		a.lacks("hub/check.txt", err)
	} else {
		a.add("hub/check.txt", []byte(text))
	}
	c.gather(ctx, a)
	list := &topology.MemberClusterList{}
	if err := c.client.List(ctx, list); err != nil {
		a.lacks("members", err)
	}
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	slices.Sort(names)
	return c.client, slices.Compact(names)
}

// gatherMember reads a member, where a context reaches it.
func (d *dump) gatherMember(ctx context.Context, a *archive, hub client.Client, name string) {
	folder := "members/" + name
	cfg, kubecontext, err := d.members.Config(name)
	if err != nil {
		if slices.Contains(d.members.Named(), name) {
			a.lacks(folder, err)
		} else {
			a.note("%s: not read: %v", folder, err)
			fmt.Fprintf(d.talk, "Not reading member %s: %v\n", name, err)
		}
		return
	}
	cfg.Timeout = requestTimeout
	fmt.Fprintf(d.talk, "Reading member %s at %s\n", name, cfg.Host)
	c, err := connect(cfg, clientgoscheme.Scheme, folder, false)
	if err != nil {
		a.lacks(folder, err)
		return
	}
	if hub != nil {
		if err := console.Verify(ctx, hub, c.client, name, kubecontext, d.talk); err != nil {
			a.lacks(folder, err)
			return
		}
	}
	c.gather(ctx, a)
}

func connect(cfg *rest.Config, scheme *runtime.Scheme, folder string, hub bool) (*cluster, error) {
	core, err := clientgo.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", cfg.Host, err)
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", cfg.Host, err)
	}
	return &cluster{folder: folder, hub: hub, client: console.Paged(c), core: core}, nil
}
