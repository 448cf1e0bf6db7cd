package ownership

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/history/normal"
)

// Change is a field that two objects have otherwise.
type Change struct {
	// Path of the field, such as spec.template.spec.containers[web].image.
	Path []string
	// Ordered and Found are its values as JSON; empty where the field is absent.
	Ordered, Found string
	// secret: the values are not for messages.
	secret bool
}

// Field returns the path as text.
func (c *Change) Field() string {
	var text strings.Builder
	for i, step := range c.Path {
		if i > 0 && !strings.HasPrefix(step, "[") {
			text.WriteByte('.')
		}
		text.WriteString(step)
	}
	return text.String()
}

// String returns a phrase such as "spec.replicas is 5 (ordered: 3)". Values of Secrets are left out.
func (c *Change) String() string {
	switch {
	case c.secret:
		return c.Field() + " differs from the order"
	case c.Found == "":
		return fmt.Sprintf("%s is missing (ordered: %s)", c.Field(), c.Ordered)
	case c.Ordered == "":
		return fmt.Sprintf("%s is %s (not ordered)", c.Field(), c.Found)
	}
	return fmt.Sprintf("%s is %s (ordered: %s)", c.Field(), c.Found, c.Ordered)
}

// maxNamed is how many changes a sentence names.
const maxNamed = 3

// Sentence names the first changes, and how many others there are. It is empty for none.
func Sentence(changes []Change) string {
	var parts []string
	for i := range changes {
		if i == maxNamed {
			parts = append(parts, fmt.Sprintf("and %d more fields", len(changes)-maxNamed))
			break
		}
		parts = append(parts, changes[i].String())
	}
	return strings.Join(parts, ", ")
}

// Changes returns the fields that belong to the order and differ in meaning: found has them otherwise than wanted,
// which is the order or an object that was accepted for it. Defaults that an API server fills in are no changes.
func Changes(wanted, found, desired *unstructured.Unstructured) ([]Change, error) {
	a, err := normal.Fields(Content(wanted, desired))
	if err != nil {
		return nil, fmt.Errorf("compare %s %s/%s: %w", found.GetKind(), found.GetNamespace(), found.GetName(), err)
	}
	b, err := normal.Fields(Content(found, desired))
	if err != nil {
		return nil, fmt.Errorf("compare %s %s/%s: %w", found.GetKind(), found.GetNamespace(), found.GetName(), err)
	}
	kind := desired.GroupVersionKind().GroupKind()
	if kind == (schema.GroupKind{Kind: "Service"}) {
		dropTargetPorts(a)
		dropTargetPorts(b)
	}
	c := comparison{defaults: defaultsOf(kind), secret: kind == schema.GroupKind{Kind: "Secret"}}
	c.compare(nil, a, b)
	return c.changes, nil
}

// MetadataChanges returns the labels and annotations of the order that an object has otherwise, or not at all.
func MetadataChanges(found, desired *unstructured.Unstructured) []Change {
	var changes []Change
	compare := func(field string, want, have map[string]string) {
		for _, key := range slices.Sorted(maps.Keys(want)) {
			if got, ok := have[key]; !ok {
				changes = append(changes, Change{Path: []string{"metadata", field, key}, Ordered: text(want[key])})
			} else if got != want[key] {
				path := []string{"metadata", field, key}
				changes = append(changes, Change{Path: path, Ordered: text(want[key]), Found: text(got)})
			}
		}
	}
	compare("labels", desired.GetLabels(), found.GetLabels())
	compare("annotations", desired.GetAnnotations(), found.GetAnnotations())
	return changes
}

// Unexplained returns the changes without those that were accepted when the object was written, such as what a webhook
// of the member's admission adds. Fields that were accepted with another value come last: a webhook may give a new one
// with each write.
func Unexplained(changes []Change, accepted func(Change) (field, value bool)) []Change {
	var others, revalued []Change
	for _, c := range changes {
		switch field, value := accepted(c); {
		case value:
		case field:
			revalued = append(revalued, c)
		default:
			others = append(others, c)
		}
	}
	return append(others, revalued...)
}

// dropTargetPorts removes target ports that are the ports of a Service themselves, as an API server fills in.
func dropTargetPorts(service map[string]any) {
	ports, _, _ := unstructured.NestedFieldNoCopy(service, "spec", "ports") // another type has no ports
	items, _ := ports.([]any)
	for _, item := range items {
		if port, ok := item.(map[string]any); ok && port["targetPort"] == port["port"] {
			delete(port, "targetPort")
		}
	}
}

