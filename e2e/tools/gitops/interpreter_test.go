package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"reflect"
	"testing"

	lua "github.com/yuin/gopher-lua"
	"go.yaml.in/yaml/v2"
)

// customization is what is read of a ResourceInterpreterCustomization of Karmada.
type customization struct {
	Spec struct {
		Target struct {
			APIVersion string `yaml:"apiVersion"`
			Kind       string `yaml:"kind"`
		} `yaml:"target"`
		Customizations map[string]struct {
			Script string `yaml:"luaScript"`
		} `yaml:"customizations"`
	} `yaml:"spec"`
}

// operations are the names under which Karmada looks for the function of each.
func operations() map[string]string {
	return map[string]string{
		"replicaResource": "GetReplicas", "replicaRevision": "ReviseReplica", "dependencyInterpretation": "GetDependencies",
		"retention":        "Retain",
		"statusReflection": "ReflectStatus", "statusAggregation": "AggregateStatus",
		"healthInterpretation": "InterpretHealth",
	}
}

// interpreters reads the shipped file: kind → function → script.
func interpreters(t *testing.T) map[string]map[string]string {
	t.Helper()
	data, err := os.ReadFile("../../../integrations/karmada/interpreters.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]map[string]string{}
	for decoder := yaml.NewDecoder(bytes.NewReader(data)); ; {
		c := customization{}
		if err := decoder.Decode(&c); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		if c.Spec.Target.APIVersion != "apps.kruise.io/v1beta1" {
			t.Errorf("%s is of %s", c.Spec.Target.Kind, c.Spec.Target.APIVersion)
		}
		scripts := map[string]string{}
		for operation, rule := range c.Spec.Customizations {
			function, known := operations()[operation]
			if !known {
				t.Errorf("%s has %s, which Karmada does not know", c.Spec.Target.Kind, operation)
			}
			scripts[function] = rule.Script
		}
		all[c.Spec.Target.Kind] = scripts
	}
}

// interpret calls a function as Karmada does: the script defines it, and of Lua's libraries there are those without I/O
// and "kube", whose functions say here that they were called.
func interpret(t *testing.T, script, function string, results int, args ...any) []any {
	t.Helper()
	l := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer l.Close()
	for name, open := range map[string]lua.LGFunction{lua.LoadLibName: lua.OpenPackage, lua.BaseLibName: lua.OpenBase,
		lua.TabLibName: lua.OpenTable, lua.StringLibName: lua.OpenString, lua.MathLibName: lua.OpenMath} {
		if err := l.CallByParam(lua.P{Fn: l.NewFunction(open), Protect: true}, lua.LString(name)); err != nil {
			t.Fatal(err)
		}
	}
	l.PreloadModule("kube", func(l *lua.LState) int {
		kube := l.NewTable()
		for _, name := range []string{"accuratePodRequirements", "getPodDependencies"} {
			l.SetField(kube, name, l.NewFunction(func(l *lua.LState) int {
				answer := l.NewTable()
				answer.RawSetString("by", lua.LString(name))
				answer.RawSetString("of", l.CheckTable(1))
				l.Push(answer)
				return 1
			}))
		}
		l.Push(kube)
		return 1
	})
	if err := l.DoString(script); err != nil {
		t.Fatalf("%s: %v", function, err)
	}
	values := make([]lua.LValue, len(args))
	for i, arg := range args {
		values[i] = table(l, arg)
	}
	if err := l.CallByParam(lua.P{Fn: l.GetGlobal(function), NRet: results, Protect: true}, values...); err != nil {
		t.Fatalf("%s: %v", function, err)
	}
	out := make([]any, results)
	for i := range out {
		out[i] = value(l.Get(i - results))
	}
	return out
}

// value is a value of Lua in JSON.
func value(v lua.LValue) any {
	switch v := v.(type) {
	case lua.LBool:
		return bool(v)
	case lua.LNumber:
		return float64(v)
	case lua.LString:
		return string(v)
	case *lua.LTable:
		if v.Len() > 0 {
			var list []any
			v.ForEach(func(_, element lua.LValue) { list = append(list, value(element)) })
			return list
		}
		object := map[string]any{}
		v.ForEach(func(key, field lua.LValue) { object[lua.LVAsString(key)] = value(field) })
		return object
	}
	return nil
}

// object parses JSON.
func object(t *testing.T, text string) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return out
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// TestInterpretersReflect holds what a hub reads in a Work: the whole status, the generation of the object, and that of
// the manifest.
func TestInterpretersReflect(t *testing.T) {
	all := interpreters(t)
	for _, kind := range []string{"CloneSet", "UnitedDeployment", "WorkloadSpread"} {
		script := all[kind]["ReflectStatus"]
		live := object(t, `{"metadata":{"generation":4,"annotations":{"resourcetemplate.karmada.io/generation":"17"}},
			"status":{"observedGeneration":4,"observedSequence":17,"replicas":3,"updatedReplicas":0,"subsetStatuses":[{"name":"a","replicas":3}],"conditions":[{"type":"Ready","status":"True"}]}}`)
		want := maps.Clone(live["status"].(map[string]any))
		want["generation"], want["resourceTemplateGeneration"] = 4.0, 17.0
		same(t, kind+" reflected", interpret(t, script, "ReflectStatus", 1, live)[0], any(want))
		same(t, kind+" without status or annotation", interpret(t, script, "ReflectStatus", 1,
			object(t, `{"metadata":{"generation":1}}`))[0], any(map[string]any{"generation": 1.0}))
	}
}

// TestInterpretersAggregate holds the sums, and that the generation moves once every member has answered it.
func TestInterpretersAggregate(t *testing.T) {
	all := interpreters(t)
	east := `{"clusterName":"east","status":{"generation":2,"observedGeneration":2,"resourceTemplateGeneration":5,"replicas":3,"readyReplicas":3,"updatedReplicas":1,"updateRevision":"web-2","currentRevision":"web-1",
		"subsetStatuses":[{"name":"a","replicas":3,"desiredReplicas":3,"updatedReplicas":1,"missingReplicas":2}]}}`
	west := `{"clusterName":"west","status":{"generation":7,"observedGeneration":7,"resourceTemplateGeneration":5,"replicas":2,"readyReplicas":1,"updatedReplicas":2,"updateRevision":"web-2",
		"subsetStatuses":[{"name":"a","replicas":1,"missingReplicas":-1},{"name":"b","replicas":1,"missingReplicas":0}]}}`
	behind := `{"clusterName":"west","status":{"generation":7,"observedGeneration":6,"resourceTemplateGeneration":5,"replicas":2}}`
	older := `{"clusterName":"west","status":{"generation":7,"observedGeneration":7,"resourceTemplateGeneration":4,"replicas":2}}`
	for _, kind := range []string{"CloneSet", "UnitedDeployment", "WorkloadSpread"} {
		aggregate := func(items ...string) map[string]any {
			var list []any
			for _, item := range items {
				list = append(list, object(t, item))
			}
			desired := object(t, `{"metadata":{"generation":5},"spec":{},"status":{"observedGeneration":3}}`)
			return interpret(t, all[kind]["AggregateStatus"], "AggregateStatus", 1, desired,
				list)[0].(map[string]any)["status"].(map[string]any)
		}
		both := aggregate(east, west)
		same(t, kind+" answered", both["observedGeneration"], 5.0)
		same(t, kind+" with one behind", aggregate(east, behind)["observedGeneration"], 3.0)
		same(t, kind+" with one of an older manifest", aggregate(east, older)["observedGeneration"], 3.0)
		same(t, kind+" with one that says nothing", aggregate(east, `{"clusterName":"west"}`)["observedGeneration"], 3.0)
		same(t, kind+" without members", aggregate()["observedGeneration"], 3.0)
		if kind != "CloneSet" {
			subsets := both["subsetStatuses"].([]any)
			a, b := subsets[0].(map[string]any), subsets[1].(map[string]any)
			same(t, kind+" subsets", []any{a["name"], a["replicas"], b["name"], b["replicas"]}, []any{"a", 4.0, "b", 1.0})
			if kind == "WorkloadSpread" {
				same(t, "missing", []any{a["missingReplicas"], b["missingReplicas"]}, []any{-1.0, 0.0})
				continue
			}
		}
		same(t, kind+" sums", []any{both["replicas"], both["readyReplicas"], both["updatedReplicas"],
			both["currentRevision"]}, []any{5.0, 4.0, 3.0, "web-1"})
	}
}

// TestInterpretersHealth holds that a partition and a pause are no illness, and that what is stuck or not seen yet is
// none of health.
func TestInterpretersHealth(t *testing.T) {
	all := interpreters(t)
	for _, test := range []struct {
		kind, what, object string
		healthy            bool
	}{
		{"CloneSet", "no status", `{"metadata":{"generation":1},"spec":{"replicas":3}}`, false},
		{"CloneSet", "an older generation",
			`{"metadata":{"generation":2},"spec":{"replicas":0},"status":{"observedGeneration":1}}`, false},
		{"CloneSet", "Ready",
			`{"metadata":{"generation":2},"spec":{"replicas":3},"status":{"observedGeneration":2,"conditions":[{"type":"Ready","status":"True"}]}}`, true},
		{"CloneSet", "paused",
			`{"metadata":{"generation":2},"spec":{"replicas":3},"status":{"observedGeneration":2,"conditions":[{"type":"Ready","status":"False","reason":"Paused"}]}}`, true},
		{"CloneSet", "updating",
			`{"metadata":{"generation":2},"spec":{"replicas":3},"status":{"observedGeneration":2,"availableReplicas":3,"conditions":[{"type":"Ready","status":"False","reason":"Updating"}]}}`, false},
		{"CloneSet", "of OpenKruise, as far as the partition asks",
			`{"metadata":{"generation":2},"spec":{"replicas":3},"status":{"observedGeneration":2,"availableReplicas":3,"updatedReplicas":1,"expectedUpdatedReplicas":1}}`, true},
		{"CloneSet", "of OpenKruise, on its way",
			`{"metadata":{"generation":2},"spec":{"replicas":3},"status":{"observedGeneration":2,"availableReplicas":3,"updatedReplicas":1,"expectedUpdatedReplicas":2}}`, false},
		{"CloneSet", "of OpenKruise, with too few",
			`{"metadata":{"generation":2},"spec":{"replicas":3},"status":{"observedGeneration":2,"availableReplicas":2}}`,
			false},
		{"UnitedDeployment", "Ready",
			`{"metadata":{"generation":2},"spec":{"replicas":3},"status":{"observedGeneration":2,"conditions":[{"type":"SubsetProvisioned","status":"True"},{"type":"Ready","status":"True"}]}}`, true},
		{"UnitedDeployment", "of OpenKruise, complete",
			`{"metadata":{"generation":2},"spec":{"replicas":3},"status":{"observedGeneration":2,"readyReplicas":3}}`, true},
		{"UnitedDeployment", "of OpenKruise, partial",
			`{"metadata":{"generation":2},"spec":{"replicas":3},"status":{"observedGeneration":2,"readyReplicas":2}}`, false},
		{"WorkloadSpread", "stalled",
			`{"metadata":{"generation":1},"status":{"observedGeneration":1,"conditions":[{"type":"Stalled","status":"True"}]}}`,
			false},
		{"WorkloadSpread", "seen", `{"metadata":{"generation":1},"status":{"observedGeneration":1}}`, true},
	} {
		same(t, test.kind+": "+test.what, interpret(t, all[test.kind]["InterpretHealth"], "InterpretHealth", 1,
			object(t, test.object))[0], any(test.healthy))
	}
}

// TestInterpretersOfReplicas holds what Karmada needs to divide a CloneSet by itself, and what it is to leave alone in
// a member.
func TestInterpretersOfReplicas(t *testing.T) {
	all := interpreters(t)
	set := `{"metadata":{"namespace":"shop"},"spec":{"replicas":4,"template":{"spec":{"containers":[]}}}}`
	answer := interpret(t, all["CloneSet"]["GetReplicas"], "GetReplicas", 2, object(t, set))
	same(t, "replicas", answer[0], any(4.0))
	same(t, "requirements", answer[1].(map[string]any)["by"], any("accuratePodRequirements"))
	same(t, "no replicas", interpret(t, all["CloneSet"]["GetReplicas"], "GetReplicas", 2,
		object(t, `{"spec":{"template":{}}}`))[0], any(1.0))
	revised := interpret(t, all["CloneSet"]["ReviseReplica"], "ReviseReplica", 1, object(t, set), 2.0)[0].(map[string]any)
	same(t, "revised", revised["spec"].(map[string]any)["replicas"], any(2.0))

	retain := func(desired, observed string) any {
		kept := interpret(t, all["CloneSet"]["Retain"], "Retain", 1, object(t, desired),
			object(t, observed))[0].(map[string]any)
		strategy, _ := kept["spec"].(map[string]any)["scaleStrategy"].(map[string]any)
		return strategy["podsToDelete"]
	}
	same(t, "names that were carried out", retain(`{"spec":{"scaleStrategy":{"podsToDelete":["web-1"]}}}`,
		`{"spec":{"scaleStrategy":{}}}`), nil)
	same(t, "names of the member's own", retain(`{"spec":{}}`, `{"spec":{"scaleStrategy":{"podsToDelete":["web-2"]}}}`),
		any([]any{"web-2"}))
	same(t, "no names at all", retain(`{"spec":{}}`, `{"spec":{}}`), nil)

	for kind, manifest := range map[string]string{"CloneSet": set,
		"UnitedDeployment": `{"metadata":{"namespace":"shop"},"spec":{"template":{"deploymentTemplate":{"spec":{"template":{"spec":{}}}}}}}`} {
		needs := interpret(t, all[kind]["GetDependencies"], "GetDependencies", 1, object(t, manifest))[0].(map[string]any)
		same(t, kind+" needs", needs["by"], any("getPodDependencies"))
	}
}
