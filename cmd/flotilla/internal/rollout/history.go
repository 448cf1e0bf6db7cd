package rollout

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	udiff "github.com/aymanbagabas/go-udiff"
	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/podtemplate"
	"github.com/flotilla-dev/flotilla/hub/wire"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history"
)

// Revision is a template that a workload has or had.
type Revision struct {
	// Number orders revisions: a later template has a higher one, and the template of now the highest. 0: not known.
	Number int64 `json:"number"`
	// Name of the revision, as the status of the workload names it.
	Name string `json:"name"`
	// Current: the workload has this template now.
	Current bool `json:"current,omitempty"`
	// Created is when the revision was stored; absent for one that is not stored.
	Created *metav1.Time `json:"created,omitempty"`
	// Images of the containers, in their order.
	Images []string `json:"images"`
	// Cause is what the annotation kubernetes.io/change-cause said of the template; absent where it said nothing.
	Cause string `json:"cause,omitempty"`

	template *corev1.PodTemplateSpec
}

// workload is a workload with its history.
type workload struct {
	key    wire.Key
	object client.Object
	// kept are the revisions that are stored of it, the oldest first.
	kept []*appsv1.ControllerRevision
	// revisions are the templates that it had, the oldest first and the current one last.
	revisions []Revision
}

// historyOf finds the templates that a workload had among stored revisions.
func historyOf(key wire.Key, object client.Object, stored []appsv1.ControllerRevision) (*workload, error) {
	now := podtemplate.Of(object)
	if now == nil {
		return nil, fmt.Errorf("%s/%s has no pod template: give spec.template", object.GetNamespace(), object.GetName())
	}
	w := &workload{key: key, object: object}
	for i := range stored {
		if metav1.IsControlledBy(&stored[i], object) {
			w.kept = append(w.kept, &stored[i])
		}
	}
	history.Sort(w.kept)
	current := Revision{Number: 1, Name: "current", Current: true, Images: images(now), template: now,
		Cause: object.GetAnnotations()[topology.AnnotationChangeCause]}
	if n := len(w.kept); n > 0 {
		current.Number = w.kept[n-1].Revision + 1
	}
	for _, r := range w.kept {
		template, err := storedTemplate(object, r)
		if err != nil {
			return nil, fmt.Errorf("read ControllerRevision %s/%s: %w", r.Namespace, r.Name, err)
		}
		same, err := sameTemplate(template, now)
		if err != nil {
			return nil, fmt.Errorf("read ControllerRevision %s/%s: %w", r.Namespace, r.Name, err)
		}
		revision := Revision{
			Number:   r.Revision,
			Name:     r.Name,
			Created:  &r.CreationTimestamp,
			Images:   images(template),
			Cause:    r.Annotations[topology.AnnotationChangeCause],
			template: template,
		}
		if same {
			// A cluster stores the template of now, as the newest. A hub has stored it when the workload left it earlier.
			if r == w.kept[len(w.kept)-1] {
				current.Number = r.Revision
			}
			current.Name, current.Created = revision.Name, revision.Created
			continue
		}
		w.revisions = append(w.revisions, revision)
	}
	w.revisions = append(w.revisions, current)
	return w, nil
}

// sameTemplate tells whether two pod templates mean the same.
func sameTemplate(a, b *corev1.PodTemplateSpec) (bool, error) {
	x, err := history.Canonical(*a)
	if err != nil {
		return false, err
	}
	y, err := history.Canonical(*b)
	return string(x) == string(y), err
}

// storedTemplate returns the pod template within a revision.
func storedTemplate(object client.Object, r *appsv1.ControllerRevision) (*corev1.PodTemplateSpec, error) {
	if _, ok := object.(*apps.UnitedDeployment); ok {
		subset, err := history.Decode[apps.SubsetTemplate](r.Data.Raw)
		if err != nil {
			return nil, err
		}
		ud := &apps.UnitedDeployment{Spec: apps.UnitedDeploymentSpec{Template: subset}}
		if template := podtemplate.Of(ud); template != nil {
			return template, nil
		}
		return nil, errors.New("it holds no pod template")
	}
	template, err := history.Decode[corev1.PodTemplateSpec](r.Data.Raw)
	return &template, err
}

func images(template *corev1.PodTemplateSpec) []string {
	list := []string{}
	for i := range template.Spec.Containers {
		list = append(list, template.Spec.Containers[i].Image)
	}
	return list
}

