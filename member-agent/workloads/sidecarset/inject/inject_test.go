package inject_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/inject"
	"github.com/flotilla-dev/flotilla/member-agent/workloads/sidecarset/revision"
)

func parse[T any](t *testing.T, text string) *T {
	t.Helper()
	out := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), out); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return out
}

func TestMatches(t *testing.T) {
	for _, tt := range []struct {
		name, spec, namespace string
		want                  bool
	}{
		{"labels", "{selector: {matchLabels: {app: web}}}", "shop", true},
		{"other labels", "{selector: {matchLabels: {app: db}}}", "shop", false},
		{"nothing is selected", "{selector: {}}", "shop", false},
		{"no selector", "{}", "shop", false},
		{"the system", "{selector: {matchLabels: {app: web}}}", "kube-system", false},
		{"the agent", "{selector: {matchLabels: {app: web}}}", "flotilla-system", false},
		{"a namespace", "{selector: {matchLabels: {app: web}}, namespaceSelector: {matchLabels: {env: prod}}}", "shop", true},
		{"another one", "{selector: {matchLabels: {app: web}}, namespaceSelector: {matchLabels: {env: dev}}}", "shop", false},
		{"all namespaces", "{selector: {matchLabels: {app: web}}, namespaceSelector: {}}", "shop", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			selection, err := inject.NewSelection(parse[v1beta1.SidecarSetSpec](t, tt.spec))
			if err != nil {
				t.Fatal(err)
			}
			got := selection.Matches(map[string]string{"app": "web"}, tt.namespace, map[string]string{"env": "prod"})
			if got != tt.want {
				t.Errorf("it matches: %t", got)
			}
		})
	}
}

func TestEffective(t *testing.T) {
	sets := []*v1beta1.SidecarSet{
		{ObjectMeta: metav1.ObjectMeta{Name: "logs"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "canary", Annotations: map[string]string{
			v1beta1.AnnotationSidecarSetCanary: "true", v1beta1.AnnotationSidecarSetBase: "logs"}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "paused"},
			Spec: v1beta1.SidecarSetSpec{InjectionStrategy: v1beta1.SidecarSetInjectionStrategy{Paused: true}}},
	}
	names := func() string {
		var out []string
		for _, set := range inject.Effective(sets) {
			out = append(out, set.Name)
		}
		return strings.Join(out, " ")
	}
	if got := names(); got != "a canary" {
		t.Errorf("got %q", got)
	}
	sets[1].Spec.InjectionStrategy.Paused = true
	if got := names(); got != "a logs" {
		t.Errorf("with a paused canary got %q", got)
	}
}

func TestPinned(t *testing.T) {
	const revision = "injectionStrategy: {revision: {revisionName: a, policy: Partial}}"
	for _, tt := range []struct {
		name, spec string
		least      int // of 1000 pods
		most       int
	}{
		{"no revision", "{}", 0, 0},
		{"always", "{injectionStrategy: {revision: {revisionName: a, policy: Always}}}", 1000, 1000},
		{"paused", "{" + revision + ", updateStrategy: {paused: true}}", 1000, 1000},
		{"a number", "{" + revision + ", updateStrategy: {partition: 5}}", 0, 0},
		{"a percentage", "{" + revision + ", updateStrategy: {partition: 30%}}", 250, 350},
		{"all", "{" + revision + ", updateStrategy: {partition: 100%}}", 1000, 1000},
		{"selected", "{" + revision + ", updateStrategy: {selector: {matchLabels: {a: b}}}}", 0, 0},
		{"not selected", "{" + revision + ", updateStrategy: {selector: {matchLabels: {a: c}}}}", 1000, 1000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spec, pinned := parse[v1beta1.SidecarSetSpec](t, tt.spec), 0
			for i := range 1000 {
				identity := fmt.Sprint("shop/web-", i)
				is := inject.Pinned(spec, map[string]string{"a": "b"}, identity)
				if is != inject.Pinned(spec, map[string]string{"a": "b"}, identity) {
					t.Fatal("not the same at the second time")
				}
				if is {
					pinned++
				}
			}
			if pinned < tt.least || pinned > tt.most {
				t.Errorf("%d of 1000 pods, want %d to %d", pinned, tt.least, tt.most)
			}
		})
	}
}

// set makes a Set of a spec.
func set(t *testing.T, name, text string) inject.Set {
	t.Helper()
	return inject.Set{Name: name, Spec: parse[v1beta1.SidecarSetSpec](t, text), Revision: name + "-1",
		Labels: map[string]string{"may": "yes"}, Hashes: revision.Hashes{All: "h", WithoutImage: "w"}}
}

