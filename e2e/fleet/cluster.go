package fleet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Cluster is one control plane of a fleet.
type Cluster struct {
	// Name is the cluster's name in the fleet.
	Name  string
	fleet *Fleet
	spec  ClusterSpec
	ports clusterPorts
	admin *rest.Config
}

// Kubeconfig returns the path of an administrator's kubeconfig, complete in one file.
func (c *Cluster) Kubeconfig() string {
	return filepath.Join(c.fleet.Dir, "kubeconfigs", c.Name+".yaml")
}

// RESTConfig returns an administrator's client configuration without client-side limits. The caller may change it.
func (c *Cluster) RESTConfig() *rest.Config { return rest.CopyConfig(c.admin) }

// WebhookAddress returns host:port on which a program of ours serves the cluster's API server. The
// CustomResourceDefinitions that InstallCRDs applies name it.
func (c *Cluster) WebhookAddress() string { return fmt.Sprintf("%s:%d", loopback, c.ports.Webhook) }

// AuditLog returns the path of the audit log; the file exists if the fleet was started with Audit.
func (c *Cluster) AuditLog() string { return filepath.Join(c.dir(), "logs", "audit.log") }

// LogDir returns the folder with the logs of the control plane's components.
func (c *Cluster) LogDir() string { return filepath.Join(c.dir(), "logs") }

// Stop kills the control plane's processes, as a power cut would. What is stored stays.
func (c *Cluster) Stop(ctx context.Context) error { return c.kwokctl(ctx, "stop") }

// Backup copies what the cluster stores, which must be stopped, into a folder.
func (c *Cluster) Backup(folder string) error {
	if err := os.CopyFS(folder, os.DirFS(c.stored())); err != nil {
		return fmt.Errorf("back %s up: %w", c.Name, err)
	}
	return nil
}

// Restore puts the copy of a Backup in the place of what the cluster stores, which must be stopped.
func (c *Cluster) Restore(folder string) error {
	err := os.RemoveAll(c.stored())
	if err == nil {
		err = os.CopyFS(c.stored(), os.DirFS(folder))
	}
	if err != nil {
		return fmt.Errorf("restore %s: %w", c.Name, err)
	}
	return nil
}

// StorageAddress returns the URL of the cluster's etcd, for a person with etcd's own tools.
func (c *Cluster) StorageAddress() string { return fmt.Sprintf("http://%s:%d", loopback, c.ports.Etcd) }

// StorageFolder returns the folder of etcd's data.
func (c *Cluster) StorageFolder() string { return c.stored() }

// stored is the folder of etcd's data.
func (c *Cluster) stored() string { return filepath.Join(c.dir(), "etcd") }

// Start starts what does not run of the control plane, and returns when all of it works. A component that ends because
// another one is not there yet, as may happen on a machine under load, is started again.
func (c *Cluster) Start(ctx context.Context) error {
	const attempts = 3
	var err error
	for range attempts {
		if err = c.kwokctl(ctx, "start"); err != nil {
			return err
		}
		if err = c.waitServing(ctx); err == nil {
			return c.waitUsable(ctx)
		}
		if len(c.deadComponents()) == 0 {
			return err
		}
	}
	return err
}

// Whole returns nil when every component of the control plane runs and the API server answers that it is ready.
func (c *Cluster) Whole(ctx context.Context) error {
	if dead := c.deadComponents(); len(dead) > 0 {
		return fmt.Errorf("%s of %s ended", strings.Join(dead, " and "), c.Name)
	}
	return c.Serving(ctx)
}

// Serving returns nil when the API server answers that it is ready.
func (c *Cluster) Serving(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.admin)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", c.Name, err)
	}
	if err := client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
		return fmt.Errorf("ask %s whether it is ready: %w", c.Name, err)
	}
	return nil
}

func (c *Cluster) dir() string { return filepath.Join(c.fleet.Dir, "clusters", c.Name) }

func (c *Cluster) configPath() string {
	return filepath.Join(c.fleet.Dir, "config", c.Name+".yaml")
}

// create makes the control plane, its stages and its nodes, and returns when the nodes are Ready.
func (c *Cluster) create(ctx context.Context, auditPolicy string) error {
	began := time.Now()
	config, err := kwokConfig(&c.fleet.cfg, c.spec, c.fleet.Dir, c.ports, auditPolicy)
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.configPath(), config, 0o600); err != nil {
		return fmt.Errorf("write kwok configuration of %s: %w", c.Name, err)
	}
	if err := c.kwokctl(ctx, "create"); err != nil {
		return err
	}
	if err := c.connect(); err != nil {
		return err
	}
	if err := c.waitServing(ctx); err != nil {
		return err
	}
	if err := c.AddNodes(ctx, c.spec.Nodes...); err != nil {
		return err
	}
	if err := c.waitUsable(ctx); err != nil {
		return err
	}
	c.fleet.progress("%s is up: %d nodes, %.1f s", c.Name, len(c.spec.Nodes), time.Since(began).Seconds())
	return nil
}

// connect reads the credentials that kwokctl made and writes the complete kubeconfig.
func (c *Cluster) connect() error {
	pki := filepath.Join(c.dir(), "pki")
	var data [3][]byte
	for i, name := range []string{"ca.crt", "admin.crt", "admin.key"} {
		content, err := os.ReadFile(filepath.Join(pki, name))
		if err != nil {
			return fmt.Errorf("read credentials of %s: %w", c.Name, err)
		}
		data[i] = content
	}
	config, err := c.writeKubeconfig(c.Kubeconfig(), "admin", data[0], data[1], data[2])
	if err != nil {
		return err
	}
	c.admin = config
	return nil
}

// writeKubeconfig writes a kubeconfig with one context and returns the client configuration that it means.
func (c *Cluster) writeKubeconfig(path, user string, ca, cert, key []byte) (*rest.Config, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters[c.Name] = &clientcmdapi.Cluster{
		Server: fmt.Sprintf("https://%s:%d", loopback, c.ports.APIServer), CertificateAuthorityData: ca,
	}
	// Files of several clusters in one KUBECONFIG: of two entries with one name the first would hold.
	entry := user + "@" + c.Name
	config.AuthInfos[entry] = &clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}
	config.Contexts[c.Name] = &clientcmdapi.Context{Cluster: c.Name, AuthInfo: entry}
	config.CurrentContext = c.Name
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return nil, fmt.Errorf("write kubeconfig of %s for %s: %w", c.Name, user, err)
	}
	restConfig, err := clientcmd.NewDefaultClientConfig(*config, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig of %s for %s: %w", c.Name, user, err)
	}
	restConfig.QPS = -1 // no client-side limit
	return restConfig, nil
}

func (c *Cluster) waitServing(ctx context.Context) error {
	// A cold disk makes the first start of an API server slow.
	const limit = 2 * time.Minute
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, limit, true, func(ctx context.Context) (bool, error) {
		last = c.Serving(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the API server of %s: %w (%w)%s", c.Name, err, last, c.componentErrors())
	}
	return nil
}
