package simulator

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Kind is the name of an object's type, like "Pod".
type Kind string

// KindOf returns the kind of an object or of a list.
func KindOf(obj any) Kind {
	return Kind(strings.TrimSuffix(reflect.TypeOf(obj).Elem().Name(), "List"))
}

// server is an API server: what it holds is the truth. Objects that it holds are never changed, only replaced.
type server struct {
	now     func() time.Time
	objects map[Kind]map[types.NamespacedName]client.Object
	version int
	uids    int
	// changed is told of every change; after is nil where the object is gone.
	changed func(kind Kind, key types.NamespacedName, before, after client.Object)
	// admit may refuse a new object, as a quota does.
	admit func(obj client.Object) error
}

func (s *server) get(kind Kind, key types.NamespacedName) client.Object { return s.objects[kind][key] }

// list returns the objects of a kind in the order of their names.
func (s *server) list(kind Kind) []client.Object {
	return sorted(s.objects[kind])
}

func sorted(objects map[types.NamespacedName]client.Object) []client.Object {
	keys := slices.SortedFunc(maps.Keys(objects), func(a,
		b types.NamespacedName) int {
		return strings.Compare(a.String(), b.String())
	})
	out := make([]client.Object, 0, len(keys))
	for _, key := range keys {
		out = append(out, objects[key])
	}
	return out
}

func resource(kind Kind) schema.GroupResource {
	return schema.GroupResource{Resource: strings.ToLower(string(kind)) + "s"}
}

// store puts an object in its place under a new version, or takes it away.
func (s *server) store(kind Kind, key types.NamespacedName, obj client.Object) {
	before := s.objects[kind][key]
	s.version++
	if obj != nil {
		obj.SetResourceVersion(strconv.Itoa(s.version))
		if s.objects[kind] == nil {
			s.objects[kind] = map[types.NamespacedName]client.Object{}
		}
		s.objects[kind][key] = obj
	} else {
		delete(s.objects[kind], key)
	}
	if s.changed != nil {
		s.changed(kind, key, before, obj)
	}
}

// create stores a new object and returns it as stored.
func (s *server) create(obj client.Object) (client.Object, error) {
	kind, key := KindOf(obj), client.ObjectKeyFromObject(obj)
	if s.objects[kind][key] != nil {
		return nil, apierrors.NewAlreadyExists(resource(kind), key.Name)
	}
	if s.admit != nil {
		if err := s.admit(obj); err != nil {
			return nil, err
		}
	}
	made, _ := obj.DeepCopyObject().(client.Object)
	s.uids++
	made.SetUID(types.UID(fmt.Sprintf("uid-%d", s.uids)))
	made.SetCreationTimestamp(metav1.NewTime(s.now().Truncate(time.Second)))
	made.SetGeneration(1)
	clearStatus(made)
	switch made := made.(type) {
	case *corev1.Pod:
		made.Status.Phase = corev1.PodPending
	case *corev1.PersistentVolumeClaim:
		admitClaim(made)
	}
	s.store(kind, key, made)
	return made, nil
}

// change replaces an object by what edit makes of its copy, and returns it as stored. An edit that changes nothing
// makes no new version. sub is the subresource: "status" changes only the status, "resize" only the resources of a
// pod's containers, and "" all the rest.
func (s *server) change(kind Kind, key types.NamespacedName, sub string,
	edit func(client.Object) (client.Object, error)) (client.Object, error) {
	have := s.objects[kind][key]
	if have == nil {
		return nil, apierrors.NewNotFound(resource(kind), key.Name)
	}
	before, _ := have.DeepCopyObject().(client.Object)
	after, err := edit(before)
	if err != nil {
		return nil, err
	}
	if after.GetResourceVersion() != have.GetResourceVersion() {
		return nil, apierrors.NewConflict(resource(kind), key.Name,
			fmt.Errorf("the object has been modified; please apply your changes to the latest version and try again"))
	}
	if after.GetUID() != have.GetUID() {
		return nil, apierrors.NewConflict(resource(kind), key.Name,
			fmt.Errorf("precondition failed: UID in precondition: %s, UID in object meta: %s", after.GetUID(), have.GetUID()))
	}
	keepRest(after, have, sub == "status")
	if sub == "status" {
		if equality.Semantic.DeepEqual(part(have, "Status"), part(after, "Status")) {
			return have, nil
		}
		s.store(kind, key, after)
		return after, nil
	}
	if equality.Semantic.DeepEqual(have, after) {
		return have, nil
	}
	if !equality.Semantic.DeepEqual(part(have, "Spec"), part(after, "Spec")) {
		if err := mayChangeSpec(have, after, sub); err != nil {
			return nil, err
		}
		after.SetGeneration(have.GetGeneration() + 1)
	}
	if after.GetDeletionTimestamp() != nil && len(after.GetFinalizers()) == 0 && graceOver(after) {
		s.store(kind, key, nil)
		return after, nil
	}
	s.store(kind, key, after)
	return after, nil
}

