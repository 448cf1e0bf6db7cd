package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Raise lets the numbers of versions of what a cluster stores, which must be stopped, go on later by some, and forgets the way there: as
// `etcdutl snapshot restore --bump-revision --mark-compacted` does, which makes watches of before begin anew.
func (c *Cluster) Raise(ctx context.Context, by int) (err error) {
	client, peer := fmt.Sprintf("http://%s:%d", loopback, c.ports.Etcd), fmt.Sprintf("http://%s:%d", loopback, c.ports.EtcdPeer)
	var said strings.Builder
	// The folder is in the fleet's, by which the process is known if this one dies.
	etcd := exec.Command(filepath.Join(c.fleet.cfg.Bin, "etcd"), "--data-dir="+c.stored(), "--unsafe-no-fsync", "--log-level=error",
		"--listen-client-urls="+client, "--advertise-client-urls="+client, "--listen-peer-urls="+peer)
	etcd.Stdout, etcd.Stderr, etcd.SysProcAttr = &said, &said, ownSession()
	if err := etcd.Start(); err != nil {
		return fmt.Errorf("start etcd of %s: %w", c.Name, err)
	}
	defer func() {
		killed := etcd.Process.Kill()
		_ = etcd.Wait() // it was killed; what it wrote before it was is in said
		if err = errors.Join(err, killed); err != nil {
			err = fmt.Errorf("raise the versions of %s: %w\n%s", c.Name, err, said.String())
		}
	}()
	const key = "/flotilla/raised"
	// On a machine under load etcd takes seconds to start.
	if err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		return c.put(ctx, key, nil) == nil, nil
	}); err != nil {
		return err
	}
	for range by {
		if err := c.put(ctx, key, nil); err != nil {
			return err
		}
	}
	return c.compact(ctx)
}

// compact has etcd forget all versions before the newest one.
func (c *Cluster) compact(ctx context.Context) error {
	answer, err := c.etcd(ctx, "kv/range", map[string]any{"key": []byte("/"), "limit": 1})
	if err != nil {
		return err
	}
	var at struct {
		Header struct {
			Revision string `json:"revision"`
		} `json:"header"`
	}
	if err := json.Unmarshal(answer, &at); err != nil {
		return err
	}
	_, err = c.etcd(ctx, "kv/compaction", map[string]any{"revision": at.Header.Revision, "physical": true})
	return err
}

// etcd asks etcd by its gateway, which takes and gives keys and values in base64, as encoding/json writes bytes.
func (c *Cluster) etcd(ctx context.Context, what string, body any) ([]byte, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("http://%s:%d/v3/%s", loopback, c.ports.Etcd, what), strings.NewReader(string(data)))
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("etcd answers %s: %s", response.Status, said[:min(len(said), 500)])
	}
	return said, err
}