type comparison struct {
	defaults map[string]string
	secret   bool
	changes  []Change
}

func (c *comparison) compare(path []string, wanted, found any) {
	if same(wanted, found) {
		return
	}
	if c.compareObjects(path, wanted, found) || c.compareLists(path, wanted, found) || c.isDefault(path, wanted, found) {
		return
	}
	c.changes = append(c.changes, Change{Path: path, Ordered: text(wanted), Found: text(found), secret: c.secret})
}

// compareObjects compares objects by their fields, and reports whether the values are objects, or one is and the other
// is null.
func (c *comparison) compareObjects(path []string, wanted, found any) bool {
	w, isWanted := wanted.(map[string]any)
	f, isFound := found.(map[string]any)
	if isWanted && isFound || isWanted && found == nil || isFound && wanted == nil {
		c.compareFields(path, w, f)
		return true
	}
	return false
}

// compareLists compares lists item by item, and reports whether that is possible: they have the same length, or all
// items have names. Any other value is an empty list.
func (c *comparison) compareLists(path []string, wanted, found any) bool {
	w, isWanted := wanted.([]any)
	f, isFound := found.([]any)
	if isWanted && isFound && len(w) == len(f) {
		for i := range w {
			c.compare(append(slices.Clone(path), step(f[i], i)), w[i], f[i])
		}
		return true
	}
	return (isWanted || isFound) && c.compareNamed(path, w, f)
}

func (c *comparison) compareFields(path []string, wanted, found map[string]any) {
	keys := map[string]bool{}
	for key := range wanted {
		keys[key] = true
	}
	for key := range found {
		keys[key] = true
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		c.compare(append(slices.Clone(path), key), wanted[key], found[key])
	}
}

// compareNamed compares lists of different lengths by the names of their items, and reports
// whether all items have one of their own.
func (c *comparison) compareNamed(path []string, wanted, found []any) bool {
	w, okW := byName(wanted)
	f, okF := byName(found)
	if !okW || !okF {
		return false
	}
	for _, name := range slices.Sorted(maps.Keys(w)) {
		if _, ok := f[name]; !ok {
			at := append(slices.Clone(path), "["+name+"]")
			c.changes = append(c.changes, Change{Path: at, Ordered: text(w[name]), secret: c.secret})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f)) {
		at := append(slices.Clone(path), "["+name+"]")
		if _, ok := w[name]; !ok {
			c.changes = append(c.changes, Change{Path: at, Found: text(f[name]), secret: c.secret})
			continue
		}
		c.compare(at, w[name], f[name])
	}
	return true
}

func byName(items []any) (map[string]any, bool) {
	named := map[string]any{}
	for _, item := range items {
		fields, ok := item.(map[string]any)
		if !ok {
			return nil, false
		}
		name, ok := fields["name"].(string)
		if _, twice := named[name]; !ok || twice {
			return nil, false
		}
		named[name] = item
	}
	return named, true
}

// step returns the last part of the path of an item.
func step(item any, index int) string {
	if fields, ok := item.(map[string]any); ok {
		if name, ok := fields["name"].(string); ok {
			return "[" + name + "]"
		}
	}
	return "[" + strconv.Itoa(index) + "]"
}

// isDefault reports whether a field that the order does not have has the value that an API server gives it.
func (c *comparison) isDefault(path []string, wanted, found any) bool {
	if wanted != nil {
		return false
	}
	parts := slices.Clone(path)
	for i, part := range parts {
		if strings.HasPrefix(part, "[") {
			parts[i] = "*"
		}
	}
	value, ok := c.defaults[strings.Join(parts, ".")]
	return ok && value == text(found)
}

// same reports whether two values mean the same: nothing and an empty object or list do, and so do two spellings of one
// quantity.
func same(a, b any) bool {
	if reflect.DeepEqual(a, b) || empty(a) && empty(b) {
		return true
	}
	x, xOK := scalar(a)
	y, yOK := scalar(b)
	if !xOK || !yOK {
		return false
	}
	p, errP := resource.ParseQuantity(x)
	q, errQ := resource.ParseQuantity(y)
	return errP == nil && errQ == nil && p.Cmp(q) == 0
}

func scalar(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true
	}
	return "", false
}

func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}

// maxValue is how much of a value a message has, in bytes.
const maxValue = 80

// text returns a value as JSON, cut to what a message has room for; empty for an absent one.
func text(v any) string {
	if v == nil {
		return ""
	}
	data, err := json.Marshal(v)
	if err != nil {
		return "?" // what was decoded from JSON can be encoded
	}
	if len(data) > maxValue {
		return strings.ToValidUTF8(string(data[:maxValue]), "") + "…"
	}
	return string(data)
}

