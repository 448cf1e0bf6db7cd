package admission

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// operation is one step of a JSON patch (RFC 6902). An add of an existing field replaces it.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// patchOf returns the JSON patch that changes a pod as before was changed into after. Fields that this program does not
// know, of a newer API server, stay as they are. raw returns the pod as the API server sent it; few patches need it.
// The patch is nil if nothing has changed.
func patchOf(raw func() ([]byte, error), before, after *corev1.Pod) ([]byte, error) {
	d := &differ{raw: raw, encodes: map[reflect.Type]bool{}}
	d.value(nil, reflect.ValueOf(before).Elem(), reflect.ValueOf(after).Elem())
	if d.err != nil {
		return nil, d.err
	}
	if len(d.operations) == 0 {
		return nil, nil
	}
	patch, err := json.Marshal(d.operations)
	if err != nil {
		return nil, fmt.Errorf("encode the patch: %w", err)
	}
	return patch, nil
}

// place is the path of a value in the pod. It becomes text only where something has changed. nil is the pod.
type place struct {
	parent *place
	// owner and field are a field of a struct; without owner, key is that of a map or the index in a list.
	owner reflect.Type
	field int
	key   string
}

// tag returns the JSON name of a field, "" for fields that are inline, and whether the field is left out when empty,
// and when zero.
func (p *place) tag() (name string, omitEmpty, omitZero bool) {
	name, options, _ := strings.Cut(p.owner.Field(p.field).Tag.Get("json"), ",")
	for option := range strings.SplitSeq(options, ",") {
		omitEmpty, omitZero = omitEmpty || option == "omitempty", omitZero || option == "omitzero"
	}
	return name, omitEmpty, omitZero
}

// String returns the JSON pointer.
func (p *place) String() string {
	if p == nil {
		return ""
	}
	key := p.key
	if p.owner != nil {
		if key, _, _ = p.tag(); key == "" {
			return p.parent.String()
		}
	}
	return p.parent.String() + "/" + escape(key)
}

// item reports whether the place is in a list.
func (p *place) item() bool { return p != nil && p.owner == nil }

// differ collects the operations of a patch.
type differ struct {
	raw        func() ([]byte, error)
	operations []operation
	err        error
	// encodes is what encoded found.
	encodes map[reflect.Type]bool
}

// value compares the values at a place.
func (d *differ) value(at *place, before, after reflect.Value) {
	switch after.Kind() {
	case reflect.Struct:
		d.object(at, before, after)
	case reflect.Pointer:
		switch {
		case before.IsNil() && after.IsNil():
		case before.IsNil() || after.IsNil():
			d.set(at, after)
		case after.Elem().Kind() == reflect.Struct && !d.encoded(after.Type().Elem()):
			d.object(at, before.Elem(), after.Elem())
		case !d.same(before, after):
			d.set(at, after) // a pointer to a zero value is not left out
		}
	case reflect.Map:
		d.entries(at, before, after)
	case reflect.Slice:
		d.list(at, before, after)
	default:
		if !before.Equal(after) {
			d.set(at, after)
		}
	}
}

// object compares structs.
func (d *differ) object(at *place, before, after reflect.Value) {
	of := after.Type()
	if d.encoded(of) {
		if !d.same(before, after) {
			d.set(at, after)
		}
		return
	}
	if at != nil && at.owner != nil && before.IsZero() && !after.IsZero() && !d.sent(at) {
		d.set(at, after)
		return
	}
	for i := range of.NumField() {
		d.value(&place{parent: at, owner: of, field: i}, before.Field(i), after.Field(i))
	}
}

// encoded reports whether a type has a JSON encoding of its own.
func (d *differ) encoded(of reflect.Type) bool {
	encodes, known := d.encodes[of]
	if !known {
		encodes = reflect.PointerTo(of).Implements(reflect.TypeFor[json.Marshaler]())
		d.encodes[of] = encodes
	}
	return encodes
}

// same reports whether two values have the same JSON.
func (d *differ) same(before, after reflect.Value) bool {
	if before.Kind() == reflect.String {
		return before.String() == after.String()
	}
	if before.IsZero() && after.IsZero() {
		return true
	}
	a, err := json.Marshal(before.Interface())
	if err == nil {
		var b []byte
		if b, err = json.Marshal(after.Interface()); err == nil {
			return string(a) == string(b)
		}
	}
	d.err = fmt.Errorf("encode a value: %w", err)
	return true
}

