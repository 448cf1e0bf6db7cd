package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	"github.com/flotilla-dev/flotilla/apis/apps/conversion"
	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/e2e/hostile/objects"
	tested "github.com/flotilla-dev/flotilla/e2e/kinds"
	"github.com/flotilla-dev/flotilla/hub"
	"github.com/flotilla-dev/flotilla/hub/aggregate"
	"github.com/flotilla-dev/flotilla/hub/delivery"
	"github.com/flotilla-dev/flotilla/hub/explain"
	"github.com/flotilla-dev/flotilla/hub/kinds"
	"github.com/flotilla-dev/flotilla/hub/snapshot"
	"github.com/flotilla-dev/flotilla/hub/store"
	"github.com/flotilla-dev/flotilla/hub/wire"
	memberagent "github.com/flotilla-dev/flotilla/member-agent"
	"github.com/flotilla-dev/flotilla/member-agent/apply"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/spread"
)

const (
	hubID     = "hub"
	namespace = "shop"
)

// world is what stands on a hub, well meant, and takes one hostile object at a time.
type world struct {
	scheme *runtime.Scheme
	stands *snapshot.Snapshot
	good   map[string]client.Object
	// names are those of the well-meant objects, by kind.
	names     map[string]string
	kinds     kinds.Table
	converter http.Handler
	now       time.Time
	// taken is how many objects came as far as the decision.
	taken int
}

// workloads are those about which the hub decides, one of each kind.
func (w *world) workloads() []wire.Key {
	var keys []wire.Key
	for _, kind := range tested.All() {
		keys = append(keys, wire.Key{Group: kind.Group, Kind: kind.Kind, Namespace: namespace, Name: w.names[kind.Kind]})
	}
	return keys
}

// newWorld makes the world from the objects that hostile ones are made from.
func newWorld(ctx context.Context) (*world, error) {
	scheme, err := hub.Scheme()
	if err != nil {
		return nil, err
	}
	registry := webhook.NewRegistry()
	for _, kind := range conversion.Kinds() {
		if err := registry.RegisterConverter(kind, conversion.Converter{}); err != nil {
			return nil, err
		}
	}
	w := &world{
		scheme:    scheme,
		stands:    snapshot.New(scheme),
		good:      map[string]client.Object{},
		names:     map[string]string{},
		kinds:     kinds.Workloads(),
		converter: webhook.NewWebhookHandler(conversion.Scheme(), registry),
		now:       time.Now(),
	}
	put := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: hubID}},
		&corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{topology.LabelFederated: "true"}},
		},
	}
	for _, o := range objects.Bases() {
		w.names[o.Kind] = o.Name
		good, err := w.decode(o.JSON, o.APIVersion, o.Kind)
		if errors.Is(err, errForeign) {
			continue // an older version: what is stored is the newer one
		}
		if err != nil {
			return nil, fmt.Errorf("read the well-meant %s: %w", o.Kind, err)
		}
		w.place(good)
		put = append(put, good)
		if m, ok := good.(*topology.MemberCluster); ok {
			second := m.DeepCopy()
			second.Name, second.Spec.ClusterID, second.Status.ClusterID = "west", "id-west", "id-west"
			put = append(put, second)
		}
		w.good[o.Kind] = good
	}
	return w, errors.Join(w.stands.Put(put...), store.Index(ctx, w.stands))
}

// errForeign: the hub does not read objects of that version.
var errForeign = errors.New("no kind of the hub")

// decode reads an object as a client does that knows its type.
func (w *world) decode(data []byte, apiVersion, kind string) (client.Object, error) {
	gvk := schema.FromAPIVersionAndKind(apiVersion, kind)
	if !w.scheme.Recognizes(gvk) {
		return nil, errForeign
	}
	made, err := w.scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	object, ok := made.(client.Object)
	if !ok {
		return nil, errForeign
	}
	if err := json.Unmarshal(data, object); err != nil {
		return nil, err
	}
	return object, nil
}

