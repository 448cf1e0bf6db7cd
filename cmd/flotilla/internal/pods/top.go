package pods

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
)

// Usage is a row of `flotilla top pods`.
type Usage struct {
	Member    string `json:"member"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// CPU and Memory are the sums of the containers.
	CPU    resource.Quantity `json:"cpu"`
	Memory resource.Quantity `json:"memory"`
}

// usageList is what metrics.k8s.io/v1beta1 answers, as far as it is read.
type usageList struct {
	Items []struct {
		Metadata struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		} `json:"metadata"`
		Containers []struct {
			Usage corev1.ResourceList `json:"usage"`
		} `json:"containers"`
	} `json:"items"`
}

// NewTopCommand returns the verb `flotilla top` with its verb pods.
func NewTopCommand() *cobra.Command {
	command := &cobra.Command{Use: "top", Short: "Show what pods use, in all members"}
	command.AddCommand(newTopPods())
	return command
}

func newTopPods() *cobra.Command {
	o, output := &options{}, console.Output("")
	command := &cobra.Command{
		Use:     "pods KIND/NAME",
		Aliases: []string{"pod", "po"},
		Short:   "Show the CPU and memory that the pods of a workload use, in all members",
		Long: `Show the CPU and memory that the pods of a workload use, in all members or in those that -C names.

The numbers are those of metrics.k8s.io in each member, which metrics-server provides. A member without it, or that is
not reached, has a line on standard error. Members are reached as flotilla logs reaches them.`,
		Example: "  flotilla top pods clone/api -n shop\n  flotilla top pods ud/web -C east",
		Args:    cobra.ExactArgs(1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			return o.hub.CompleteWorkloads(cmd, args, typed)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			t, err := o.target(args[0])
			if err != nil {
				return err
			}
			f, err := o.fleet(cmd.Context(), cmd.ErrOrStderr(), t.workload())
			if err != nil {
				return err
			}
			rows, err := f.usage(cmd.Context(), t, o)
			if err != nil {
				return err
			}
			if len(rows) == 0 && output == "text" {
				f.notes.say("No member has measured pods%s yet", of(t))
				return nil
			}
			return output.Print(cmd.OutOrStdout(), rows, func(out io.Writer) error {
				return console.Table(out, usageText(rows))
			})
		},
	}
	o.addFlags(command)
	output.AddFlag(command)
	return command
}

// usage returns what the pods use, by members and pods.
func (f *fleet) usage(ctx context.Context, t *target, o *options) ([]Usage, error) {
	answers := ask(ctx, f.members, o.patience, func(ctx context.Context, r *reached) ([]Usage, error) {
		return r.usage(ctx, t)
	})
	found, reached, failures := sorted(f, answers)
	if err := f.report(ctx, reached, failures); err != nil {
		return nil, err
	}
	rows := []Usage{}
	for _, a := range found {
		rows = append(rows, a.value...)
	}
	slices.SortFunc(rows, func(a, b Usage) int {
		return cmp.Or(strings.Compare(a.Member, b.Member), strings.Compare(a.Name, b.Name))
	})
	return rows, nil
}

// usage returns what the pods of the target use in the member.
func (r *reached) usage(ctx context.Context, t *target) ([]Usage, error) {
	selectors := []string{""}
	path := "/apis/metrics.k8s.io/v1beta1/namespaces/" + r.namespace + "/pods"
	if t.pod == "" {
		var err error
		if selectors, err = r.selectors(ctx, t); err != nil {
			return nil, err
		}
		r.expected = true // it has the workload
	}
	var rows []Usage
	for _, selector := range selectors {
		request := r.core.CoreV1().RESTClient().Get().AbsPath(path)
		if selector != "" {
			request = request.Param("labelSelector", selector)
		}
		data, err := request.DoRaw(ctx)
		if apierrors.IsNotFound(err) || apierrors.IsServiceUnavailable(err) {
			return nil, fmt.Errorf("member %s has no metrics.k8s.io: install metrics-server there to measure its pods",
				r.name)
		}
		if err != nil {
			return nil, r.failed("get pods of metrics.k8s.io"+r.place(), err)
		}
		list := &usageList{}
		if err := json.Unmarshal(data, list); err != nil {
			return nil, fmt.Errorf("read metrics.k8s.io of member %s: %w", r.name, err)
		}
		rows = append(rows, list.rows(r.name, t.pod)...)
	}
	return rows, nil
}

// rows sums the containers of each pod; pod is the name of the one that is meant, "" for all.
func (l *usageList) rows(member, pod string) []Usage {
	var rows []Usage
	for i := range l.Items {
		item := &l.Items[i]
		if pod != "" && item.Metadata.Name != pod {
			continue
		}
		u := Usage{Member: member, Namespace: item.Metadata.Namespace, Name: item.Metadata.Name}
		for _, c := range item.Containers {
			u.CPU.Add(c.Usage[corev1.ResourceCPU])
			u.Memory.Add(c.Usage[corev1.ResourceMemory])
		}
		rows = append(rows, u)
	}
	return rows
}

// usageText writes the table, in the units of kubectl top.
func usageText(rows []Usage) string {
	const mebibyte = 1 << 20
	var text strings.Builder
	text.WriteString("MEMBER\tNAME\tCPU\tMEMORY\n")
	for i := range rows {
		u := &rows[i]
		fmt.Fprintf(&text, "%s\t%s\t%dm\t%dMi\n", u.Member, u.Name, u.CPU.MilliValue(), u.Memory.Value()/mebibyte)
	}
	return text.String()
}
