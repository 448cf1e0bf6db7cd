package fleet

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"
)

//go:embed audit-policy.yaml
var auditPolicy []byte

// Fleet is a running hub with its members, and the programs of ours that were started beside them.
type Fleet struct {
	// Dir holds everything of the fleet.
	Dir      string
	cfg      Config
	clusters []*Cluster
	owner    *owner
	children children
}

// record is what Open needs to know of a fleet; it is stored in its folder.
type record struct {
	Bin      string
	NoHub    bool
	Detached bool
	Clusters []clusterRecord
}

type clusterRecord struct {
	Spec  ClusterSpec
	Ports clusterPorts
}

// Start starts all clusters in parallel and returns when pods can be made in each. On an error nothing stays behind.
// The fleet ends by Destroy, and unless it is Detached also when this process ends.
func Start(ctx context.Context, cfg Config) (*Fleet, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("start a fleet: %w", err)
	}
	f, err := prepare(cfg)
	if err != nil {
		return nil, fmt.Errorf("start a fleet: %w", err)
	}
	if err := f.startClusters(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start a fleet in %s: %w", f.Dir, err), f.Destroy())
	}
	return f, nil
}

// prepare makes the folder, sets the watchdog on it, and reserves ports.
func prepare(cfg Config) (*Fleet, error) {
	dir, err := makeDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	if cfg.Bin, err = filepath.Abs(cfg.Bin); err != nil {
		return nil, err
	}
	f := &Fleet{Dir: dir, cfg: cfg}
	if !cfg.Detached {
		if f.owner, err = own(dir); err != nil {
			return nil, err
		}
	}
	specs := cfg.clusters()
	ports, err := reservePorts(dir, portsPerCluster*len(specs))
	if err != nil {
		return nil, errors.Join(err, f.Destroy())
	}
	rec := record{Bin: cfg.Bin, NoHub: cfg.NoHub, Detached: cfg.Detached}
	for i, spec := range specs {
		c := &Cluster{Name: spec.Name, fleet: f, spec: spec, ports: portsFrom(ports[i*portsPerCluster:])}
		f.clusters = append(f.clusters, c)
		rec.Clusters = append(rec.Clusters, clusterRecord{Spec: spec, Ports: c.ports})
	}
	err = rec.write(dir)
	for _, sub := range []string{"clusters", "config", "kubeconfigs", "logs", "pids", "processes"} {
		err = errors.Join(err, os.MkdirAll(filepath.Join(dir, sub), 0o700))
	}
	if err != nil {
		return nil, errors.Join(err, f.Destroy())
	}
	return f, nil
}

// recordFile is the file in a fleet's folder that Open reads.
const recordFile = "fleet.json"

func makeDir(dir string) (string, error) {
	if dir == "" {
		if err := os.MkdirAll(Root(), 0o700); err != nil {
			return "", err
		}
		return os.MkdirTemp(Root(), "fleet-")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(dir, recordFile)); err == nil {
		return "", fmt.Errorf("folder %s holds a fleet already; open or destroy that one", dir)
	}
	return dir, os.MkdirAll(dir, 0o700)
}

func (f *Fleet) startClusters(ctx context.Context) error {
	policy := f.cfg.AuditPolicy
	if policy == "" && f.cfg.Audit {
		policy = filepath.Join(f.Dir, "config", "audit-policy.yaml")
		if err := os.WriteFile(policy, auditPolicy, 0o600); err != nil {
			return err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range f.clusters {
		group.Go(func() error { return c.create(ctx, policy) })
	}
	return group.Wait()
}

// Open returns the fleet whose folder is dir, which another process may have started. The clusters may be stopped.
// The error is fs.ErrNotExist where dir holds no fleet.
func Open(dir string) (*Fleet, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open fleet: %w", err)
	}
	data, err := os.ReadFile(filepath.Join(dir, recordFile))
	if err != nil {
		return nil, fmt.Errorf("open fleet: %w", err)
	}
	var rec record
	if err := json.Unmarshal(data, &rec); err != nil {
		return nil, fmt.Errorf("open fleet %s: %w", dir, err)
	}
	if err := rec.complete(dir); err != nil {
		return nil, fmt.Errorf("open fleet %s: %w", dir, err)
	}
	f := &Fleet{Dir: dir, cfg: Config{Bin: rec.Bin, NoHub: rec.NoHub, Detached: rec.Detached}}
	for _, cluster := range rec.Clusters {
		c := &Cluster{Name: cluster.Spec.Name, fleet: f, spec: cluster.Spec, ports: cluster.Ports}
		if err := c.connect(); err != nil {
			return nil, fmt.Errorf("open fleet %s: %w", dir, err)
		}
		f.clusters = append(f.clusters, c)
	}
	return f, nil
}

// write stores the record in the fleet's folder.
func (r *record) write(dir string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, recordFile), data, 0o600)
}

// complete gives a fleet of former times what it lacks: ports for webhooks.
func (r *record) complete(dir string) error {
	if !slices.ContainsFunc(r.Clusters, func(c clusterRecord) bool { return c.Ports.Webhook == 0 }) {
		return nil
	}
	ports, err := reservePorts(dir, len(r.Clusters))
	if err != nil {
		return err
	}
	for i := range r.Clusters {
		r.Clusters[i].Ports.Webhook = ports[i]
	}
	return r.write(dir)
}

// Bin returns the folder with the control-plane programs.
func (f *Fleet) Bin() string { return f.cfg.Bin }

// Hub returns the hub's cluster, or nil in a fleet without one.
func (f *Fleet) Hub() *Cluster { return f.Cluster(HubName) }

// Member returns the member with that name, or nil.
func (f *Fleet) Member(name string) *Cluster { return f.Cluster(name) }

// Cluster returns the cluster with that name, or nil.
func (f *Fleet) Cluster(name string) *Cluster {
	i := slices.IndexFunc(f.clusters, func(c *Cluster) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return f.clusters[i]
}

// Clusters returns all clusters, the hub first.
func (f *Fleet) Clusters() []*Cluster { return slices.Clone(f.clusters) }

// Members returns the clusters other than the hub, in the order of the configuration.
func (f *Fleet) Members() []*Cluster {
	return slices.DeleteFunc(f.Clusters(), func(c *Cluster) bool { return c.Name == HubName && !f.cfg.NoHub })
}

// Remove ends and removes the fleet in dir, also one that was never complete, which Open refuses. It does nothing where
// dir does not exist, and touches nothing in a folder that holds no fleet.
func Remove(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("remove fleet: %w", err)
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, err := os.Stat(filepath.Join(dir, recordFile)); err != nil {
		return fmt.Errorf("remove fleet: folder %s holds none: %w", dir, err)
	}
	if err := destroyDir(dir); err != nil {
		return fmt.Errorf("remove fleet: %w", err)
	}
	return nil
}

// Destroy ends every process of the fleet and removes its folder. It can be called twice.
func (f *Fleet) Destroy() error {
	err := destroyDir(f.Dir)
	f.children.wait()
	if f.owner != nil {
		f.owner.release()
		f.owner = nil
	}
	if err != nil {
		return fmt.Errorf("destroy fleet: %w", err)
	}
	return nil
}

func (f *Fleet) progress(format string, args ...any) {
	if f.cfg.Progress != nil {
		f.cfg.Progress(fmt.Sprintf(format, args...))
	}
}
