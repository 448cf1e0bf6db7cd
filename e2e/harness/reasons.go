package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/explain"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// Answer is what our command line printed, and its exit code.
type Answer struct {
	Out, Talk string
	Code      int
}

// Flotilla runs our command line as a user of the hub does, without a terminal. The spec fails only if it cannot be
// run.
func (h *Harness) Flotilla(ctx context.Context, args ...string) Answer {
	return h.run(ctx, filepath.Join(h.programs, cliProgram), "KUBECONFIG="+h.Hub.Kubeconfig(), args...)
}

// FlotillaWith is Flotilla for verbs that also dial members: their kubeconfigs stand beside the hub's, with a context
// for each by its name.
func (h *Harness) FlotillaWith(ctx context.Context, members []string, args ...string) Answer {
	files := []string{h.Hub.Kubeconfig()}
	for _, member := range members {
		files = append(files, h.Members[member].Kubeconfig())
	}
	return h.run(
		ctx,
		filepath.Join(h.programs, cliProgram),
		"KUBECONFIG="+strings.Join(files, string(os.PathListSeparator)),
		args...)
}

// FlotillaAlone runs our command line without any cluster.
func (h *Harness) FlotillaAlone(ctx context.Context, args ...string) Answer {
	return h.run(ctx, filepath.Join(h.programs, cliProgram), "KUBECONFIG="+os.DevNull, args...)
}

// FlotillaPlugin runs our command line under the name that kubectl looks for, from a folder of its own.
func (h *Harness) FlotillaPlugin(ctx context.Context, folder string, args ...string) Answer {
	plugin := filepath.Join(folder, "kubectl-"+cliProgram)
	gomega.ExpectWithOffset(1, os.Symlink(filepath.Join(h.programs, cliProgram), plugin)).To(gomega.Succeed())
	return h.run(ctx, plugin, "KUBECONFIG="+h.Hub.Kubeconfig(), args...)
}

func (h *Harness) run(ctx context.Context, program, variable string, args ...string) Answer {
	var out, talk bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), variable), &out, &talk
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		gomega.ExpectWithOffset(2, err).NotTo(gomega.HaveOccurred(), "run %s %v", program, args)
	}
	return Answer{out.String(), talk.String(), cmd.ProcessState.ExitCode()}
}

// Into expects that the command succeeded and reads its output, which is JSON.
func (a Answer) Into(value any) {
	gomega.ExpectWithOffset(1, a.Code).To(gomega.Equal(0), "it says %s%s", a.Out, a.Talk)
	gomega.ExpectWithOffset(1, json.Unmarshal([]byte(a.Out), value)).To(gomega.Succeed(), a.Out)
}

// Unexplained returns the numbers of the namespace's placements that have no answer to the question why; empty if all
// have. Of one workload `flotilla why` itself is asked, which must answer for each of its cells.
func (h *Harness) Unexplained(ctx context.Context, namespace string) (string, error) {
	placements := &topology.WorkloadPlacementList{}
	if err := h.Hub.Client.List(ctx, placements, client.InNamespace(namespace)); err != nil {
		return "", fmt.Errorf("list placements of %s: %w", namespace, err)
	}
	var without []string
	for i := range placements.Items {
		without = append(without, unexplained(&placements.Items[i])...)
	}
	for i := range placements.Items {
		p := &placements.Items[i]
		if _, divided := kinds.Workloads()[wire.KeyOfPlacement(p).GroupKind()]; !divided || len(p.Spec.Cells) == 0 ||
			p.DeletionTimestamp != nil {
			continue // a copy has no numbers, and is not asked for
		}
		said := h.unanswered(ctx, p)
		if len(said) > 0 {
			gone, err := h.workloadGone(ctx, p)
			if err != nil {
				return "", err
			}
			if gone {
				continue
			}
		}
		without = append(without, said...)
		break // a process for each would take minutes over all stories
	}
	return strings.Join(without, "; "), nil
}

// workloadGone tells whether the workload of a placement was deleted: then nobody can ask for it, though its placement
// may still stand.
func (h *Harness) workloadGone(ctx context.Context, p *topology.WorkloadPlacement) (bool, error) {
	workload := kinds.Workloads()[wire.KeyOfPlacement(p).GroupKind()].New()
	err := h.Hub.Client.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: p.Spec.Workload.Name}, workload)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read %s %s/%s: %w", p.Spec.Workload.Kind, p.Namespace, p.Spec.Workload.Name, err)
	}
	return err != nil || workload.GetDeletionTimestamp() != nil, nil
}

// unanswered asks `flotilla why` for a workload, and returns the cells of its placement for which it has no words. What
// the hub decided anew meanwhile is not asked for.
func (h *Harness) unanswered(ctx context.Context, p *topology.WorkloadPlacement) (without []string) {
	of := p.Spec.Workload
	asked := h.Flotilla(ctx, "why", of.Kind+"/"+of.Name, "-n", p.Namespace, "-o", "json")
	var answer explain.Answer
	if asked.Code != 0 {
		return []string{fmt.Sprintf("flotilla why %s/%s: exit code %d, %s", of.Kind, of.Name, asked.Code, asked.Talk)}
	}
	if err := json.Unmarshal([]byte(asked.Out), &answer); err != nil {
		return []string{fmt.Sprintf("flotilla why %s/%s: %v in %s", of.Kind, of.Name, err, asked.Out)}
	}
	for _, c := range answer.Cells {
		if c.Why == "" || c.See == "" {
			without = append(without, fmt.Sprintf("flotilla why %s/%s: no words for %+v", of.Kind, of.Name, c))
		}
	}
	if len(answer.Cells) == 0 && answer.Placed > 0 {
		without = append(without, fmt.Sprintf("flotilla why %s/%s: no cells in %s", of.Kind, of.Name, asked.Out))
	}
	return without
}
