package conversion_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// set puts a value, given as YAML, at a path; no value removes what is there.
func set(t *testing.T, u *unstructured.Unstructured, path, value string) {
	t.Helper()
	fields := strings.Split(path, "|")
	if value == "" {
		unstructured.RemoveNestedField(u.Object, fields...)
		return
	}
	var v any
	if err := yaml.Unmarshal([]byte(value), &v); err != nil {
		t.Fatal(err)
	}
	if err := unstructured.SetNestedField(u.Object, toInt64(v), fields...); err != nil {
		t.Fatal(err)
	}
}

const (
	strategy    = "spec|updateStrategy"
	scale       = "spec|scaleStrategy"
	exclude     = "metadata|labels|apps.kruise.io/cloneset-scaling-exclude-preparing-delete"
	parallelism = "metadata|annotations|apps.kruise.io/image-predownload-parallelism"
	inTemplate  = "spec|template|cloneSetTemplate|spec|updateStrategy"
)

// TestEditsOfV1alpha1 reads v1beta1 objects as v1alpha1, changes a field there, and writes them back: the change holds,
// and whatever it is not about is as it was.
func TestEditsOfV1alpha1(t *testing.T) {
	const onDelete = `spec: {scaleStrategy: {enablePVCReuse: true}, updateStrategy: {type: OnDelete, rollingUpdate: {podUpdatePolicy: InPlaceIfPossible, partition: 2}}}`
	for _, row := range []struct{ name, kind, stored, path, value, want string }{
		{"nothing about it", "CloneSet", onDelete, "spec|replicas", "5",
			`spec: {replicas: 5, scaleStrategy: {enablePVCReuse: true}, updateStrategy: {type: OnDelete, rollingUpdate: {podUpdatePolicy: InPlaceIfPossible, partition: 2}}}`},
		{"a limit beside OnDelete", "CloneSet", onDelete, strategy + "|partition", "3",
			`spec: {scaleStrategy: {enablePVCReuse: true}, updateStrategy: {type: OnDelete, rollingUpdate: {podUpdatePolicy: InPlaceIfPossible, partition: 3}}}`},
		{"the last limit goes", "CloneSet", onDelete, strategy + "|partition", "",
			`spec: {scaleStrategy: {enablePVCReuse: true}, updateStrategy: {type: OnDelete, rollingUpdate: {podUpdatePolicy: InPlaceIfPossible}}}`},
		{"another type", "CloneSet", onDelete, strategy + "|type", "ReCreate",
			`spec: {scaleStrategy: {enablePVCReuse: true}, updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: ReCreate, partition: 2}}}`},
		{"the default type", "CloneSet", onDelete, strategy + "|type", "",
			`spec: {scaleStrategy: {enablePVCReuse: true}, updateStrategy: {rollingUpdate: {partition: 2}}}`},
		{"the whole strategy goes", "CloneSet", onDelete, strategy, "", `spec: {scaleStrategy: {enablePVCReuse: true}}`},
		{"RollingUpdate written out stays", "CloneSet", `spec: {updateStrategy: {type: RollingUpdate}}`,
			strategy + "|partition", "1",
			`spec: {updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 1}}}`},
		{"RollingUpdate becomes OnDelete, the rest stays", "CloneSet", `spec: {updateStrategy: {type: RollingUpdate}}`,
			strategy + "|type", "OnDelete",
			`spec: {updateStrategy: {type: OnDelete}}`},
		{"a policy without a type", "CloneSet", `spec: {updateStrategy: {rollingUpdate: {podUpdatePolicy: ReCreate}}}`,
			strategy + "|type", "InPlaceOnly",
			`spec: {updateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceOnly}}}`},
		{"reuse on", "CloneSet", `spec: {}`, scale + "|disablePVCReuse", "false",
			`spec: {scaleStrategy: {enablePVCReuse: true}}`},
		{"reuse on by removing what turns it off", "CloneSet", `spec: {}`, scale, "",
			`spec: {scaleStrategy: {enablePVCReuse: true}}`},
		{"another field beside reuse", "CloneSet", `spec: {}`, scale + "|podsToDelete", "[a]",
			`spec: {scaleStrategy: {podsToDelete: [a]}}`},
		{"reuse off", "CloneSet", `spec: {scaleStrategy: {enablePVCReuse: true, excludePreparingDelete: false}}`,
			scale + "|disablePVCReuse", "true",
			`spec: {scaleStrategy: {enablePVCReuse: false, excludePreparingDelete: false}}`},
		{"the label comes", "CloneSet", `spec: {scaleStrategy: {excludePreparingDelete: false}}`, exclude, `"true"`,
			`spec: {scaleStrategy: {enablePVCReuse: false, excludePreparingDelete: true}}`},
		{"the label goes", "CloneSet", `spec: {scaleStrategy: {enablePVCReuse: true, excludePreparingDelete: true}}`,
			"metadata|labels", "", `spec: {scaleStrategy: {enablePVCReuse: true}}`},
		{"the label is false", "CloneSet", `spec: {scaleStrategy: {enablePVCReuse: true, excludePreparingDelete: true}}`,
			exclude, `"false"`,
			`{metadata: {labels: {apps.kruise.io/cloneset-scaling-exclude-preparing-delete: "false"}}, spec: {scaleStrategy: {enablePVCReuse: true}}}`},
		{"the annotation comes", "CloneSet", `spec: {scaleStrategy: {enablePVCReuse: true}, updateStrategy: {rollingUpdate: {inPlaceUpdateStrategy: {imagePreDownloadParallelism: 2}}}}`, parallelism, `"3"`,
			`spec: {scaleStrategy: {enablePVCReuse: true}, updateStrategy: {rollingUpdate: {inPlaceUpdateStrategy: {imagePreDownloadParallelism: 3}}}}`},
		{"a partition of a StatefulSet with reserved ordinals", "StatefulSet",
			`spec: {ordinals: {start: 2}, reserveOrdinals: [1, "4-5"], updateStrategy: {rollingUpdate: {partition: 2}}}`,
			strategy + "|rollingUpdate|partition", "1",
			`spec: {ordinals: {start: 2}, reserveOrdinals: [1, "4-5"], updateStrategy: {rollingUpdate: {partition: 1}}}`},
		{"a partition of a DaemonSet", "DaemonSet", `spec: {scaleStrategy: {partitionedScaling: false}, updateStrategy: {rollingUpdate: {partition: 2}}}`, strategy + "|rollingUpdate|partition", "1",
			`spec: {scaleStrategy: {partitionedScaling: false}, updateStrategy: {rollingUpdate: {partition: 1}}}`},
		{"a schedule of a template that v1alpha1 lacks", "AdvancedCronJob",
			`spec: {schedule: "@hourly", template: {imageListPullJobTemplate: {spec: {images: [a]}}}}`, "spec|schedule",
			`"@daily"`,
			`spec: {schedule: "@daily", template: {imageListPullJobTemplate: {spec: {images: [a]}}}}`},
		{"a term of a spread", "WorkloadSpread", `spec: {subsets: [{name: a, requiredNodeSelector: {matchFields: []}}]}`,
			"spec|subsets", `[{name: a, requiredNodeSelectorTerm: {}}, {name: b}]`,
			`spec: {subsets: [{name: a, requiredNodeSelector: {}}, {name: b}]}`},
		{"the shape of v1alpha1 in cloneSetTemplate", "UnitedDeployment",
			`spec: {template: {cloneSetTemplate: {spec: {updateStrategy: {rollingUpdate: {partition: 2}}}}}}`, inTemplate,
			`{type: InPlaceOnly, partition: 3}`,
			`spec: {template: {cloneSetTemplate: {spec: {updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: InPlaceOnly, partition: 3}}}}}}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			shown := converted(t, object(t, beta, row.kind, row.stored), alpha)
			set(t, shown, row.path, row.value)
			stored := converted(t, shown, beta)
			same(t, "v1beta1", visible(stored), visible(object(t, beta, row.kind, row.want)))
			same(t, "v1alpha1 again", visible(converted(t, stored, alpha)), visible(shown))
		})
	}
}

// TestEditsOfV1beta1 writes v1alpha1 objects, changes them as v1beta1, and reads them as v1alpha1 again.
func TestEditsOfV1beta1(t *testing.T) {
	const (
		annotated = `{metadata: {annotations: {apps.kruise.io/image-predownload-parallelism: "2"}}, spec: {scaleStrategy: {disablePVCReuse: false}}}`
		flat      = `spec: {template: {cloneSetTemplate: {spec: {updateStrategy: {type: InPlaceIfPossible, partition: 3}}}}}`
		rolling   = strategy + "|rollingUpdate"
	)
	for _, row := range []struct{ name, kind, written, path, value, want string }{
		{"nothing about it", "CloneSet", annotated, "spec|replicas", "5",
			`{metadata: {annotations: {apps.kruise.io/image-predownload-parallelism: "2"}}, spec: {replicas: 5, scaleStrategy: {disablePVCReuse: false}}}`},
		{"another limit", "CloneSet", annotated, rolling + "|partition", "1",
			`{metadata: {annotations: {apps.kruise.io/image-predownload-parallelism: "2"}}, spec: {scaleStrategy: {disablePVCReuse: false}, updateStrategy: {partition: 1}}}`},
		{"the field of the annotation", "CloneSet", annotated, rolling + "|inPlaceUpdateStrategy|imagePreDownloadParallelism",
			"3",
			`{spec: {scaleStrategy: {disablePVCReuse: false}, updateStrategy: {inPlaceUpdateStrategy: {imagePreDownloadParallelism: 3}}}}`},
		{"the field of the annotation goes", "CloneSet", annotated, strategy, "",
			`{spec: {scaleStrategy: {disablePVCReuse: false}}}`},
		{"a policy", "CloneSet", annotated, rolling + "|podUpdatePolicy", "InPlaceOnly",
			`{metadata: {annotations: {apps.kruise.io/image-predownload-parallelism: "2"}}, spec: {scaleStrategy: {disablePVCReuse: false}, updateStrategy: {type: InPlaceOnly}}}`},
		{"reuse off", "CloneSet", annotated, scale + "|enablePVCReuse", "false",
			`{metadata: {annotations: {apps.kruise.io/image-predownload-parallelism: "2"}}, spec: {scaleStrategy: {disablePVCReuse: true}}}`},
		{"pods to delete", "CloneSet", `spec: {scaleStrategy: {disablePVCReuse: false, podsToDelete: [a, b]}}`,
			scale + "|podsToDelete", "[b]",
			`spec: {scaleStrategy: {disablePVCReuse: false, podsToDelete: [b]}}`},
		{"no pods to delete any more", "CloneSet", `spec: {scaleStrategy: {podsToDelete: [a]}}`, scale + "|podsToDelete", "",
			`spec: {}`},
		{"preDelete", "CloneSet", annotated, scale + "|excludePreparingDelete", "true",
			`{metadata: {labels: {apps.kruise.io/cloneset-scaling-exclude-preparing-delete: "true"}, annotations: {apps.kruise.io/image-predownload-parallelism: "2"}}, spec: {scaleStrategy: {disablePVCReuse: false}}}`},
		{"preDelete off", "CloneSet", `{metadata: {labels: {apps.kruise.io/cloneset-scaling-exclude-preparing-delete: "true"}}, spec: {}}`, scale + "|excludePreparingDelete", "false", `spec: {}`},
		{"a field outside of the flat shape", "UnitedDeployment", flat, "spec|template|cloneSetTemplate|spec|minReadySeconds",
			"5",
			`spec: {template: {cloneSetTemplate: {spec: {minReadySeconds: 5, updateStrategy: {type: InPlaceIfPossible, partition: 3}}}}}`},
		{"a field of the flat shape", "UnitedDeployment", flat, inTemplate + "|rollingUpdate|partition", "5",
			`spec: {template: {cloneSetTemplate: {spec: {updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: InPlaceIfPossible, partition: 5}}}}}}`},
		{"another template", "UnitedDeployment", flat, "spec|template", "{deploymentTemplate: {spec: {}}}",
			`spec: {template: {deploymentTemplate: {spec: {}}}}`},
		{"a new revision", "UnitedDeployment", `{spec: {}, status: {subsetReplicas: {a: 1}}}`, "status|updatedRevision", "r",
			`{spec: {}, status: {subsetReplicas: {a: 1}, updateStatus: {updatedRevision: r}}}`},
		{"more replicas", "UnitedDeployment", `{spec: {}, status: {subsetReplicas: {a: 1}}}`, "status|subsetStatuses",
			"[{name: a, replicas: 2, readyReplicas: 1}]",
			`{spec: {}, status: {subsetReplicas: {a: 2}, subsetStatuses: [{name: a, replicas: 2, readyReplicas: 1}]}}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			stored := converted(t, object(t, alpha, row.kind, row.written), beta)
			set(t, stored, row.path, row.value)
			shown := converted(t, stored, alpha)
			same(t, "v1alpha1", visible(shown), visible(object(t, alpha, row.kind, row.want)))
			same(t, "v1beta1 again", visible(converted(t, shown, beta)), visible(stored))
		})
	}
}