// defaultsOf returns the values, as JSON, that an API server gives to fields of a kind outside of its pod templates,
// whose defaults are kernel/history/normal's. * stands for an item of a list. An entry that is missing here costs a
// message that names a default, nothing else.
func defaultsOf(kind schema.GroupKind) map[string]string {
	defaults := map[string]string{}
	with := func(prefix string, pairs ...string) {
		for i := 0; i < len(pairs); i += 2 {
			defaults[prefix+pairs[i]] = pairs[i+1]
		}
	}
	with("spec.", "replicas", "1", "revisionHistoryLimit", "10")
	switch kind {
	case schema.GroupKind{Group: "apps", Kind: "Deployment"}:
		with("spec.", "progressDeadlineSeconds", "600", "strategy.type", `"RollingUpdate"`,
			"strategy.rollingUpdate.maxUnavailable", `"25%"`, "strategy.rollingUpdate.maxSurge", `"25%"`)
	case schema.GroupKind{Group: "apps", Kind: "StatefulSet"}:
		with("spec.", "podManagementPolicy", `"OrderedReady"`, "serviceName", `""`,
			"updateStrategy.type", `"RollingUpdate"`, "updateStrategy.rollingUpdate.partition", "0",
			"updateStrategy.rollingUpdate.maxUnavailable", "1",
			"persistentVolumeClaimRetentionPolicy.whenDeleted", `"Retain"`,
			"persistentVolumeClaimRetentionPolicy.whenScaled", `"Retain"`,
			"volumeClaimTemplates.*.apiVersion", `"v1"`, "volumeClaimTemplates.*.kind", `"PersistentVolumeClaim"`,
			"volumeClaimTemplates.*.spec.volumeMode", `"Filesystem"`, "volumeClaimTemplates.*.status.phase", `"Pending"`)
	case schema.GroupKind{Group: "apps", Kind: "DaemonSet"}:
		with("spec.updateStrategy.", "type", `"RollingUpdate"`,
			"rollingUpdate.maxUnavailable", "1", "rollingUpdate.maxSurge", "0")
	case schema.GroupKind{Group: "batch", Kind: "Job"}:
		with("spec.", "parallelism", "1", "completions", "1", "backoffLimit", "6", "completionMode", `"NonIndexed"`,
			"suspend", "false", "manualSelector", "false", "podReplacementPolicy", `"TerminatingOrFailed"`)
	case schema.GroupKind{Group: "batch", Kind: "CronJob"}:
		with("spec.", "concurrencyPolicy", `"Allow"`, "suspend", "false",
			"successfulJobsHistoryLimit", "3", "failedJobsHistoryLimit", "1")
	case schema.GroupKind{Kind: "Service"}:
		with("spec.", "type", `"ClusterIP"`, "sessionAffinity", `"None"`, "internalTrafficPolicy", `"Cluster"`,
			"externalTrafficPolicy", `"Cluster"`, "allocateLoadBalancerNodePorts", "true",
			"sessionAffinityConfig.clientIP.timeoutSeconds", "10800", "ports.*.protocol", `"TCP"`)
	case schema.GroupKind{Kind: "Secret"}:
		with("", "type", `"`+string(corev1.SecretTypeOpaque)+`"`)
	case apps.CloneSetKind.GroupKind():
		with("spec.updateStrategy.", "type", `"RollingUpdate"`, "rollingUpdate.maxUnavailable", `"20%"`,
			"rollingUpdate.maxSurge", "0", "rollingUpdate.partition", "0", "rollingUpdate.podUpdatePolicy", `"ReCreate"`)
	case apps.StatefulSetKind.GroupKind():
		with("spec.", "podManagementPolicy", `"OrderedReady"`, "updateStrategy.type", `"RollingUpdate"`,
			"updateStrategy.rollingUpdate.partition", "0", "updateStrategy.rollingUpdate.maxUnavailable", "1",
			"updateStrategy.rollingUpdate.podUpdatePolicy", `"ReCreate"`,
			"updateStrategy.rollingUpdate.minReadySeconds", "0", "volumeClaimUpdateStrategy.type", `"OnDelete"`,
			"persistentVolumeClaimRetentionPolicy.whenDeleted", `"Retain"`,
			"persistentVolumeClaimRetentionPolicy.whenScaled", `"Retain"`)
	case apps.UnitedDeploymentKind.GroupKind():
		with("spec.updateStrategy.", "type", `"Manual"`)
	}
	return defaults
}