// entries compares maps, whose keys are texts.
func (d *differ) entries(at *place, before, after reflect.Value) {
	if before.Len() == 0 || after.Len() == 0 {
		if before.Len() != after.Len() {
			d.set(at, after)
		}
		return
	}
	if before.Pointer() == after.Pointer() {
		return
	}
	keys := append(before.MapKeys(), after.MapKeys()...)
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	keys = slices.CompactFunc(keys, func(a, b reflect.Value) bool { return a.String() == b.String() })
	for _, key := range keys {
		was, is := before.MapIndex(key), after.MapIndex(key)
		entry := &place{parent: at, key: key.String()}
		switch {
		case !is.IsValid():
			d.add("remove", entry, reflect.Value{})
		case !was.IsValid() || !d.same(was, is):
			d.add("add", entry, is)
		}
	}
}

// list compares lists. Items are followed one by one where after has all items of before in their order, by name, and
// perhaps others between and behind them; any other list is replaced.
func (d *differ) list(at *place, before, after reflect.Value) {
	if before.Len() == 0 || after.Len() == 0 {
		if before.Len() != after.Len() {
			d.set(at, after)
		}
		return
	}
	if before.Len() == after.Len() && before.Pointer() == after.Pointer() {
		return
	}
	name := names(after.Type().Elem())
	is := func(i, j int) bool { return j < before.Len() && name(after.Index(i)) == name(before.Index(j)) }
	kept := 0
	for i := range after.Len() {
		if is(i, kept) {
			kept++
		}
	}
	if kept < before.Len() {
		d.set(at, after)
		return
	}
	kept = 0
	for i := range after.Len() {
		item := &place{parent: at, key: strconv.Itoa(i)}
		if is(i, kept) {
			d.value(item, before.Index(kept), after.Index(i))
			kept++
		} else {
			d.add("add", item, after.Index(i))
		}
	}
}

// set makes the place have the value, or nothing if its JSON leaves it out.
func (d *differ) set(at *place, value reflect.Value) {
	if at.item() {
		d.add("replace", at, value)
		return
	}
	if _, omitEmpty, omitZero := at.tag(); omitEmpty && empty(value) || omitZero && value.IsZero() {
		d.add("remove", at, reflect.Value{})
		return
	}
	d.add("add", at, value)
}

func (d *differ) add(op string, at *place, value reflect.Value) {
	o := operation{Op: op, Path: at.String()}
	switch {
	case value.IsValid() && value.CanAddr():
		o.Value = value.Addr().Interface() // as encodings with pointer receivers need it
	case value.IsValid():
		o.Value = value.Interface()
	}
	d.operations = append(d.operations, o)
}

// sent reports whether the API server sent an object at the place. Only a value that is zero may be missing.
func (d *differ) sent(at *place) bool {
	object, err := d.raw()
	for token := range strings.SplitSeq(strings.TrimPrefix(at.String(), "/"), "/") {
		if err != nil {
			break
		}
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		if index, isIndex := strconv.Atoi(token); isIndex == nil {
			var items []json.RawMessage
			if err = json.Unmarshal(object, &items); index < len(items) {
				object = items[index]
			}
			continue
		}
		var fields map[string]json.RawMessage
		err = json.Unmarshal(object, &fields)
		object = fields[token]
		if len(object) == 0 || string(object) == "null" {
			return false
		}
	}
	if err != nil {
		d.err = fmt.Errorf("decode the pod: %w", err)
	}
	return true
}

// empty reports whether omitempty leaves the value out.
func empty(value reflect.Value) bool {
	switch value.Kind() {
	case reflect.Map, reflect.Slice, reflect.String:
		return value.Len() == 0
	case reflect.Struct:
		return false
	}
	return value.IsZero()
}

// escape returns a key as a JSON pointer has it.
func escape(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

// names returns the function that returns the name of an item of a list, such as a container; "" for items without one.
func names(of reflect.Type) func(item reflect.Value) string {
	if of.Kind() == reflect.Struct {
		if field, ok := of.FieldByName("Name"); ok && field.Type.Kind() == reflect.String {
			return func(item reflect.Value) string { return item.FieldByIndex(field.Index).String() }
		}
	}
	return func(reflect.Value) string { return "" }
}