// place gives an object the name of the well-meant one, whose place it takes.
func (w *world) place(o client.Object) {
	gvks, _, err := w.scheme.ObjectKinds(o)
	if err != nil || len(gvks) == 0 {
		return
	}
	o.SetName(w.names[gvks[0].Kind])
	switch gvks[0].Kind {
	case "MemberCluster", "ClusterFederationPolicy":
		o.SetNamespace("")
	case "Work":
		o.SetNamespace(wire.MemberNamespace("east"))
	default:
		o.SetNamespace(namespace)
	}
	if o.GetUID() == "" {
		o.SetUID("u")
	}
}

// finding is what a hostile object did.
type finding struct {
	object objects.Object
	number int
	err    error
}

func (f *finding) Error() string {
	return fmt.Sprintf("object %d, %s %s: %v\n%.4000s", f.number, f.object.APIVersion, f.object.Kind, f.err, f.object.JSON)
}

// meet lets the world meet an object. It returns what must not be: a panic, a conversion that fails, an error of the
// hub itself.
func (w *world) meet(ctx context.Context, o objects.Object) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
		if good := w.good[o.Kind]; good != nil {
			err = errors.Join(err, w.stands.Put(good))
		}
	}()
	read := &unstructured.Unstructured{}
	if json.Unmarshal(o.JSON, &read.Object) != nil || read.Object == nil {
		return nil // the API server refuses it as it comes
	}
	read.SetAPIVersion(o.APIVersion)
	read.SetKind(o.Kind)
	data := o.JSON
	// Kinds that have one version are not converted.
	if group := schema.FromAPIVersionAndKind(o.APIVersion, o.Kind).Group; group == apps.GroupVersion.Group &&
		w.scheme.Recognizes(apps.GroupVersion.WithKind(o.Kind)) {
		if data, err = w.convert(read); err != nil {
			return err
		}
		o.APIVersion = apps.GroupVersion.String()
	}
	object, err := w.decode(data, o.APIVersion, o.Kind)
	if err != nil {
		return nil //nolint:nilerr // no client of ours reads it either
	}
	w.place(object)
	if err := w.stands.Put(object); err != nil {
		return fmt.Errorf("put it into the world: %w", err)
	}
	err = w.decide(ctx)
	w.member(object)
	w.taken++
	return err
}

// convert asks the webhook for the other version and back, as an API server does, and returns the object as it is
// stored.
func (w *world) convert(o *unstructured.Unstructured) ([]byte, error) {
	raw, err := json.Marshal(o.Object)
	if err != nil {
		return nil, fmt.Errorf("write it again: %w", err)
	}
	way := []string{"v1alpha1", "v1beta1"}
	if o.GroupVersionKind().Version == way[0] {
		way = []string{way[1], way[0], way[1]} // an API server does not ask for the version that there is
	}
	for _, to := range way {
		review := fmt.Sprintf(
			`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u","desiredAPIVersion":%q,"objects":[%s]}}`,
			apps.GroupVersion.Group+"/"+to,
			raw,
		)
		answer := httptest.NewRecorder()
		w.converter.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/convert", bytes.NewBufferString(review)))
		var said struct {
			Response struct {
				Result           metav1.Status     `json:"result"`
				ConvertedObjects []json.RawMessage `json:"convertedObjects"`
			} `json:"response"`
		}
		if err := json.Unmarshal(answer.Body.Bytes(), &said); err != nil || answer.Code != http.StatusOK {
			return nil, fmt.Errorf("the webhook answers %d: %s", answer.Code, answer.Body)
		}
		if said.Response.Result.Status != metav1.StatusSuccess || len(said.Response.ConvertedObjects) != 1 {
			return nil, fmt.Errorf(
				"it is not converted to %s, so that an API server answers 500: %s",
				to,
				said.Response.Result.Message,
			)
		}
		raw = said.Response.ConvertedObjects[0]
	}
	return raw, nil
}

