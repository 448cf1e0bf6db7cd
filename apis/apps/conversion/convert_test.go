package conversion_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/flotilla-dev/flotilla/apis/apps/conversion"
	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	policyalpha "github.com/flotilla-dev/flotilla/apis/policy/v1alpha1"
	policybeta "github.com/flotilla-dev/flotilla/apis/policy/v1beta1"
)

const (
	alpha = "apps.kruise.io/v1alpha1"
	beta  = "apps.kruise.io/v1beta1"
)

// object reads a manifest of a kind, whose version and name are added.
func object(t *testing.T, apiVersion, kind, manifest string) *unstructured.Unstructured {
	t.Helper()
	var written map[string]any
	if err := yaml.Unmarshal([]byte(manifest), &written); err != nil {
		t.Fatalf("%v in\n%s", err, manifest)
	}
	if written["metadata"] == nil {
		written["metadata"] = map[string]any{}
	}
	u := &unstructured.Unstructured{Object: toInt64(written).(map[string]any)}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	u.SetName("web")
	return u
}

func toInt64(value any) any {
	switch value := value.(type) {
	case float64:
		if value == float64(int64(value)) {
			return int64(value)
		}
	case map[string]any:
		for key := range value {
			value[key] = toInt64(value[key])
		}
	case []any:
		for i := range value {
			value[i] = toInt64(value[i])
		}
	}
	return value
}

// converted converts, and finds that the source is as it was.
func converted(t *testing.T, source *unstructured.Unstructured, to string) *unstructured.Unstructured {
	t.Helper()
	before := source.DeepCopy()
	result, err := conversion.Convert(source, to)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(source, before) {
		t.Errorf("the conversion changed its source from\n%s to\n%s", text(before), text(source))
	}
	return result.DeepCopy()
}

