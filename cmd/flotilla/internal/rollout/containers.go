package rollout

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/podtemplate"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/inject"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/marks"
)

// NewRestartCommand returns the verb that restarts the containers of a workload in place.
func NewRestartCommand() *cobra.Command {
	var (
		hub        = console.Hub{AnyCluster: true}
		containers []string
	)
	command := &cobra.Command{
		Use:   "restart KIND/NAME",
		Short: "Restart the containers of a workload's pods in place, within its maxUnavailable",
		Long: "Restart the containers of a workload's pods in place. Pods keep their nodes, addresses and volumes, and " +
			"there is no new revision.\nAs many pods as maxUnavailable allows restart at the same time. It needs the node daemon " +
			"flotilla-node; flotilla rollout restart replaces the pods instead.",
		Example: "  flotilla restart clone/web -n shop\n" +
			"  flotilla restart sts.apps.kruise.io/db -n shop -c proxy",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: hub.CompleteWorkloads,
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := keyOf(&hub, args[0])
			if err != nil {
				return err
			}
			c, now, err := hub.ClientAndClock()
			if err != nil {
				return err
			}
			return restartContainers(cmd.Context(), c, cmd.OutOrStdout(), key, containers, now)
		},
	}
	hub.AddFlags(command)
	command.Flags().StringSliceVarP(&containers, "container", "c", nil,
		"containers to restart; without it all containers of the pods")
	return command
}

// restartContainers asks for the restart. The clock is that of the API server, which sets when pods were created.
func restartContainers(
	ctx context.Context, c client.Client, out io.Writer, key wire.Key, containers []string,
	now clock.PassiveClock,
) error {
	restartable := []string{apps.CloneSetKind.GroupKind().String(), apps.StatefulSetKind.GroupKind().String(),
		apps.DaemonSetKind.GroupKind().String()}
	if !slices.Contains(restartable, key.GroupKind().String()) {
		return fmt.Errorf("%s has no restart in place, which CloneSets, StatefulSets and DaemonSets of %s have: use "+
			"flotilla rollout restart", key.Sentence(), apps.GroupVersion.Group)
	}
	if err := served(ctx, c, key); err != nil {
		return err
	}
	var sets sidecars
	if len(containers) > 0 {
		sets = readSidecars(ctx, c, key.Namespace)
	}
	err := apply(ctx, c, out, key, "restarting", func(object client.Object) error {
		return askRestart(object, containers, sets, now.Now()) // the API server has answered
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "follow it with: kubectl get containerrecreaterequests -n %s\n", key.Namespace)
	return err
}

// sidecars are the SidecarSets of the cluster, and what of a namespace they select pods by.
type sidecars struct {
	sets      []apps.SidecarSet
	namespace map[string]string
	// err says why they could not be read. Who may not read them names containers of the template alone.
	err error
}

// readSidecars reads the SidecarSets that can select pods of a namespace.
func readSidecars(ctx context.Context, c client.Client, namespace string) sidecars {
	var list apps.SidecarSetList
	if err := c.List(ctx, &list); meta.IsNoMatchError(err) {
		return sidecars{}
	} else if err != nil {
		return sidecars{err: fmt.Errorf("list SidecarSets: %w", err)}
	}
	of := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := c.Get(ctx, client.ObjectKeyFromObject(of), of); err != nil {
		return sidecars{err: fmt.Errorf("read namespace %s, whose labels SidecarSets select: %w", namespace, err)}
	}
	return sidecars{sets: list.Items, namespace: of.Labels}
}

// askRestart writes the annotation that asks for a restart.
func askRestart(object client.Object, containers []string, sets sidecars, now time.Time) error {
	if template := podtemplate.Of(object); template != nil {
		known := containersOf(template, object.GetNamespace(), sets)
		for _, name := range containers {
			switch {
			case slices.Contains(known, name):
			case sets.err != nil:
				return fmt.Errorf("pods of %s have no container %s: by the template they have %s, and which ones SidecarSets add "+
					"could not be read: %w", object.GetName(), name, strings.Join(known, ", "), sets.err)
			default:
				return fmt.Errorf("pods of %s have no container %s: by the template, and the SidecarSets that select them, they "+
					"have %s", object.GetName(), name, strings.Join(known, ", "))
			}
		}
	}
	text, err := json.Marshal(apps.RestartOrder{At: now.UTC().Format(time.RFC3339), Containers: containers})
	if err != nil {
		return fmt.Errorf("encode the restart: %w", err)
	}
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[apps.AnnotationRestart] = string(text)
	object.SetAnnotations(annotations)
	return nil
}

// containersOf returns the containers that pods of a template have, with those that SidecarSets add.
func containersOf(template *corev1.PodTemplateSpec, namespace string, all sidecars) (names []string) {
	for i := range template.Spec.Containers {
		names = append(names, template.Spec.Containers[i].Name)
	}
	for i := range all.sets {
		spec := &all.sets[i].Spec
		selection, err := inject.NewSelection(spec)
		if err != nil || !selection.Matches(template.Labels, namespace, all.namespace) {
			continue
		}
		for j := range spec.Containers {
			if pair := marks.Pair(spec.Containers[j].Name); marks.Hot(&spec.Containers[j]) {
				names = append(names, pair[:]...)
			} else {
				names = append(names, spec.Containers[j].Name)
			}
		}
	}
	return names
}

// served refuses a restart where no node daemon runs. On a hub it is the members that run it, within what they are
// granted.
func served(ctx context.Context, c client.Client, key wire.Key) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: key.Namespace}}
	if err := c.Get(ctx, client.ObjectKeyFromObject(namespace), namespace); err != nil {
		return nil // who may not read namespaces learns from the events of the workload
	}
	if namespace.Labels[topology.LabelFederated] == "true" {
		return granted(ctx, c, key)
	}
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.MatchingLabels{"app.kubernetes.io/name": "flotilla-node"}); err != nil {
		return nil // as above
	}
	for i := range pods.Items {
		if podstate.Ready(&pods.Items[i]) {
			return nil
		}
	}
	return fmt.Errorf("%s cannot restart in place, because no pod of flotilla-node is ready in this cluster: install the "+
		"chart flotilla-node, or replace the pods with flotilla rollout restart %s/%s", key.Sentence(),
		strings.ToLower(key.Kind), key.Name)
}

// granted refuses a restart that would wait for ever, because no available pod may become unavailable.
func granted(ctx context.Context, c client.Client, key wire.Key) error {
	placement, _, err := store.FindPlacement(ctx, c, key)
	if err != nil || placement == nil || len(placement.Spec.Limits) == 0 {
		return err
	}
	for i := range placement.Spec.Limits {
		if placement.Spec.Limits[i].Unavailable > 0 {
			return nil
		}
	}
	return fmt.Errorf("%s cannot restart in place, because its maxUnavailable is 0: raise it to 1 or more, or use "+
		"flotilla rollout restart", key.Sentence())
}
