package main

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// schema is one node of an OpenAPI v3 schema.
type schema = map[string]any

// Bounds of inherited types, so that the cost of a rule is known. Label keys and values have the API server's own
// limits; the rest is far above what any manifest holds.
const (
	maxLabelKey    = 317 // a prefix of 253 characters, a slash, a name of 63
	maxLabelValue  = 63
	maxLabels      = 256
	maxExpressions = 64
	maxValues      = 256
	maxContainers  = 256
	maxClaims      = 64
	maxName        = 253
	maxImage       = 1024
	maxEphemeral   = 32
)

// ordinalRange is a range of ordinals with both ends.
const ordinalRange = "^[0-9]{1,10}-[0-9]{1,10}$"

// labelValue is what Kubernetes takes as the value of a label.
const labelValue = "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"

// finisher finishes the schemas of one kind.
type finisher struct {
	kind string
	// pods returns the declaration of a pod template of the kind.
	pods func() schema
}

// finish walks a schema and finishes what it knows by its shape. inTemplate is true below the template of a
// UnitedDeployment: defaults that are not published would change what the user wrote there, and with it the revision.
func (f finisher) finish(node schema, path string, inTemplate bool) error {
	if err := expandRules(node); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	properties, _ := node["properties"].(map[string]any)
	if inTemplate {
		reduce(node, properties, path)
	}
	declareValue(node, path)
	if properties["matchLabels"] != nil && properties["matchExpressions"] != nil {
		boundSelector(properties)
	}
	for name, p := range properties {
		child, ok := p.(map[string]any)
		if !ok {
			return fmt.Errorf("%s.%s is no schema", path, name)
		}
		f.declareField(name, path, child)
		if err := f.finish(child, path+"."+name, inTemplate || path == ".spec.template"); err != nil {
			return err
		}
	}
	for key, suffix := range map[string]string{"items": "[]", "additionalProperties": "{}"} {
		if child, ok := node[key].(map[string]any); ok {
			if err := f.finish(child, path+suffix, inTemplate); err != nil {
				return err
			}
		}
	}
	return nil
}

// declareField declares what a field below a path has by its name.
func (f finisher) declareField(name, path string, field schema) {
	switch {
	case preserved(field):
		f.declarePreserved(name, field)
	case f.kind == "SidecarSet" && path == ".spec" &&
		slices.Contains([]string{"containers", "initContainers", "volumes"}, name):
		declareSidecars(name, field["items"].(map[string]any))
	case name == "labels" && strings.HasSuffix(path, ".markerPolicy[]"):
		// A rule would cost too much: the length of keys has no bound for it.
		field["additionalProperties"] = schema{"type": "string", "maxLength": int64(maxLabelValue), "pattern": labelValue}
	case slices.Contains(nodeSelectorTerms(), name):
		boundNodeSelectorTerm(field)
	}
}

// reduce removes from a node below the template of a UnitedDeployment what children do not have.
func reduce(node schema, properties map[string]any, path string) {
	if !strings.HasSuffix(path, ".scaleStrategy.enablePVCReuse") { // its default is published
		delete(node, "default")
	}
	if strings.HasSuffix(path, ".advancedStatefulSetTemplate.spec") {
		delete(properties, "flotilla") // each child would stop by itself
	}
}

// declareValue declares what values a node of a scalar type takes.
func declareValue(node schema, path string) {
	if strings.HasSuffix(path, ".reserveOrdinals[]") {
		// The pattern is for strings. A rule would cost too much for each item of a list.
		declare(node, schema{"minimum": int64(0), "pattern": ordinalRange})
	}
	switch {
	case node["x-kubernetes-int-or-string"] == true:
		declare(node, intOrString())
	case node["format"] == "date-time":
		declare(node, moment())
	case node["type"] == "integer":
		declare(node, schema{"format": "int64"})
	}
}

// expandRules replaces the words in the validation rules of one node.
func expandRules(node schema) error {
	rules, _ := node["x-kubernetes-validations"].([]any)
	for _, r := range rules {
		rule, _ := r.(map[string]any)
		for _, key := range []string{"rule", "messageExpression"} {
			if expression, ok := rule[key].(string); ok {
				expanded, err := expand(expression)
				if err != nil {
					return err
				}
				rule[key] = expanded
			}
		}
	}
	return nil
}

// preserved tells whether everything below the node is kept as it is.
func preserved(node schema) bool {
	return node["x-kubernetes-preserve-unknown-fields"] == true && node["properties"] == nil && node["type"] == nil
}

