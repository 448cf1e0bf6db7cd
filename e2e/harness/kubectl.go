package harness

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/onsi/gomega"

	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

// Kubectl runs kubectl against the cluster and returns what it printed to its output. The error holds what it printed
// to its error output.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	return c.kubectl(ctx, "", args...)
}

func (c *Cluster) kubectl(ctx context.Context, input string, args ...string) (string, error) {
	bin, err := fleet.FindBinaries()
	if err != nil {
		return "", err
	}
	dir := filepath.Dir(c.Kubeconfig())
	// Its cache of what a cluster serves stays in the fleet: the next fleet may have another cluster at this address.
	args = append([]string{"--kubeconfig=" + c.Kubeconfig(), "--cache-dir=" + filepath.Join(dir, "cache-"+c.Name)},
		args...)
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECTL_KUBERC=false") // nobody's own settings
	if input != "" {
		cmd.Stdin = strings.NewReader(input)
	}
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl %s on %s: %w: %s", strings.Join(args[2:], " "), c.Name, err,
			strings.TrimSpace(problems.String()))
	}
	return out.String(), nil
}

// Kubectl runs kubectl on the hub as a user does; the spec fails if kubectl does. It returns the output.
func (h *Harness) Kubectl(ctx context.Context, args ...string) string {
	return h.Hub.MustKubectl(ctx, args...)
}

// MustKubectl is Kubectl of a cluster; the spec fails if it does.
func (c *Cluster) MustKubectl(ctx context.Context, args ...string) string {
	out, err := c.Kubectl(ctx, args...)
	gomega.ExpectWithOffset(1, err).NotTo(gomega.HaveOccurred())
	return out
}

// Apply applies manifests with kubectl; the spec fails if they are refused.
func (c *Cluster) Apply(ctx context.Context, manifests ...string) {
	_, err := c.kubectl(ctx, strings.Join(manifests, "\n---\n"), "apply", "-f", "-")
	gomega.ExpectWithOffset(1, err).NotTo(gomega.HaveOccurred())
}

// ExpectRefused expects that kubectl cannot apply the manifest, and that the answer holds every one of the words.
func (c *Cluster) ExpectRefused(ctx context.Context, manifest string, words ...string) {
	_, err := c.kubectl(ctx, manifest, "apply", "-f", "-")
	gomega.ExpectWithOffset(1, err).To(gomega.HaveOccurred(), "the API server took this:\n%s", manifest)
	for _, word := range words {
		gomega.ExpectWithOffset(1, err.Error()).To(gomega.ContainSubstring(word))
	}
}

// Row is one line of a table of kubectl get: the column's header to its cell.
type Row map[string]string

// Tables reads the tables of `kubectl get`: one row for each object, by "<resource>/<name>" where kubectl prints it so,
// else by name. A cell may be empty or hold spaces: headers say where columns begin.
func Tables(output string) map[string]Row {
	rows := map[string]Row{}
	var headers []column
	for line := range strings.SplitSeq(output, "\n") {
		switch {
		case strings.TrimSpace(line) == "":
			headers = nil
		case headers == nil:
			headers = columns(line)
		default:
			row := Row{}
			for i, c := range headers {
				end := len(line)
				if i+1 < len(headers) {
					end = min(end, headers[i+1].start)
				}
				if c.start < end {
					row[c.name] = strings.TrimSpace(line[c.start:end])
				}
			}
			rows[row[headers[0].name]] = row
		}
	}
	return rows
}

type column struct {
	name  string
	start int
}

func columns(header string) []column {
	var found []column
	for i := 0; i < len(header); {
		if header[i] == ' ' {
			i++
			continue
		}
		end := i
		for end < len(header) && header[end] != ' ' {
			end++
		}
		found = append(found, column{header[i:end], i})
		i = end
	}
	return found
}