// pick returns the revision with a number, or for 0 the newest one before the current.
func pick(key wire.Key, revisions []Revision, number int64) (*Revision, error) {
	if number == 0 {
		if len(revisions) < 2 {
			return nil, fmt.Errorf("%s has no earlier template: a hub keeps one when the template changes", key.Sentence())
		}
		return &revisions[len(revisions)-2], nil
	}
	if i := slices.IndexFunc(revisions, func(r Revision) bool { return r.Number == number }); i >= 0 {
		return &revisions[i], nil
	}
	return nil, fmt.Errorf(
		"%s has no revision %d: see flotilla rollout history %s/%s -n %s",
		key.Sentence(),
		number,
		strings.ToLower(key.Kind),
		key.Name,
		key.Namespace,
	)
}

// undo gives an object the pod template of a revision with its change cause, as kubectl does: the cause of the
// template that is left would be kept for the other one. All other fields stay, so its partition holds for the way
// back too.
func undo(object client.Object, r *Revision) error {
	template := podtemplate.Of(object)
	if template == nil {
		return fmt.Errorf("%s/%s has no pod template: give spec.template", object.GetNamespace(), object.GetName())
	}
	*template = *r.template.DeepCopy()
	annotations := object.GetAnnotations()
	switch {
	case r.Cause == "":
		delete(annotations, topology.AnnotationChangeCause)
	case annotations == nil:
		annotations = map[string]string{topology.AnnotationChangeCause: r.Cause}
	default:
		annotations[topology.AnnotationChangeCause] = r.Cause
	}
	object.SetAnnotations(annotations)
	return nil
}

// diff returns what differs between two templates, in the unified form, "" for nothing.
func diff(from, to *Revision) (string, error) {
	a, err := yaml.Marshal(from.template)
	if err != nil {
		return "", fmt.Errorf("write %s as YAML: %w", from.Name, err)
	}
	b, err := yaml.Marshal(to.template)
	if err != nil {
		return "", fmt.Errorf("write %s as YAML: %w", to.Name, err)
	}
	return udiff.Unified(from.label(), to.label(), string(a), string(b)), nil
}

func (r *Revision) label() string {
	if r.Number == 0 {
		return r.Name
	}
	return fmt.Sprintf("%s (revision %d)", r.Name, r.Number)
}

// read returns a workload and its templates.
func read(ctx context.Context, c client.Client, key wire.Key) (*workload, error) {
	object, err := get(ctx, c, key)
	if err != nil {
		return nil, err
	}
	list := &appsv1.ControllerRevisionList{}
	if err := c.List(ctx, list, client.InNamespace(key.Namespace)); err != nil {
		return nil, fmt.Errorf("list ControllerRevisions of %s: %w", key.Namespace, err)
	}
	return historyOf(key, object, list.Items)
}

// newHistory, newDiff and newUndo return the verbs about earlier templates.
func newHistory() *cobra.Command {
	var output console.Output
	command := newVerb(
		"history",
		"List the templates that a workload had",
		func(ctx context.Context, c client.Client, out io.Writer, key wire.Key) error {
			if err := output.Check(); err != nil {
				return err
			}
			w, err := read(ctx, c, key)
			if err != nil {
				return err
			}
			return output.Print(out, w.revisions, func(out io.Writer) error { return table(out, w.revisions) })
		},
	)
	output.AddFlag(command)
	return command
}

func table(out io.Writer, revisions []Revision) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "REVISION\tNAME\tCREATED\tIMAGES\tCHANGE-CAUSE")
	for _, r := range revisions {
		number, created, cause := fmt.Sprint(r.Number), "-", r.Cause
		if cause == "" {
			cause = "-"
		}
		if r.Current {
			number += " (current)"
		}
		if r.Created != nil {
			created = r.Created.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", number, r.Name, created, strings.Join(r.Images, ","), cause)
	}
	return w.Flush()
}

func newDiff() *cobra.Command {
	var number int64
	command := newVerb(
		"diff",
		"Show what undo would change in the pod template",
		func(ctx context.Context, c client.Client, out io.Writer, key wire.Key) error {
			w, err := read(ctx, c, key)
			if err != nil {
				return err
			}
			to, err := w.target(ctx, c, number)
			if err != nil {
				return err
			}
			text, err := diff(&w.revisions[len(w.revisions)-1], to)
			if err != nil {
				return err
			}
			_, err = io.WriteString(out, text)
			return err
		},
	)
	command.Flags().
		Int64Var(&number, "to-revision", 0, "the revision to compare with; 0 for the one that waves under way leave, or "+
			"else the one before the current")
	return command
}