// declarePreserved declares inside a preserved node what rules read, columns show or users ask kubectl explain for.
func (f finisher) declarePreserved(name string, node schema) {
	switch {
	case name == "template":
		declare(node, f.pods())
	case name == "jobTemplate":
		declare(node, object(map[string]any{
			"metadata": described("metadata of the jobs: labels and annotations.",
				addTypes(object(nil), typesOf[metav1.ObjectMeta]())),
			"spec": described("spec of the jobs, a batch/v1 JobSpec.", object(map[string]any{
				"template": described("template of the pods, a core/v1 PodTemplateSpec.", withRestartPolicy(f.pods())),
			})),
		}))
	case name == "spec":
		template := f.pods()
		template["description"] = "template is what the pods are made from (a core/v1 PodTemplateSpec); " +
			"the selector of the UnitedDeployment must match its labels."
		declare(node, object(map[string]any{"template": template}))
	case name == "volumeClaimTemplates":
		delete(node, "x-kubernetes-preserve-unknown-fields")
		declare(node, claimTemplates())
	case name == "ephemeralContainers":
		delete(node, "x-kubernetes-preserve-unknown-fields")
		declare(node, ephemeralContainers())
	case name == "metadata":
		declare(node, addTypes(object(nil), typesOf[metav1.ObjectMeta]()))
	case name == "patch":
		declare(node, object(nil))
	}
}

// declare adds to node what it lacks of the declaration.
func declare(node, declaration schema) {
	for key, value := range declaration {
		if _, has := node[key]; !has {
			node[key] = value
		}
	}
}