// mayChangeSpec refuses what the API server refuses to change in a pod.
func mayChangeSpec(have, after client.Object, sub string) error {
	before, ok := have.(*corev1.Pod)
	if !ok {
		return nil
	}
	pod, _ := after.(*corev1.Pod)
	allowed := pod.Spec.DeepCopy()
	if len(allowed.Containers) == len(before.Spec.Containers) {
		for i := range allowed.Containers {
			if sub == "resize" {
				allowed.Containers[i].Resources = before.Spec.Containers[i].Resources
			} else {
				allowed.Containers[i].Image = before.Spec.Containers[i].Image
			}
		}
	}
	if before.Spec.NodeName == "" {
		allowed.NodeName = ""
	}
	allowed.ActiveDeadlineSeconds = before.Spec.ActiveDeadlineSeconds
	if !equality.Semantic.DeepEqual(*allowed, before.Spec) {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, pod.Name, nil)
	}
	return nil
}

// delete asks for the deletion of an object: with grace for pods that run, later where finalizers hold it, else at
// once.
func (s *server) delete(kind Kind, key types.NamespacedName, o client.DeleteOptions) error {
	have := s.objects[kind][key]
	if have == nil {
		return apierrors.NewNotFound(resource(kind), key.Name)
	}
	if p := o.Preconditions; p != nil {
		if (p.UID != nil && *p.UID != have.GetUID()) ||
			(p.ResourceVersion != nil && *p.ResourceVersion != have.GetResourceVersion()) {
			return apierrors.NewConflict(resource(kind), key.Name, fmt.Errorf("precondition failed"))
		}
	}
	grace := graceOf(have, o.GracePeriodSeconds)
	if grace == 0 && len(have.GetFinalizers()) == 0 {
		s.store(kind, key, nil)
		return nil
	}
	if have.GetDeletionTimestamp() != nil && *have.GetDeletionGracePeriodSeconds() <= grace {
		return nil
	}
	after, _ := have.DeepCopyObject().(client.Object)
	after.SetDeletionTimestamp(new(metav1.NewTime(s.now().Truncate(time.Second).Add(time.Duration(grace) * time.Second))))
	after.SetDeletionGracePeriodSeconds(&grace)
	s.store(kind, key, after)
	return nil
}

// graceOf returns the seconds that an object has left after its deletion was asked for. Only pods with a kubelet have
// any.
func graceOf(obj client.Object, asked *int64) int64 {
	pod, ok := obj.(*corev1.Pod)
	switch {
	case !ok, pod.Spec.NodeName == "", pod.Status.Phase == corev1.PodFailed, pod.Status.Phase == corev1.PodSucceeded:
		return 0
	case asked != nil:
		return *asked
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		return *pod.Spec.TerminationGracePeriodSeconds
	}
	return corev1.DefaultTerminationGracePeriodSeconds
}

func graceOver(obj client.Object) bool {
	grace := obj.GetDeletionGracePeriodSeconds()
	return grace == nil || *grace == 0
}

// part returns a field of an object, or nil if its type has none of that name.
func part(obj client.Object, field string) any {
	if value := reflect.ValueOf(obj).Elem().FieldByName(field); value.IsValid() {
		return value.Interface()
	}
	return nil
}

func clearStatus(obj client.Object) {
	if value := reflect.ValueOf(obj).Elem().FieldByName("Status"); value.IsValid() {
		value.SetZero()
	}
}

// keepRest takes back what a request may not change: the status, or all but the status.
func keepRest(after, have client.Object, status bool) {
	to, from := reflect.ValueOf(after).Elem(), reflect.ValueOf(have).Elem() // sharing is fine: neither is changed any more
	for i := range to.NumField() {
		isStatus := to.Type().Field(i).Name == "Status"
		if isStatus != status {
			to.Field(i).Set(from.Field(i))
		}
	}
}

// put copies an object into the one that a caller gave.
func put(from, into client.Object) {
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(from.DeepCopyObject()).Elem())
}