const app = `
metadata: {labels: {main: app}, annotations: {kept: "1", json: '{"a":1}', kruise.io/sidecarset-injected-list: copied}}
spec:
  containers:
  - name: app
    image: app
    env: [{name: A, value: a}, {name: B, value: b}, {name: HOST, value: h}]
    volumeMounts: [{name: data, mountPath: /data, subPathExpr: $(HOST)}, {name: own, mountPath: /own}]
    resources: {limits: {cpu: 200m, memory: 100Mi}, requests: {cpu: 100m}}
  - {name: second, image: second, resources: {limits: {cpu: 400m}}}
  volumes: [{name: data, emptyDir: {}}, {name: own, emptyDir: {}}]
`

func TestPod(t *testing.T) {
	allowed, err := inject.ParseAllowed(`{"rules":[{"selector":{"matchLabels":{"may":"yes"}},` +
		`"annotationKeyExprs":["^(json|kept)$"]}]}`)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		sets []string
		want []string // parts of the pod as YAML, with "!" in front for what is not there
		err  string
	}{
		{name: "before and behind", sets: []string{
			"{containers: [{name: z, image: z}, {name: w, podInjectPolicy: AfterAppContainer}]}", "{containers: [{name: x}]}"},
			want: []string{"names z x app second w", "injected-list: s0,s1", "IS_INJECTED", `"controllerRevision":"s0-1"`,
				"!copied"}},
		{name: "init containers by name", sets: []string{"{initContainers: [{name: b}]}",
			"{initContainers: [{name: a, restartPolicy: Always}]}"}, want: []string{"inits a b", "names app second",
			`"sidecarList":["a"]`, `"sidecarList":[]`}},
		{name: "a container of the same name is replaced", sets: []string{"{containers: [{name: second, image: new}]}"},
			want: []string{"names app second", "image: new", "!image: second"}},
		{name: "volumes that are used", sets: []string{"{containers: [{name: s, volumeMounts: [{name: v, mountPath: /v}, " +
			"{name: data, mountPath: /d}], volumeDevices: [{name: w, devicePath: /w}]}], volumes: [{name: v}, {name: w}, " +
			"{name: unused}, {name: data, hostPath: {path: /}}]}"},
			want: []string{"volumes data own v w", "!hostPath"}},
		{name: "shared mounts", sets: []string{"{containers: [{name: s, shareVolumePolicy: {type: enabled}, " +
			"volumeMounts: [{name: mine, mountPath: /own}]}]}"},
			want: []string{"mounts of s: mine /own, data /data", "env of s: HOST IS_INJECTED"}},
		{name: "transferred variables", sets: []string{"{containers: [{name: s, env: [{name: B, value: mine}], " +
			"transferEnv: " +
			"[{sourceContainerNameFrom: {fieldRef: {fieldPath: \"metadata.labels['main']\"}}, envNames: [B, HOST], " +
			"envName: A}, " +
			"{sourceContainerName: none, envName: A}]}]}"},
			want: []string{"env of s: B A HOST IS_INJECTED", "value: mine"}},
		{name: "a hot pair", sets: []string{"{containers: [{name: s, image: real, upgradeStrategy: " +
			"{upgradeType: HotUpgrade, " +
			"hotUpgradeEmptyImage: empty}}]}"}, want: []string{"names s-1 s-2 app second", "image: real", "image: empty",
			`{"s":"s-1"}`, `version.sidecarset.kruise.io/s-1: "1"`, `version.sidecarset.kruise.io/s-2: "0"`,
			`versionalt.sidecarset.kruise.io/s-1: "0"`, `versionalt.sidecarset.kruise.io/s-2: "1"`,
			"env of s-2: IS_INJECTED SIDECARSET_VERSION SIDECARSET_VERSION_ALT", `"sidecarList":["s-1","s-2"]`}},
		{name: "pull secrets", sets: []string{"{containers: [{name: s}], imagePullSecrets: [{name: a}]}",
			"{containers: [{name: t}], imagePullSecrets: [{name: a}, {name: b}]}"}, want: []string{"secrets a b"}},
		{name: "annotations", sets: []string{`{patchPodMetadata: [{annotations: {kept: "2", new: v}}, ` +
			`{annotations: {json: '{"b":{"c":2},"a":null}'}, patchPolicy: MergePatchJson}, ` +
			`{annotations: {secret: s}, patchPolicy: Overwrite}, {annotations: {kept: "3"}, patchPolicy: Overwrite}]}`},
			want: []string{`kept: "3"`, "new: v", `json: '{"b":{"c":2}}'`, "!secret: s", "!injected-list"}},
		{name: "a merge patch that is none", sets: []string{`{patchPodMetadata: [{annotations: {json: '{'}, ` +
			`patchPolicy: MergePatchJson}]}`}, err: "SidecarSet s0: merge annotation json"},
		{name: "resources by sum", sets: []string{"{containers: [{name: s, resourcesPolicy: {targetContainersMode: sum, " +
			"resourcesExpr: {limits: {cpu: cpu*50%, memory: 200Mi}, requests: {cpu: cpu*2, memory: 10Mi}}}}, {name: other}]}"},
			want: []string{"resources of s: cpu 300m, cpu 200m, memory 10Mi"}},
		{name: "resources by max", sets: []string{"{containers: [{name: s, resourcesPolicy: {targetContainersMode: max, " +
			"targetContainersNameRegex: \"^(app|second)$\", resourcesExpr: {limits: {cpu: cpu}}}}]}"},
			want: []string{"resources of s: cpu 400m"}},
		{name: "no containers match", sets: []string{"{containers: [{name: s, resourcesPolicy: " +
			"{targetContainersNameRegex: none, resourcesExpr: {limits: {cpu: cpu}}}}]}"},
			err: "SidecarSet s0: compute the resources of container s: no containers match the regex pattern"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := parse[corev1.Pod](t, app)
			var sets []inject.Set
			for i, text := range tt.sets {
				sets = append(sets, set(t, fmt.Sprint("s", i), text))
			}
			err := inject.Pod(pod, sets, allowed, time.Unix(1, 0))
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			text := describe(t, pod)
			for _, part := range tt.want {
				absent, unwanted := strings.CutPrefix(part, "!")
				if strings.Contains(text, absent) == unwanted {
					t.Errorf("want %q, the pod is\n%s", part, text)
				}
			}
		})
	}
}

