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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
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
	err := apply(ctx, c, out, key, "restarting", func(object client.Object) error {
		return askRestart(object, containers, now.Now()) // the API server has answered
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "follow it with: kubectl get containerrecreaterequests -n %s\n", key.Namespace)
	return err
}

// askRestart writes the annotation that asks for a restart.
func askRestart(object client.Object, containers []string, now time.Time) error {
	template := podTemplate(object)
	for _, name := range containers {
		named := func(c corev1.Container) bool { return c.Name == name }
		if template != nil && !slices.ContainsFunc(template.Spec.Containers, named) {
			var known []string
			for i := range template.Spec.Containers {
				known = append(known, template.Spec.Containers[i].Name)
			}
			return fmt.Errorf("the template of %s has no container %s: it has %s", object.GetName(), name,
				strings.Join(known, ", "))
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

// granted refuses a restart that would wait for ever in members which are granted nothing of maxUnavailable.
func granted(ctx context.Context, c client.Client, key wire.Key) error {
	placement, _, err := store.FindPlacement(ctx, c, key)
	if err != nil || placement == nil {
		return err
	}
	replicas, unavailable := map[string]int32{}, map[string]int32{}
	for i := range placement.Spec.Cells {
		cell := &placement.Spec.Cells[i]
		replicas[cell.Cluster] += cell.Replicas
		unavailable[cell.Cluster] += cell.Granted.Unavailable
	}
	var waiting []string
	for cluster, n := range replicas {
		if n > 0 && unavailable[cluster] == 0 {
			waiting = append(waiting, cluster)
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	slices.Sort(waiting)
	return fmt.Errorf("%s cannot restart in place, because nothing of its maxUnavailable is granted to %s: raise "+
		"maxUnavailable to the number of its members, or more, or use flotilla rollout restart", key.Sentence(),
		strings.Join(waiting, ", "))
}