// decide does all that the hub does about its workloads.
func (w *world) decide(ctx context.Context) error {
	for _, key := range w.workloads() {
		facts, err := explain.Gather(ctx, w.stands, hubID, key)
		if err != nil {
			return fmt.Errorf("decide about %s: %w", key.Sentence(), err)
		}
		outcome := &facts.Forecast
		_ = explain.Plan(key, outcome)
		if _, err := explain.Why(facts, explain.Question{}); err != nil {
			return fmt.Errorf("say why about %s: %w", key.Sentence(), err)
		}
		cells := []topology.Cell{}
		placed := outcome.Present
		if outcome.Next != nil {
			cells = outcome.Next.Cells
			placed = &topology.WorkloadPlacement{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: key.Placement().Name, UID: "u"},
				Spec:       *outcome.Next,
			}
			if err := sums(outcome.Next); err != nil {
				return fmt.Errorf("decide about %s: %w", key.Sentence(), err)
			}
		}
		// An object that no manifest can be made of is told to its user.
		if outcome.Object != nil {
			_, _ = delivery.Render(w.kinds[key.GroupKind()], outcome.Object, cells, nil)
		}
		reported := &work.Work{}
		if err := w.stands.Get(ctx, client.ObjectKey{Namespace: wire.MemberNamespace("east"), Name: "shop.api.cloneset"},
			reported); err != nil {
			return err
		}
		sum := aggregate.Summarise(
			&aggregate.Facts{
				Key:       key,
				Kind:      w.kinds[key.GroupKind()],
				Kinds:     w.kinds,
				HubID:     hubID,
				Placement: placed,
				Works:     map[string]*work.Work{"east": reported},
			},
		)
		_ = sum.Done()
	}
	return nil
}

// sums holds what every decision holds: no cell has fewer than no replicas, and all that stay are together with those
// that have no cell what is asked for.
func sums(spec *topology.WorkloadPlacementSpec) error {
	var total int64
	for i := range spec.Cells {
		c := &spec.Cells[i]
		if c.Replicas < 0 {
			return fmt.Errorf("cell %s has %d replicas", c.Cluster, c.Replicas)
		}
		total += int64(c.Replicas) - int64(c.Replaced) // others stand in for those
	}
	for i := range spec.Unplaced {
		total += int64(spec.Unplaced[i].Replicas)
	}
	if total != int64(spec.Replicas) {
		return fmt.Errorf("%d replicas have a cell or a reason why not, and %d are asked for", total, spec.Replicas)
	}
	return nil
}

// member does what a member does about an object, as far as it is pure.
func (w *world) member(o client.Object) {
	switch o := o.(type) {
	case *work.Work:
		order, err := apply.ParseOrder(o)
		if err != nil {
			return // told in the Work
		}
		tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return
		}
		live := &unstructured.Unstructured{Object: tree}
		_ = apply.Decide(apply.Facts{Order: order, Live: live, Now: w.now})
		// an error is told
		_, _ = memberagent.Reporting(memberagent.Kinds()).Build(o.Status, apply.Outcome{HubID: order.HubID}, live,
			metav1.NewTime(w.now))
	case *apps.WorkloadSpread:
		if spread.Validate(o) != nil {
			return // told in its conditions
		}
		for _, replicas := range []int32{0, 10, 1 << 30} {
			_, _ = spread.Resolve(o, replicas) // an error is told
		}
	default:
		w.report(o)
	}
}

// report makes the report on a workload of a member.
func (w *world) report(o client.Object) {
	gvks, _, err := w.scheme.ObjectKinds(o)
	if err != nil || len(gvks) == 0 {
		return
	}
	if _, tests := tested.Of(gvks[0].GroupKind()); !tests {
		return
	}
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return
	}
	live := &unstructured.Unstructured{Object: tree}
	live.SetGroupVersionKind(gvks[0])
	_, _ = memberagent.Reporting(memberagent.Kinds()).Build(work.WorkStatus{},
		apply.Outcome{HubID: apply.Owner(live)}, live, metav1.NewTime(w.now)) // an error is told
}
