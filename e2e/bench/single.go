package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// paced creates workloads at a steady pace that leaves the machine time: what a user waits who is not alone.
func (d *delivery) paced(ctx context.Context) error {
	const (
		perSecond = 5
		// P99 of fewer than a hundred is their maximum.
		workloads = 100
	)
	title := fmt.Sprintf("%d workloads × %d members, %d a second", workloads, len(d.members), perSecond)
	d.say("%s", title)
	names, sent := make([]string, workloads), make([]time.Time, workloads)
	ticker := time.NewTicker(time.Second / perSecond)
	defer ticker.Stop()
	for i := range names {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		names[i], sent[i] = fmt.Sprintf("paced-%d", i), time.Now()
		if err := d.hub.Create(ctx, cloneSetKind().build(namespace, names[i], int32(d.replicas), image(1))); err != nil {
			return fmt.Errorf("create CloneSet %s on the hub: %w", names[i], err)
		}
	}
	took, _, err := d.wait(ctx, title+": member objects", sent, d.inMembers(namespace, names, sawObject))
	if err != nil {
		return err
	}
	d.percentiles(title+", create → last member object", took, nil)
	if _, _, err := d.wait(ctx, title+": status on the hub", sent, d.onHub(names, sawStatus)); err != nil {
		return err
	}
	return d.remove(ctx, title, names)
}

// isolated makes one pod of one member ready at a time, with pauses in between: from the status of the member's object
// to the sum on the hub. Both are seen by watches of this process.
func (d *delivery) isolated(ctx context.Context) error {
	const (
		changes = 60
		// pause between two changes: within 2 s of its last write the hub waits for reports of other members, and an agent
		// reports at most once a second. Neither is what is measured: a status that comes alone.
		pause = 2200 * time.Millisecond
		name  = "isolated"
	)
	d.say("%d changes of one member's status", changes)
	member := d.members[0]
	total := int32(changes * len(d.members))
	sent := []time.Time{time.Now()}
	if err := d.hub.Create(ctx, cloneSetKind().build(namespace, name, total, image(1))); err != nil {
		return fmt.Errorf("create CloneSet %s on the hub: %w", name, err)
	}
	if _, _, err := d.wait(ctx, "isolated: status on the hub", sent, d.onHub([]string{name}, sawStatus)); err != nil {
		return err
	}
	pods, err := member.core.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: labelApp + "=" + name})
	if err != nil {
		return fmt.Errorf("list pods of %s in %s: %w", name, member.cluster.Name, err)
	}
	patch, err := json.Marshal(
		map[string]any{
			"status": map[string]any{
				"phase":      corev1.PodRunning,
				"conditions": []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			},
		},
	)
	if err != nil {
		return err
	}
	took := make([]float64, 0, changes)
	for i := range min(changes, len(pods.Items)) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		pod := pods.Items[i].Name
		if _, err := member.core.CoreV1().Pods(namespace).Patch(ctx, pod, types.StrategicMergePatchType, patch,
			metav1.PatchOptions{}, "status"); err != nil {
			return fmt.Errorf("make pod %s of %s ready: %w", pod, member.cluster.Name, err)
		}
		ready := sawReady(int32(i) + 1)
		at, err := d.seen.await(ctx, []sight{
			{member.cluster.Name, namespace, name, ready},
			{d.hub.cluster.Name, namespace, name, ready},
		})
		if err != nil {
			return err
		}
		took = append(took, milliseconds(at[1].Sub(at[0])))
	}
	d.percentiles("one member's status alone → sum on the hub", took, nil)
	return d.remove(ctx, "isolated", []string{name})
}