// text is the object as YAML.
func text(u *unstructured.Unstructured) string {
	data, err := yaml.Marshal(u.Object)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// visible returns the object without the annotations of this package.
func visible(u *unstructured.Unstructured) *unstructured.Unstructured {
	u = u.DeepCopy()
	annotations := u.GetAnnotations()
	delete(annotations, conversion.RemainderOfV1alpha1)
	delete(annotations, conversion.RemainderOfV1beta1)
	if len(annotations) == 0 {
		annotations = nil
	}
	u.SetAnnotations(annotations)
	return u
}

// remainder returns the annotations of this package on an object.
func remainder(u *unstructured.Unstructured) string {
	return u.GetAnnotations()[conversion.RemainderOfV1alpha1] + u.GetAnnotations()[conversion.RemainderOfV1beta1]
}

func same(t *testing.T, what string, got, want *unstructured.Unstructured) {
	t.Helper()
	if !reflect.DeepEqual(got.Object, want.Object) {
		t.Errorf("%s is\n%s\nwant\n%s", what, text(got), text(want))
	}
}

// TestMapping converts what both versions can say: no remainder is left either way.
func TestMapping(t *testing.T) {
	for _, row := range []struct{ name, kind, alpha, beta string }{
		{"nothing given", "CloneSet", `spec: {}`, `spec: {scaleStrategy: {enablePVCReuse: true}}`},
		{"no reuse", "CloneSet", `spec: {scaleStrategy: {disablePVCReuse: true, podsToDelete: [a]}}`,
			`spec: {scaleStrategy: {enablePVCReuse: false, podsToDelete: [a]}}`},
		{"in place", "CloneSet", `spec: {updateStrategy: {type: InPlaceIfPossible, partition: 3, maxSurge: 20%, paused: true}}`,
			`spec: {scaleStrategy: {enablePVCReuse: true}, updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: InPlaceIfPossible, partition: 3, maxSurge: 20%, paused: true}}}`},
		{"recreate", "CloneSet", `spec: {updateStrategy: {type: ReCreate}}`,
			`spec: {scaleStrategy: {enablePVCReuse: true}, updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: ReCreate}}}`},
		{"in place only", "CloneSet", `spec: {updateStrategy: {type: InPlaceOnly, inPlaceUpdateStrategy: {gracePeriodSeconds: 5, imagePreDownloadParallelism: 10%}}}`,
			`spec: {scaleStrategy: {enablePVCReuse: true}, updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: InPlaceOnly, inPlaceUpdateStrategy: {gracePeriodSeconds: 5, imagePreDownloadParallelism: 10%}}}}`},
		{"no type", "CloneSet", `spec: {updateStrategy: {maxUnavailable: 1, priorityStrategy: {orderPriority: [{orderedKey: a}]}, scatterStrategy: [{key: a, value: b}]}}`,
			`spec: {scaleStrategy: {enablePVCReuse: true}, updateStrategy: {rollingUpdate: {maxUnavailable: 1, priorityStrategy: {orderPriority: [{orderedKey: a}]}, scatterStrategy: [{key: a, value: b}]}}}`},
		{"on delete", "CloneSet", `spec: {updateStrategy: {type: OnDelete, partition: 3, paused: true}}`,
			`spec: {scaleStrategy: {enablePVCReuse: true}, updateStrategy: {type: OnDelete, rollingUpdate: {partition: 3, paused: true}}}`},
		{"pods in their preDelete hook", "CloneSet", `{metadata: {labels: {apps.kruise.io/cloneset-scaling-exclude-preparing-delete: "true"}}, spec: {}}`,
			`spec: {scaleStrategy: {enablePVCReuse: true, excludePreparingDelete: true}}`},
		{"that label with another value", "CloneSet", `{metadata: {labels: {apps.kruise.io/cloneset-scaling-exclude-preparing-delete: "false", a: b}}, spec: {}}`,
			`{metadata: {labels: {apps.kruise.io/cloneset-scaling-exclude-preparing-delete: "false", a: b}}, spec: {scaleStrategy: {enablePVCReuse: true}}}`},
		{"an annotation that no field takes", "CloneSet",
			`{metadata: {annotations: {apps.kruise.io/image-predownload-parallelism: many, apps.kruise.io/image-predownload-timeout-seconds: "0"}}, spec: {}}`,
			`{metadata: {annotations: {apps.kruise.io/image-predownload-parallelism: many, apps.kruise.io/image-predownload-timeout-seconds: "0"}}, spec: {scaleStrategy: {enablePVCReuse: true}}}`},
		{"the template and the status", "CloneSet", `{spec: {replicas: 3, template: {spec: {containers: [{name: a, resources: {limits: {cpu: 0.5}}, future: [1]}]}}, lifecycle: {preNormal: {labelsHandler: {a: b}}}}, status: {replicas: 2, conditions: [{type: Ready, status: "True"}]}}`,
			`{spec: {replicas: 3, scaleStrategy: {enablePVCReuse: true}, template: {spec: {containers: [{name: a, resources: {limits: {cpu: 0.5}}, future: [1]}]}}, lifecycle: {preNormal: {labelsHandler: {a: b}}}}, status: {replicas: 2, conditions: [{type: Ready, status: "True"}]}}`},

		{"what both versions of a StatefulSet have", "StatefulSet",
			`{spec: {serviceName: db, podManagementPolicy: Parallel, template: {spec: {future: [1]}}, updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 1, unorderedUpdate: {}}}, flotilla: {steps: [{partition: 50%, soak: 10m, approval: Required}]}}, status: {replicas: 2, updateProgress: {revision: db-1, number: 1, of: 2}, updatedReadyReplicas: 1, volumeClaims: [{volumeClaimName: data, compatibleReplicas: 1}]}}`,
			`{spec: {serviceName: db, podManagementPolicy: Parallel, template: {spec: {future: [1]}}, updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 1, unorderedUpdate: {}}}, flotilla: {steps: [{partition: 50%, soak: 10m, approval: Required}]}}, status: {replicas: 2, updateProgress: {revision: db-1, number: 1, of: 2}, updatedReadyReplicas: 1, volumeClaims: [{volumeClaimName: data, compatibleReplicas: 1}]}}`},

		{"what both versions of a DaemonSet have", "DaemonSet",
			`{spec: {template: {spec: {future: [1]}}, burstReplicas: 10%, updateStrategy: {rollingUpdate: {rollingUpdateType: Standard, selector: {}, partition: 1}}}, status: {numberReady: 2, daemonSetHash: h}}`,
			`{spec: {template: {spec: {future: [1]}}, burstReplicas: 10%, updateStrategy: {rollingUpdate: {rollingUpdateType: Standard, selector: {}, partition: 1}}}, status: {numberReady: 2, updateRevision: h}}`},
		{"partitioned scaling", "DaemonSet", `{metadata: {annotations: {daemonset.kruise.io/progressive-create-pod: "true"}}, spec: {}}`,
			`spec: {scaleStrategy: {partitionedScaling: true}}`},
		{"no partitioned scaling", "DaemonSet", `{metadata: {annotations: {daemonset.kruise.io/progressive-create-pod: "false"}}, spec: {}}`,
			`{metadata: {annotations: {daemonset.kruise.io/progressive-create-pod: "false"}}, spec: {}}`},

		{"a BroadcastJob", "BroadcastJob", `{spec: {parallelism: 10%, template: {spec: {future: [1]}}, flotilla: {batches: {size: 1}}}, status: {desired: 2, flotilla: {batch: 1}}}`,
			`{spec: {parallelism: 10%, template: {spec: {future: [1]}}, flotilla: {batches: {size: 1}}}, status: {desired: 2, flotilla: {batch: 1}}}`},

		{"what both versions of an AdvancedCronJob have", "AdvancedCronJob",
			`{spec: {schedule: "@hourly", template: {jobTemplate: {spec: {future: [1]}}}}, status: {lastScheduleTime: "2026-01-01T00:00:00Z"}}`,
			`{spec: {schedule: "@hourly", template: {jobTemplate: {spec: {future: [1]}}}}, status: {lastScheduleTime: "2026-01-01T00:00:00Z"}}`},

		{"a ResourceDistribution", "ResourceDistribution",
			`{spec: {resource: {apiVersion: v1, kind: Secret, data: {a: Yg==}, future: [1]}, targets: {allNamespaces: true, namespaceLabelSelector: {matchLabels: {a: b}}}}, status: {desired: 2, conditions: [{type: ConflictOccurred, failedNamespace: [a]}]}}`,
			`{spec: {resource: {apiVersion: v1, kind: Secret, data: {a: Yg==}, future: [1]}, targets: {allNamespaces: true, namespaceSelector: {matchLabels: {a: b}}}}, status: {desired: 2, conditions: [{type: ConflictOccurred, failedNamespaces: [a]}]}}`},

		{"a PersistentPodState", "PersistentPodState",
			`{spec: {requiredPersistentTopology: {nodeTopologyKeys: [a]}, preferredPersistentTopology: [{weight: 1, preference: {nodeTopologyKeys: [b]}}], flotilla: {missingNodes: Release}}, status: {podStates: {a-0: {nodeTopologyLabels: {a: x}}}}}`,
			`{spec: {requiredPersistentTopology: {keys: [a]}, preferredPersistentTopology: [{weight: 1, preference: {keys: [b]}}], flotilla: {missingNodes: Release}}, status: {podStates: {a-0: {nodeTopologyLabels: {a: x}}}}}`},

		{"terms", "WorkloadSpread", `spec: {subsets: [{name: a, requiredNodeSelectorTerm: {matchExpressions: []}, maxReplicas: 3}, {name: b, preferredNodeSelectorTerms: [{weight: 1}], patch: {a: b}}]}`,
			`spec: {subsets: [{name: a, requiredNodeSelector: {matchExpressions: []}, maxReplicas: 3}, {name: b, preferredNodeSelector: [{weight: 1}], patch: {a: b}}]}`},
		{"a spread's status", "WorkloadSpread", `{spec: {}, status: {subsetStatuses: [{name: a, missingReplicas: -1, conditions: [{type: Schedulable, status: "False", observedGeneration: 2}]}]}}`,
			`{spec: {}, status: {subsetStatuses: [{name: a, missingReplicas: -1, conditions: [{type: Schedulable, status: "False", observedGeneration: 2}]}]}}`},

		{"a united status", "UnitedDeployment", `{spec: {}, status: {currentRevision: r1, updateStatus: {updatedRevision: r2, currentPartitions: {a: 1, b: 0}}, subsetReplicas: {a: 2, b: 3}, subsetStatuses: [{name: a, replicas: 2, partition: 1}, {name: b, replicas: 3, partition: 0}]}}`,
			`{spec: {}, status: {currentRevision: r1, updatedRevision: r2, subsetStatuses: [{name: a, replicas: 2, partition: 1}, {name: b, replicas: 3, partition: 0}]}}`},
		{"the published shape of cloneSetTemplate", "UnitedDeployment",
			`spec: {template: {cloneSetTemplate: {spec: {scaleStrategy: {enablePVCReuse: false}, updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: InPlaceOnly}}}}}}`,
			`spec: {template: {cloneSetTemplate: {spec: {scaleStrategy: {enablePVCReuse: false}, updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: InPlaceOnly}}}}}}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			old, now := object(t, alpha, row.kind, row.alpha), object(t, beta, row.kind, row.beta)
			same(t, "v1beta1", converted(t, old, beta), now)
			same(t, "v1alpha1", converted(t, now, alpha), old)
		})
	}
}

// TestUp converts v1alpha1 objects that say more than v1beta1 can, or the same in other words, and finds them again.
func TestUp(t *testing.T) {
	for _, row := range []struct{ name, kind, alpha, beta string }{
		{"the default written out", "CloneSet", `spec: {scaleStrategy: {disablePVCReuse: false}, updateStrategy: {}}`,
			`spec: {scaleStrategy: {enablePVCReuse: true}, updateStrategy: {}}`},
		{"an empty scaleStrategy", "CloneSet", `spec: {scaleStrategy: {}}`, `spec: {scaleStrategy: {enablePVCReuse: true}}`},
		{"annotations", "CloneSet", `{metadata: {annotations: {a: b, apps.kruise.io/image-predownload-parallelism: "05%", apps.kruise.io/image-predownload-timeout-seconds: "60", apps.kruise.io/image-predownload-min-updated-ready-pods: "2"}}, spec: {}}`,
			`{metadata: {annotations: {a: b}}, spec: {scaleStrategy: {enablePVCReuse: true}, updateStrategy: {rollingUpdate: {inPlaceUpdateStrategy: {imagePreDownloadParallelism: 5%, imagePreDownloadTimeoutSeconds: 60, imagePreDownloadMinUpdatedReadyPods: 2}}}}}`},
		{"an annotation beside its field", "CloneSet", `{metadata: {annotations: {apps.kruise.io/image-predownload-parallelism: "4"}}, spec: {updateStrategy: {type: OnDelete, inPlaceUpdateStrategy: {imagePreDownloadParallelism: 2}}}}`,
			`spec: {scaleStrategy: {enablePVCReuse: true}, updateStrategy: {type: OnDelete, rollingUpdate: {inPlaceUpdateStrategy: {imagePreDownloadParallelism: 4}}}}`},
		{"Surging", "DaemonSet", `spec: {updateStrategy: {rollingUpdate: {rollingUpdateType: Surging, maxSurge: 1}}}`,
			`spec: {updateStrategy: {rollingUpdate: {rollingUpdateType: Standard, maxSurge: 1}}}`},
		{"the flat shape in cloneSetTemplate", "UnitedDeployment",
			`spec: {template: {cloneSetTemplate: {spec: {replicas: 1, updateStrategy: {type: InPlaceIfPossible, partition: 3, maxSurge: 1}, scaleStrategy: {disablePVCReuse: false, enablePVCReuse: false}}}}}`,
			`spec: {template: {cloneSetTemplate: {spec: {replicas: 1, updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: InPlaceIfPossible, partition: 3, maxSurge: 1}}, scaleStrategy: {enablePVCReuse: true}}}}}`},
		{"a policy alone in cloneSetTemplate", "UnitedDeployment",
			`spec: {template: {cloneSetTemplate: {spec: {updateStrategy: {type: InPlaceOnly}}}}}`,
			`spec: {template: {cloneSetTemplate: {spec: {updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: InPlaceOnly}}}}}}`},
		{"a status without subsetStatuses", "UnitedDeployment",
			`{spec: {}, status: {updateStatus: {currentPartitions: {c: 1, b: 1}}, subsetReplicas: {b: 3, a: 0}}}`,
			`{spec: {}, status: {subsetStatuses: [{name: a, replicas: 0}, {name: b, replicas: 3, partition: 1}, {name: c, partition: 1}]}}`},
		{"a status that contradicts itself", "UnitedDeployment",
			`{spec: {}, status: {updateStatus: {}, subsetReplicas: {a: 5}, subsetStatuses: [{name: a, replicas: 2}]}}`,
			`{spec: {}, status: {subsetStatuses: [{name: a, replicas: 2}]}}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			old := object(t, alpha, row.kind, row.alpha)
			stored := converted(t, old, beta)
			same(t, "v1beta1", visible(stored), visible(object(t, beta, row.kind, row.beta)))
			if remainder(stored) == "" {
				t.Error("the v1beta1 object has no remainder")
			}
			same(t, "v1alpha1 again", converted(t, stored, alpha), old)
		})
	}
}

