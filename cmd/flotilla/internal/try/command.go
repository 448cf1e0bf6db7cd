package try

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

// options are the flags of all verbs.
type options struct {
	dir      string
	bin      string
	programs string
	samples  string
	output   string
	timeout  time.Duration
	// owned ends the clusters with this process; tests set it.
	owned bool
}

// NewCommand returns the verb try.
func NewCommand() *cobra.Command {
	o := &options{}
	command := &cobra.Command{
		Use:   "try",
		Short: "Try Flotilla: a hub and three members on this machine",
		Long: "try runs a hub and the members east, west and south on this machine: real control planes with simulated\n" +
			"nodes, no containers and no root. `try up` applies samples and shows where their pods run.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	command.PersistentFlags().
		StringVar(&o.dir, "dir", "", "folder of the clusters (default: .try if it is here, else flotilla/try in your cache "+
			"folder)")
	up := verb(
		"up",
		"Start it, or repair what is there, and show what runs where",
		func(cmd *cobra.Command, _ []string) error { return o.up(cmd) },
	)
	up.Flags().
		StringVar(&o.bin, "bin", "", "folder with the control-plane programs (default: $FLOTILLA_BIN, the folder of "+
			"flotilla, or the PATH)")
	up.Flags().
		StringVar(&o.programs, "programs", "", "folder with flotilla-hub and flotilla-agent (default: the folder of "+
			"flotilla)")
	up.Flags().StringVar(&o.samples, "samples", "", "folder with manifests to apply instead of the built-in samples")
	up.Flags().DurationVar(&o.timeout, "timeout", 3*time.Minute, "how long it may take in all")
	status := verb("status", "Show what runs where", func(cmd *cobra.Command, _ []string) error { return o.status(cmd) })
	for _, c := range []*cobra.Command{up, status} {
		c.Flags().StringVarP(&o.output, "output", "o", "text", "text or json")
	}
	stop := &cobra.Command{
		Use: "stop MEMBER", Short: "Stop a member: its control plane and its agent, as a power cut does",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.locked("stop", func() error { return o.stop(cmd, args[0]) })
		},
	}
	start := &cobra.Command{
		Use: "start MEMBER", Short: "Start a stopped member again", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.locked("start", func() error { return o.start(cmd, args[0]) })
		},
	}
	down := verb("down", "End and remove it", func(cmd *cobra.Command, _ []string) error { return o.down(cmd) })
	command.AddCommand(up, status, stop, start, down)
	return command
}

func verb(name, short string, run func(*cobra.Command, []string) error) *cobra.Command {
	return &cobra.Command{Use: name, Short: short, Args: cobra.NoArgs, RunE: run}
}

// folder returns the folder of the clusters as an absolute path.
func (o *options) folder() (string, error) {
	if o.dir != "" {
		return filepath.Abs(o.dir)
	}
	const here = ".try"
	if _, err := os.Stat(here); err == nil {
		return filepath.Abs(here)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a folder for the clusters: %w; name one with --dir", err)
	}
	return filepath.Join(cache, "flotilla", "try"), nil
}

// linked is the folder of links to control-plane programs of the PATH, for the clusters in dir.
func linked(dir string) string { return dir + "-bin" }

// open returns the fleet that `try up` left.
func (o *options) open() (*fleet.Fleet, error) {
	dir, err := o.folder()
	if err != nil {
		return nil, err
	}
	f, err := fleet.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("nothing runs in %s; start it with: %s", dir, o.self("up"))
	}
	return f, err
}

// member returns a member of the fleet that `try up` left.
func (o *options) member(name string) (*fleet.Fleet, *fleet.Cluster, error) {
	f, err := o.open()
	if err != nil {
		return nil, nil, err
	}
	member := f.Member(name)
	if member == nil || name == fleet.HubName {
		var names []string
		for _, m := range f.Members() {
			names = append(names, m.Name)
		}
		return nil, nil, fmt.Errorf("there is no member %q; the members are %s", name, strings.Join(names, ", "))
	}
	return f, member, nil
}

func (o *options) status(cmd *cobra.Command) error {
	f, err := o.open()
	if err != nil {
		return err
	}
	if err := f.Hub().Serving(cmd.Context()); err != nil {
		return fmt.Errorf("the hub does not answer (%w); repair it with: %s", err, o.self("up"))
	}
	tree, err := readTree(cmd.Context(), f)
	if err != nil {
		return err
	}
	return o.print(cmd, tree)
}

func (o *options) print(cmd *cobra.Command, tree *Tree) error {
	switch o.output {
	case "json":
		encoder := json.NewEncoder(cmd.OutOrStdout())
		encoder.SetIndent("", "  ")
		return encoder.Encode(tree)
	case "text":
		return render(cmd.OutOrStdout(), tree)
	default:
		return fmt.Errorf("output %q: it can be text or json", o.output)
	}
}

func (o *options) stop(cmd *cobra.Command, name string) error {
	f, member, err := o.member(name)
	if err != nil {
		return err
	}
	if err := f.Kill(cmd.Context(), fleet.AgentName(name)); err != nil {
		return err
	}
	if err := member.Stop(cmd.Context()); err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s is stopped. The hub says so after 40 s; look with: %s\nStart it again with: %s\n",
		name, o.self("status"), o.self("start "+name))
	return nil
}

func (o *options) start(cmd *cobra.Command, name string) error {
	f, member, err := o.member(name)
	if err != nil {
		return err
	}
	if err := member.Start(cmd.Context()); err != nil {
		return err
	}
	if err := f.Restart(fleet.AgentName(name)); err != nil {
		return err
	}
	if err := f.WaitReady(cmd.Context(), fleet.AgentName(name)); err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s runs again; look with: %s\n", name, o.self("status"))
	return nil
}

func (o *options) down(cmd *cobra.Command) error {
	return o.locked("down", func() error { return o.downLocked(cmd) })
}

func (o *options) downLocked(cmd *cobra.Command) error {
	dir, err := o.folder()
	if err != nil {
		return err
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(cmd.OutOrStdout(), "nothing runs in %s\n", dir)
		return nil
	}
	if err := fleet.Remove(dir); err != nil {
		return err
	}
	if err := fleet.UnlinkBinaries(linked(dir)); err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "ended and removed what ran in %s\n", dir)
	return nil
}

// self returns the command line of a verb of try as the user can type it, with the flags that were given.
func (o *options) self(verb string) string {
	line := shortPath(os.Args[0]) + " try " + verb
	add := func(flag, value string) {
		if value != "" {
			line += " --" + flag + " " + shortPath(value)
		}
	}
	if dir, err := o.folder(); o.dir != "" && err == nil {
		add("dir", dir)
	}
	if verb == "up" {
		add("bin", o.bin)
		add("programs", o.programs)
		add("samples", o.samples)
	}
	return line
}

// shortPath returns the path from the working directory where that is shorter, quoted for a shell if it must be.
func shortPath(path string) string {
	here, err := os.Getwd()
	if err != nil || !filepath.IsAbs(path) {
		return quoted(path)
	}
	short, err := filepath.Rel(here, path)
	if err != nil || len(short) >= len(path) {
		return quoted(path)
	}
	if !strings.Contains(short, "/") {
		short = "./" + short // else a shell looks for a program on its PATH
	}
	return quoted(short)
}

// quoted returns the text as one word of a shell.
func quoted(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+:@%,=", r)
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