// object is an object with some declared properties that keeps all others as they are.
func object(properties map[string]any) schema {
	s := schema{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	if properties != nil {
		s["properties"] = properties
	}
	return s
}

func described(description string, s schema) schema {
	s["description"] = description
	return s
}

func text(description string, maxLength int) schema {
	return schema{"type": "string", "maxLength": int64(maxLength), "description": description}
}

// refuse is a validation rule that points at a field below its node.
func refuse(rule, fieldPath, message string) map[string]any {
	return map[string]any{"rule": rule, "fieldPath": fieldPath, "message": message}
}

// servingPods declares the template of pods that run until they are deleted.
func servingPods() schema {
	return podTemplate(
		"restartPolicy of the containers: Always, which is the default, because these pods run for ever.",
		"activeDeadlineSeconds cannot be set, because these pods run for ever.",
		refuse("!has(self.restartPolicy) || self.restartPolicy in ['', 'Always']", ".restartPolicy",
			"restartPolicy must be Always, because these pods run for ever: remove it, or use a job"),
		refuse("!has(self.activeDeadlineSeconds)", ".activeDeadlineSeconds",
			"activeDeadlineSeconds cannot be set, because these pods run for ever: remove it, or use a job"),
	)
}

// endingPods declares the template of pods that end.
func endingPods() schema {
	return podTemplate(
		"restartPolicy of the containers: Never or OnFailure.",
		"activeDeadlineSeconds is how long a pod may run, in seconds. Default: no limit.",
		refuse("!has(self.restartPolicy) || self.restartPolicy in ['', 'Never', 'OnFailure']", ".restartPolicy",
			"restartPolicy must be Never or OnFailure, because these pods end: correct it"),
	)
}

// withRestartPolicy adds to a pod template the rule that a Job of batch/v1 needs a restartPolicy. A missing one is
// Always, which only the creation of the first Job would refuse.
func withRestartPolicy(template schema) schema {
	spec := below(template)["spec"].(map[string]any)
	rules := spec["x-kubernetes-validations"].([]any)
	spec["x-kubernetes-validations"] = append(rules, refuse("has(self.restartPolicy) && self.restartPolicy != ''",
		".restartPolicy", "restartPolicy is missing, which is Always, and a Job needs Never or OnFailure: give one"))
	return template
}

// podTemplate declares of a pod template what rules read, and no more: the types of all of a pod are 100 kB, and cost
// as much at each write as the rest of the object. Mistakes elsewhere are found by the webhook for templates, and by
// the controllers.
//
// restartPolicy and deadline are the descriptions of two fields, and rules are those of the kind on the spec.
func podTemplate(restartPolicy, deadline string, rules ...any) schema {
	labels := described("labels of the pods; the selector must match them.", schema{
		"type":                 "object",
		"maxProperties":        int64(maxLabels),
		"additionalProperties": schema{"type": "string", "maxLength": int64(maxLabelValue)},
	})
	containers := described("containers of the pods, core/v1 Containers.", schema{
		"type":                   "array",
		"maxItems":               int64(maxContainers),
		"x-kubernetes-list-type": "atomic",
		"items":                  object(nil),
	})
	spec := described("spec of the pods, a core/v1 PodSpec.", object(map[string]any{
		"containers":            containers,
		"restartPolicy":         text(restartPolicy, maxLabelValue),
		"activeDeadlineSeconds": described(deadline, schema{"type": "integer", "format": "int64"}),
		"readinessGates": described("readinessGates of the pods, core/v1 PodReadinessGates.",
			typesOf[[]corev1.PodReadinessGate]()),
	}))
	spec["x-kubernetes-validations"] = append(rules, refuse("has(self.containers) && size(self.containers) > 0",
		".containers", "the template has no containers: give at least one with a name and an image"))
	metadata := described("metadata of the pods: labels, annotations and finalizers.", object(map[string]any{
		"labels":      labels,
		"annotations": described("annotations of the pods.", typesOf[map[string]string]()),
	}))
	metadata["x-kubernetes-validations"] = []any{
		refuse("!has(self.labels) || !('apps.kruise.io/specified-delete' in self.labels)", ".labels",
			"the label apps.kruise.io/specified-delete asks to delete every pod of the template: remove it"),
	}
	return object(map[string]any{"metadata": metadata, "spec": spec})
}

// claimTemplates declares the names of claim templates.
func claimTemplates() schema {
	metadata := described("metadata of the claims: name, labels and annotations.",
		object(map[string]any{"name": text("name of the claim template, and of the pod's volume that uses it.", maxName)}))
	metadata["required"] = []any{"name"}
	claim := object(map[string]any{
		"metadata": metadata,
		"spec":     described("spec of the claims, a core/v1 PersistentVolumeClaimSpec.", object(nil)),
	})
	claim["required"] = []any{"metadata"}
	types := typesOf[corev1.PersistentVolumeClaim]()
	addTypes(claim, types)
	return schema{
		"type":                   "array",
		"maxItems":               int64(maxClaims),
		"x-kubernetes-list-type": "atomic",
		"items":                  claim,
		"x-kubernetes-validations": []any{map[string]any{
			"rule":    "self.all(a, self.exists_one(b, a.metadata.name == b.metadata.name))",
			"message": "two volumeClaimTemplates have the same metadata.name: give each its own name",
		}},
	}
}

// ephemeralContainers declares the containers of an EphemeralJob with their types, and what rules read of them.
func ephemeralContainers() schema {
	absent := func(field, why string) map[string]any {
		return refuse("!has(self."+field+")", "."+field, field+" cannot be set, because "+why+": remove it")
	}
	const noProbes = "the kubelet does not probe ephemeral containers"
	// A rule does not see quantities. None of these fields is taken, so that their types do not matter.
	container := object(map[string]any{
		"name":  text("name of the container. No other container of the pods may have it.", maxLabelValue),
		"image": text("image of the container.", maxImage),
		"ports": described("ports cannot be set.", schema{"type": "array", "maxItems": int64(maxContainers),
			"x-kubernetes-list-type": "atomic", "items": object(nil)}),
		"resources": described("resources cannot be set.", object(map[string]any{
			"limits":   described("limits cannot be set.", object(nil)),
			"requests": described("requests cannot be set.", object(nil)),
		})),
		"lifecycle":      described("lifecycle cannot be set.", object(nil)),
		"livenessProbe":  described("livenessProbe cannot be set.", object(nil)),
		"readinessProbe": described("readinessProbe cannot be set.", object(nil)),
		"startupProbe":   described("startupProbe cannot be set.", object(nil)),
	})
	types := typesOf[corev1.EphemeralContainer]()
	for _, name := range []string{"ports", "resources", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe"} {
		delete(below(types), name)
	}
	container["required"] = []any{"name"}
	container["x-kubernetes-validations"] = []any{
		refuse("self.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')", ".name",
			"name is no name of a container: use lower-case letters, digits, and between them -"),
		refuse("has(self.image) && size(self.image) > 0", ".image", "image is missing: give the image of the container"),
		refuse("!has(self.ports) || size(self.ports) == 0", ".ports",
			"ports cannot be set, because ephemeral containers serve no traffic: remove them"),
		refuse("!has(self.resources) || !has(self.resources.limits) && !has(self.resources.requests)", ".resources",
			"resources cannot be set, because the pod has its place on the node already: remove them"),
		absent("lifecycle", "ephemeral containers have no hooks"),
		absent("livenessProbe", noProbes), absent("readinessProbe", noProbes), absent("startupProbe", noProbes),
	}
	return schema{
		"type":                   "array",
		"minItems":               int64(1),
		"maxItems":               int64(maxEphemeral),
		"x-kubernetes-list-type": "atomic",
		"items":                  addTypes(container, types),
		"x-kubernetes-validations": []any{map[string]any{
			"rule":    "self.all(a, self.exists_one(b, a.name == b.name))",
			"message": "two ephemeralContainers have the same name: give each its own name",
		}},
	}
}

// declareStorage declares the requested storage in the claim templates of a StatefulSet, for the rules on claims that
// grow. A rule does not see what may be any type, and other keys cannot be declared beside it: they are pruned.
func declareStorage(root schema) {
	claims := below(below(root)["spec"].(map[string]any))["volumeClaimTemplates"].(map[string]any)
	claim := claims["items"].(map[string]any)
	resources := below(below(claim)["spec"].(map[string]any))["resources"].(map[string]any)
	below(resources)["requests"] = schema{
		"type":        "object",
		"description": "requests of a claim.",
		"properties": map[string]any{
			"storage": described("storage that a claim requests.", schema{
				// API servers read bounds as floating-point numbers.
				"x-kubernetes-int-or-string": true, "pattern": quantityPattern, "minimum": int64(0), "maximum": int64(1 << 62),
			}),
		},
	}
}

// declareSidecars declares of the containers and volumes of a SidecarSet what rules read, and the key of the list.
func declareSidecars(name string, item schema) {
	properties := below(item)
	if properties == nil {
		properties = schema{}
		item["properties"] = properties
	}
	properties["name"] = text("name of it in the pod.", maxLabelValue)
	item["required"] = []any{"name"}
	if name == "volumes" {
		return
	}
	amounts := func(name string) schema {
		return described(name+" of the container, by the name of the resource.", object(nil))
	}
	policy := properties["podInjectPolicy"].(map[string]any)
	if policy["default"] = "BeforeAppContainer"; name == "initContainers" {
		policy["default"] = "AfterAppContainer"
	}
	properties["image"] = text("image of the container.", maxImage)
	properties["restartPolicy"] = text("restartPolicy is Always for native sidecars among the init containers.",
		maxLabelValue)
	properties["resources"] = described("resources of the container, a core/v1 ResourceRequirements.",
		object(map[string]any{"limits": amounts("limits"), "requests": amounts("requests")}))
}

// boundSelector bounds a label selector, and names its operators.
func boundSelector(properties map[string]any) {
	labels, _ := properties["matchLabels"].(map[string]any)
	labels["maxProperties"] = int64(maxLabels)
	labels["additionalProperties"] = schema{"type": "string", "maxLength": int64(maxLabelValue)}
	expressions, _ := properties["matchExpressions"].(map[string]any)
	boundExpressions(expressions, maxLabelValue, "In", "NotIn", "Exists", "DoesNotExist")
	if expressions["nullable"] == true {
		return // of what is declared for its types alone, the pod's API server is the judge
	}
	items, _ := expressions["items"].(map[string]any)
	items["x-kubernetes-validations"] = []any{
		refuse("!(self.operator in ['In', 'NotIn']) || (has(self.values) && size(self.values) > 0)", ".values",
			"values are missing, which the operators In and NotIn need: name them, or use Exists or DoesNotExist"),
		refuse("!(self.operator in ['Exists', 'DoesNotExist']) || !has(self.values) || size(self.values) == 0", ".values",
			"the operators Exists and DoesNotExist take no values: remove them, or use In or NotIn"),
	}
}

// nodeSelectorTerms are the names of fields that are a core/v1 NodeSelectorTerm.
func nodeSelectorTerms() []string {
	return []string{"nodeSelectorTerm", "requiredNodeSelector", "requiredNodeSelectorTerm", "preference"}
}

// boundNodeSelectorTerm bounds the requirements of a term. Its values may be names of nodes. A preference without
// requirements is another type: that of a PersistentPodState.
func boundNodeSelectorTerm(term schema) {
	properties, _ := term["properties"].(map[string]any)
	for _, name := range []string{"matchExpressions", "matchFields"} {
		expressions, ok := properties[name].(map[string]any)
		if !ok {
			continue
		}
		boundExpressions(expressions, maxName, "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
	}
}

func boundExpressions(expressions schema, valueLength int, operators ...any) {
	expressions["maxItems"] = int64(maxExpressions)
	items, _ := expressions["items"].(map[string]any)
	properties, _ := items["properties"].(map[string]any)
	declare(properties["key"].(map[string]any), schema{"maxLength": int64(maxLabelKey)})
	declare(properties["operator"].(map[string]any), schema{"enum": operators})
	values, _ := properties["values"].(map[string]any)
	values["maxItems"] = int64(maxValues)
	declare(values["items"].(map[string]any), schema{"maxLength": int64(valueLength)})
}
