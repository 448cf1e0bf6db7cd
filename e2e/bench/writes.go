package main

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/flotilla-dev/flotilla/apis/crds"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

const (
	// writeRounds is how often the kinds take turns, writeBatch how many requests of one kind follow each other.
	writeRounds, writeBatch = 8, 150
	writeManager            = "bench"
)

// write is one kind of request about an object that has a number.
type write struct {
	name string
	send func(ctx context.Context, c client.Client, o *unstructured.Unstructured, round int) error
}

func writes() []write {
	return []write{
		{"create", func(ctx context.Context, c client.Client, o *unstructured.Unstructured, _ int) error {
			return c.Create(ctx, o, client.FieldOwner(writeManager))
		}},
		{"apply", func(ctx context.Context, c client.Client, o *unstructured.Unstructured, round int) error {
			labels := map[string]string{labelApp: o.GetName(), "round": fmt.Sprint(round)}
			if err := unstructured.SetNestedStringMap(o.Object, labels, "spec", "template", "metadata", "labels"); err != nil {
				return err
			}
			applied := client.ApplyConfigurationFromUnstructured(o)
			return c.Apply(ctx, applied, client.FieldOwner(writeManager), client.ForceOwnership)
		}},
		{"status patch", func(ctx context.Context, c client.Client, o *unstructured.Unstructured, round int) error {
			n := round + 1
			patch := fmt.Sprintf(`{"status":{"observedGeneration":%d,"replicas":%d,"readyReplicas":%d}}`, n, n, n)
			raw := client.RawPatch(types.MergePatchType, []byte(patch))
			return c.Status().Patch(ctx, o, raw, client.FieldOwner(writeManager))
		}},
	}
}

// openKind is a kind of this bench whose definition has no schema: what any kind of a definition costs at least.
const openKind = "OpenSet"

//go:embed testdata/openset.yaml
var definitions embed.FS

// writtenKind is a kind whose writes are measured.
type writtenKind struct {
	kind
	// as is the name of the kind of this bench that gets the content of kind, "" for kind itself.
	as string
}

func (k writtenKind) title() string { return cmp.Or(k.as, k.name) }

func (k writtenKind) object(scheme *runtime.Scheme, name string) (*unstructured.Unstructured, error) {
	o, err := untyped(scheme, k.build(metav1.NamespaceDefault, name, 0, image(1)))
	if err == nil && k.as != "" {
		o.SetGroupVersionKind(schema.GroupVersionKind{Group: "bench.flotilla.dev", Version: "v1", Kind: k.as})
	}
	return o, err
}

// writesSection measures what the API server computes for a write of a CloneSet, of a Deployment with the same pods,
// and of the CloneSet's content under a definition without a schema, in turns. No controller runs meanwhile.
func writesSection(ctx context.Context, b *bench) (err error) {
	const section = "writes"
	f, err := fleet.Start(ctx, fleet.Config{
		Bin: b.bin, NoHub: true, Members: []fleet.ClusterSpec{{Name: "east", NoKubelets: true}}, Progress: b.step,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Destroy()) }()
	east := f.Member("east")
	if err := east.InstallCRDs(ctx, crds.FS); err != nil {
		return err
	}
	open, err := fs.Sub(definitions, "testdata")
	if err != nil {
		return err
	}
	if err := east.InstallCRDs(ctx, open); err != nil {
		return err
	}
	c, err := connect(east)
	if err != nil {
		return err
	}
	server, err := componentPid(east, "kube-apiserver")
	if err != nil {
		return err
	}
	resume, err := halt(east, "kube-controller-manager")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, resume()) }()
	written := []writtenKind{
		{cloneSetKind(), ""},
		{deploymentKind(), ""},
		{cloneSetKind(), openKind},
	}
	for _, w := range writes() {
		took := map[string][]float64{}
		for round := range writeRounds {
			for _, k := range written {
				b.say("%s of %d %ss", w.name, writeBatch, k.title())
				cpu, err := batch(ctx, c, server, k, w, round)
				if err != nil {
					return fmt.Errorf("%s of a %s: %w", w.name, k.title(), err)
				}
				took[k.title()] = append(took[k.title()], cpu)
			}
		}
		for _, floor := range []string{"Deployment", openKind} {
			b.report.addWithFloor(
				section,
				fmt.Sprintf("%s of a CloneSet, beside a %s, CPU of the API server", w.name, floor),
				"ms",
				median(took["CloneSet"]),
				"of a "+floor,
				median(took[floor]),
			)
		}
	}
	return nil
}

// batch sends requests one after the other, and returns the API server's CPU time for each in ms.
func batch(ctx context.Context, c client.Client, server int, k writtenKind, w write, round int) (float64, error) {
	objects := make([]*unstructured.Unstructured, writeBatch)
	for i := range objects {
		name := fmt.Sprintf("%s-%d", w.name[:1], i)
		if w.name == "create" {
			name = fmt.Sprintf("c-%d-%d", round, i)
		}
		var err error
		if objects[i], err = k.object(c.Scheme(), name); err != nil {
			return 0, err
		}
		if w.name == "status patch" && round == 0 {
			if err := c.Create(ctx, objects[i]); err != nil {
				return 0, err
			}
		}
	}
	before, err := readUsage(server)
	if err != nil {
		return 0, err
	}
	for _, o := range objects {
		if err := w.send(ctx, c, o, round); err != nil {
			return 0, err
		}
	}
	after, err := readUsage(server)
	const ms = 1000
	return (after.cpu - before.cpu) * ms / writeBatch, err
}

// untyped returns the object as a person sends it: in JSON, whatever its kind.
func untyped(scheme *runtime.Scheme, o client.Object) (*unstructured.Unstructured, error) {
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, err
	}
	delete(tree, "status")
	u := &unstructured.Unstructured{Object: tree}
	gvk, err := apiutil.GVKForObject(o, scheme)
	u.SetGroupVersionKind(gvk)
	return u, err
}

// halt stops a component until resume is called.
func halt(c *fleet.Cluster, component string) (resume func() error, err error) {
	pid, err := componentPid(c, component)
	if err != nil {
		return nil, err
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return nil, fmt.Errorf("halt %s: %w", component, err)
	}
	return func() error { return syscall.Kill(pid, syscall.SIGCONT) }, nil
}