// describe returns the pod as YAML, and what tests ask in lines of its own.
func describe(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	data, err := yaml.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	out.Write(data)
	line := func(name string, n int, of func(i int) string) {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = of(i)
		}
		fmt.Fprintln(&out, name, strings.Join(parts, " "))
	}
	line("names", len(pod.Spec.Containers), func(i int) string { return pod.Spec.Containers[i].Name })
	line("inits", len(pod.Spec.InitContainers), func(i int) string { return pod.Spec.InitContainers[i].Name })
	line("volumes", len(pod.Spec.Volumes), func(i int) string { return pod.Spec.Volumes[i].Name })
	line("secrets", len(pod.Spec.ImagePullSecrets), func(i int) string { return pod.Spec.ImagePullSecrets[i].Name })
	for _, c := range pod.Spec.Containers {
		line("env of "+c.Name+":", len(c.Env), func(i int) string { return c.Env[i].Name })
		var mounts, resources []string
		for _, m := range c.VolumeMounts {
			mounts = append(mounts, m.Name+" "+m.MountPath)
		}
		for _, list := range []corev1.ResourceList{c.Resources.Limits, c.Resources.Requests} {
			for _, name := range []corev1.ResourceName{"cpu", "memory"} {
				if q, ok := list[name]; ok {
					resources = append(resources, string(name)+" "+q.String())
				}
			}
		}
		fmt.Fprintf(&out, "mounts of %s: %s\nresources of %s: %s\n", c.Name, strings.Join(mounts, ", "), c.Name,
			strings.Join(resources, ", "))
	}
	return out.String()
}

// TestNothingIsShared changes an injected pod and finds the SidecarSet as it was: it is in a cache.
func TestNothingIsShared(t *testing.T) {
	const text = `{containers: [{name: s, env: [{name: A, value: a}], command: [c], ` +
		`shareVolumePolicy: {type: enabled}}], volumes: [{name: v, emptyDir: {}}]}`
	s := set(t, "s", text)
	for range 2 {
		pod := parse[corev1.Pod](t, app)
		if err := inject.Pod(pod, []inject.Set{s}, inject.Allowed{}, time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
		for i := range pod.Spec.Containers {
			for j := range pod.Spec.Containers[i].Env {
				pod.Spec.Containers[i].Env[j].Value = "changed"
			}
			for j := range pod.Spec.Containers[i].Command {
				pod.Spec.Containers[i].Command[j] = "changed"
			}
		}
	}
	before, _ := yaml.Marshal(set(t, "s", text).Spec)
	after, _ := yaml.Marshal(s.Spec)
	if string(before) != string(after) {
		t.Errorf("it became\n%s", after)
	}
}

func TestCheck(t *testing.T) {
	computed := func(container string) string {
		return "{containers: [{name: a}, {name: b, resourcesPolicy: {" + container + "}}]}"
	}
	for text, want := range map[string]string{
		"{}": "",
		computed("resourcesExpr: {limits: {cpu: cpu*50%}}"): "",
		computed("resourcesExpr: {limits: {cpu: memory}}"): "spec.containers[1].resourcesPolicy: " +
			"resourcesExpr.limits.cpu: \"memory\" cannot be computed: at character 1",
		strings.Replace(computed("resourcesExpr: {requests: {memory: 1/0}}"), "containers", "initContainers", 1): "spec." +
			"initContainers[1].resourcesPolicy: resourcesExpr.requests.memory",
		computed("targetContainersNameRegex: \"(\", resourcesExpr: {}"): "targetContainersNameRegex cannot be used",
		"{containers: [{name: a, ports: 5}]}":                           "spec.containers[0].ports",
		"{volumes: [{name: a, emptyDir: 5}]}":                           "spec.volumes[0].emptyDir",
	} {
		err := inject.Check(parse[v1beta1.SidecarSetSpec](t, text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