// TestDown converts v1beta1 objects that say more than v1alpha1 can.
func TestDown(t *testing.T) {
	for _, row := range []struct{ name, kind, beta, alpha string }{
		{"reuse is off by default", "CloneSet", `spec: {}`, `spec: {scaleStrategy: {disablePVCReuse: true}}`},
		{"the type written out", "CloneSet", `spec: {scaleStrategy: {enablePVCReuse: true}, updateStrategy: {type: RollingUpdate}}`, `spec: {updateStrategy: {}}`},
		{"no type with a policy", "CloneSet", `spec: {scaleStrategy: {enablePVCReuse: true}, updateStrategy: {rollingUpdate: {podUpdatePolicy: ReCreate}}}`, `spec: {updateStrategy: {type: ReCreate}}`},
		{"an empty type with a policy", "CloneSet", `spec: {scaleStrategy: {enablePVCReuse: true}, updateStrategy: {type: "", rollingUpdate: {podUpdatePolicy: InPlaceOnly}}}`, `spec: {updateStrategy: {type: InPlaceOnly}}`},
		{"an empty policy", "CloneSet", `spec: {scaleStrategy: {enablePVCReuse: true}, updateStrategy: {rollingUpdate: {podUpdatePolicy: ""}}}`, `spec: {updateStrategy: {}}`},
		{"an empty rollingUpdate", "CloneSet", `spec: {scaleStrategy: {enablePVCReuse: true}, updateStrategy: {rollingUpdate: {}}}`, `spec: {updateStrategy: {}}`},
		{"a policy beside OnDelete", "CloneSet", `spec: {scaleStrategy: {enablePVCReuse: true}, updateStrategy: {type: OnDelete, rollingUpdate: {podUpdatePolicy: InPlaceIfPossible, partition: 2}}}`, `spec: {updateStrategy: {type: OnDelete, partition: 2}}`},
		{"a type of v1alpha1", "CloneSet", `spec: {scaleStrategy: {enablePVCReuse: true}, updateStrategy: {type: InPlaceIfPossible, rollingUpdate: {partition: 1}}}`, `spec: {updateStrategy: {type: InPlaceIfPossible, partition: 1}}`},
		{"excludePreparingDelete written out", "CloneSet",
			`spec: {scaleStrategy: {enablePVCReuse: true, excludePreparingDelete: false}}`, `spec: {}`},
		{"the label without the field", "CloneSet", `{metadata: {labels: {apps.kruise.io/cloneset-scaling-exclude-preparing-delete: "true"}}, spec: {scaleStrategy: {enablePVCReuse: true}}}`, `spec: {}`},
		{"the label with another value, and the field", "CloneSet",
			`{metadata: {labels: {apps.kruise.io/cloneset-scaling-exclude-preparing-delete: "no"}}, spec: {scaleStrategy: {enablePVCReuse: true, excludePreparingDelete: true}}}`,
			`{metadata: {labels: {apps.kruise.io/cloneset-scaling-exclude-preparing-delete: "true"}}, spec: {}}`},
		{"what v1alpha1 of a StatefulSet lacks", "StatefulSet",
			`spec: {replicas: 3, ordinals: {start: 2}, reserveOrdinals: [1, "4-5"], lifecycle: {preDelete: {labelsHandler: {a: b}}}, scaleStrategy: {maxUnavailable: 10%}, persistentVolumeClaimRetentionPolicy: {whenScaled: Delete}, volumeClaimUpdateStrategy: {type: OnPodRollingUpdate}}`, `spec: {replicas: 3}`},
		{"no partitioned scaling written out", "DaemonSet", `spec: {scaleStrategy: {partitionedScaling: false}}`, `spec: {}`},
		{"the annotation of partitioned scaling without the field", "DaemonSet",
			`{metadata: {annotations: {daemonset.kruise.io/progressive-create-pod: "true", a: b}}, spec: {}}`,
			`{metadata: {annotations: {a: b}}, spec: {}}`},
		{"a template that v1alpha1 lacks", "AdvancedCronJob",
			`spec: {schedule: "@hourly", template: {imageListPullJobTemplate: {spec: {images: [a]}}}}`,
			`spec: {schedule: "@hourly", template: {}}`},
		{"the annotation without the field", "CloneSet",
			`{metadata: {annotations: {apps.kruise.io/image-predownload-parallelism: "4", a: b}}, spec: {scaleStrategy: {enablePVCReuse: true}}}`, `{metadata: {annotations: {a: b}}, spec: {}}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			stored := object(t, beta, row.kind, row.beta)
			shown := converted(t, stored, alpha)
			same(t, "v1alpha1", visible(shown), visible(object(t, alpha, row.kind, row.alpha)))
			if remainder(shown) == "" {
				t.Error("the v1alpha1 object has no remainder")
			}
			same(t, "v1beta1 again", converted(t, shown, beta), stored)
		})
	}
}

// TestSmuggled writes remainders by hand. What v1alpha1 shows decides, and only what Go clients can read is stored.
func TestSmuggled(t *testing.T) {
	const said = `spec: {updateStrategy: {type: OnDelete}, scaleStrategy: {disablePVCReuse: true}, template: {spec: {nodeName: node}}}`
	plain := object(t, alpha, "CloneSet", said)
	want := visible(converted(t, plain, beta))
	for _, carried := range []string{
		`5`, `[5]`, `{}`, `[{"at": 5}]`, `[{"is": 1}]`, `[{"at": "spec"}]`, `[{"at": ""}]`, `[{"at": "/"}]`, `not json`, `[`,
		`[{"at": "/spec"}]`, `[{"at": "/spec", "is": 5}]`, `[{"at": "/spec/replicas", "is": 7}]`,
		`[{"at": "/spec/updateStrategy"}]`,
		`[{"at": "/metadata/name", "is": "other"}]`, `[{"at": "/metadata"}]`, `[{"at": "/metadata/finalizers", "is": ["a"]}]`,
		`[{"at": "/kind", "is": "Other"}]`,
		`[{"at": "/spec/template/spec/nodeName", "is": 5}]`, `[{"at": "/spec/template/spec/hostNetwork", "is": true}]`,
		`[{"at": "/spec/updateStrategy/rollingUpdate", "is": {"partition": 1}}]`,
		`[{"at": "/spec/updateStrategy/rollingUpdate/podUpdatePolicy", "is": 5}]`,
		`[{"at": "/spec/updateStrategy/rollingUpdate", "is": 5}]`,
		`[{"at": "/spec/scaleStrategy/enablePVCReuse", "is": true}]`,
		`[{"at": "/spec/scaleStrategy/enablePVCReuse", "is": "no"}]`,
		`[{"at": "/metadata/labels/a", "is": "b"}]`, `[{"at": "/metadata/labels/apps.kruise.io~1cloneset-scaling-exclude-preparing-delete", "is": 5}]`,
		`[{"at": "/metadata/annotations/apps.flotilla.dev~1v1beta1-fields", "is": "[]"}]`,
		`[{"at": "/status/replicas", "is": 7}]`,
	} {
		u := plain.DeepCopy()
		u.SetAnnotations(map[string]string{conversion.RemainderOfV1beta1: carried})
		same(t, "with "+carried+" v1beta1", visible(converted(t, u, beta)), want)
	}
}

func TestRefused(t *testing.T) {
	for _, row := range []struct{ apiVersion, kind, to, says string }{
		{beta, "CloneSet", "apps.kruise.io/v1", "no such version"},
		{"apps.kruise.io/v1", "CloneSet", beta, "no such version"},
		{beta, "CloneSet", "apps/v1beta1", "no such conversion"},
		{"apps/v1alpha1", "CloneSet", "apps/v1beta1", "no such conversion"},
		{alpha, "EphemeralJob", beta, "convert apps.kruise.io/v1alpha1 EphemeralJob to apps.kruise.io/v1beta1"},
	} {
		_, err := conversion.Convert(object(t, row.apiVersion, row.kind, "{}"), row.to)
		if err == nil || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s %s to %s: %v, want an error that says %q", row.apiVersion, row.kind, row.to, err, row.says)
		}
	}
	u := object(t, alpha, "CloneSet", "{}")
	if same, err := conversion.Convert(u, alpha); same != u || err != nil {
		t.Errorf("its own version gives %v, %v", same, err)
	}
}

// knownWhole tells whether the Go type of the object reads it and knows all its fields.
func knownWhole(t *testing.T, u *unstructured.Unstructured) bool {
	t.Helper()
	typed, err := newScheme(t).New(u.GroupVersionKind())
	if err != nil {
		t.Fatal(err)
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, typed, true) == nil
}

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		v1alpha1.AddToScheme, v1beta1.AddToScheme, policyalpha.AddToScheme, policybeta.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

// TestWrongTypes converts objects that no API server passes on: nothing panics. What its Go type knows whole is not
// lost.
func TestWrongTypes(t *testing.T) {
	junk := []string{`5`, `a`, `[]`, `[5]`, `null`, `{}`, `{a: 5}`, `[{}]`, `true`}
	for _, kind := range []string{"CloneSet", "StatefulSet", "UnitedDeployment", "WorkloadSpread"} {
		for _, shape := range []string{
			`spec: %s`, `status: %s`, `spec: {updateStrategy: %s}`, `spec: {updateStrategy: {rollingUpdate: %s}}`,
			`spec: {updateStrategy: {type: %s}}`, `spec: {scaleStrategy: %s}`,
			`spec: {updateStrategy: {type: OnDelete, partition: %s, inPlaceUpdateStrategy: %[1]s}}`,
			`spec: {scaleStrategy: {disablePVCReuse: %s, enablePVCReuse: %[1]s, excludePreparingDelete: %[1]s}}`,
			`{metadata: {labels: %s}, spec: {}}`, `{metadata: {annotations: {apps.kruise.io/image-predownload-parallelism: "4"}}, spec: {updateStrategy: {inPlaceUpdateStrategy: %s}}}`,
			`spec: {subsets: %s}`, `spec: {subsets: [{requiredNodeSelector: %s, requiredNodeSelectorTerm: %[1]s}]}`,
			`spec: {template: %s}`, `spec: {template: {cloneSetTemplate: %s}}`,
			`spec: {template: {cloneSetTemplate: {spec: %s}}}`,
			`spec: {template: {cloneSetTemplate: {spec: {updateStrategy: %s, scaleStrategy: {disablePVCReuse: %[1]s}}}}}`,
			`status: {subsetStatuses: %s}`, `status: {subsetStatuses: [%s]}`,
			`status: {updateStatus: %s, subsetReplicas: %[1]s}`,
			`status: {updateStatus: {updatedRevision: %s, currentPartitions: {a: %[1]s}}, subsetReplicas: {a: %[1]s}}`,
		} {
			for _, value := range junk {
				manifest := fmt.Sprintf(shape, value)
				for _, way := range [][2]string{{alpha, beta}, {beta, alpha}} {
					u := object(t, way[0], kind, manifest)
					again := converted(t, converted(t, u, way[1]), way[0])
					if knownWhole(t, u) {
						same(t, kind+" "+manifest+" of "+way[0], again, u)
					}
				}
			}
		}
	}
}
