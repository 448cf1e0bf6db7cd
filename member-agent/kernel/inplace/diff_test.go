package inplace_test

import (
	"bytes"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/inplace"
)

func TestDiffOfResources(t *testing.T) {
	const old = `{spec: {containers: [{name: main, image: "nginx:1", resources: {limits: {cpu: "1", memory: 1Gi, example.com/gpu: "1"}, requests: {cpu: 500m}}}, {name: side, image: "busybox:1"}], initContainers: [{name: init, image: "busybox:1", resources: {limits: {cpu: "1"}}}]}}`
	tests := []struct {
		name     string
		from, to string
		cpu      string
		refusal  string
	}{
		{"the same amount in other words", `cpu: 500m`, `cpu: "0.5"`, "", ""},
		{"a request", `cpu: 500m`, `cpu: 600m`, "600m", ""},
		{"a limit", `limits: {cpu: "1"`, `limits: {cpu: "2"`, "500m", ""},
		{"a request that the API server completes", `memory: 1Gi`, `memory: 2Gi`, "500m", ""},
		{"a request that is written out", `requests: {cpu: 500m}`, `requests: {cpu: 500m, memory: 1Gi}`, "", ""},
		{"a limit less", `memory: 1Gi, `, ``, "", "spec.containers[0].resources.limits.memory"},
		{"a limit more", `example.com/gpu: "1"}`, `example.com/gpu: "1", ephemeral-storage: 1Gi}`, "",
			"spec.containers[0].resources.limits.ephemeral-storage"},
		{"another resource", `example.com/gpu: "1"`, `example.com/gpu: "2"`, "",
			"spec.containers[0].resources.limits.example.com/gpu"},
		{"a claim", `requests: {cpu: 500m}`, `requests: {cpu: 500m}, claims: [{name: x}]`, "",
			"spec.containers[0].resources.claims"},
		{"resources where there were none", `image: "busybox:1"}], init`,
			`image: "busybox:1", resources: {limits: {cpu: "1"}}}], init`, "", "spec.containers[1].resources.limits.cpu"},
		{"an init container", `resources: {limits: {cpu: "1"}}}]}}`, `resources: {limits: {cpu: "2"}}}]}}`, "",
			"spec.initContainers[0].resources.limits.cpu"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			updated := string(bytes.Replace([]byte(old), []byte(tt.from), []byte(tt.to), 1))
			if updated == old && tt.from != tt.to {
				t.Fatal("the case changes nothing")
			}
			change, refusal, err := inplace.Diff(template(t, old), template(t, updated))
			if err != nil || refusal != tt.refusal {
				t.Fatalf("refusal %q, %v; want %q", refusal, err, tt.refusal)
			}
			got, ok := change.Resources["main"]
			if ok != (tt.cpu != "") || ok && got.Requests.Cpu().String() != tt.cpu {
				t.Errorf("resources %v", change.Resources)
			}
			if ok && (len(got.Limits) != 2 || len(got.Requests) != 2) {
				t.Errorf("not the whole cpu and memory: %v", got)
			}
		})
	}
}

func TestDiffKeepsTheQualityOfService(t *testing.T) {
	const old = `{spec: {containers: [{name: a, image: x, resources: {limits: {cpu: "1", memory: 1Gi}}}, {name: b, image: x, resources: {limits: {cpu: "1", memory: 1Gi}, requests: {cpu: "1"}}}]}}`
	for _, tt := range []struct{ name, updated, refusal string }{
		{"guaranteed stays guaranteed", `{spec: {containers: [{name: a, image: x, resources: {limits: {cpu: "2", memory: 1Gi}}}, {name: b, image: x, resources: {limits: {cpu: "1", memory: 1Gi}, requests: {cpu: "1"}}}]}}`, ""},
		{"guaranteed becomes burstable", `{spec: {containers: [{name: a, image: x, resources: {limits: {cpu: "1", memory: 1Gi}}}, {name: b, image: x, resources: {limits: {cpu: "2", memory: 1Gi}, requests: {cpu: "1"}}}]}}`, "spec.containers[1].resources"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, refusal, err := inplace.Diff(template(t, old), template(t, tt.updated)); err != nil || refusal != tt.refusal {
				t.Errorf("refusal %q, %v; want %q", refusal, err, tt.refusal)
			}
		})
	}
}

func TestPossible(t *testing.T) {
	const container = `{name: main, image: "nginx:1", env: [{name: A, value: b}, {name: TIER, valueFrom: {fieldRef: {fieldPath: "metadata.labels['tier']"}}}]}`
	old := template(t, `{metadata: {labels: {tier: a}}, spec: {containers: [`+container+`]}}`)
	label := template(t, `{metadata: {labels: {tier: b}}, spec: {containers: [`+container+`]}}`)
	both := label.DeepCopy()
	both.Spec.Containers[0].Image = "nginx:2"
	change := func(to *corev1.PodTemplateSpec) inplace.Change {
		out, refusal, err := inplace.Diff(old, to)
		if err != nil || refusal != "" {
			t.Fatalf("refused: %s, %v", refusal, err)
		}
		return out
	}
	guaranteed := `{spec: {containers: [{name: main, image: x, resources: {limits: {cpu: "1", memory: 1Gi}, requests: {cpu: 500m}}}]}}`
	smaller := `{spec: {containers: [{name: main, image: x, resources: {limits: {cpu: "1", memory: 1Gi}, requests: {cpu: 600m}}}]}}`
	size, _, err := inplace.Diff(template(t, guaranteed), template(t, smaller))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name    string
		change  inplace.Change
		prepare func(*corev1.Pod)
		refusal string
	}{
		{"a label that is read", change(label), func(*corev1.Pod) {}, "spec.containers[0].env[1]"},
		{"with a new image", change(both), func(*corev1.Pod) {}, ""},
		{"with an image that the pod has", change(both), func(p *corev1.Pod) { p.Spec.Containers[0].Image = "nginx:2" },
			"spec.containers[0].env[1]"},
		{"with the node daemon", change(label), func(p *corev1.Pod) { p.Annotations["apps.kruise.io/runtime-containers-meta"] = "{}" }, ""},
		{"with a node daemon that does not know it", change(label), func(*corev1.Pod) {}, "spec.containers[0].env[1]"},
		{"a label that the pod has", change(label), func(p *corev1.Pod) { p.Labels["tier"] = "b" }, ""},
		{"resources within the quality of service", size,
			func(p *corev1.Pod) { p.Spec = *template(t, guaranteed).Spec.DeepCopy() }, ""},
		{"resources beyond the pod's own quality of service", size,
			func(p *corev1.Pod) { p.Spec.Containers[0].Resources = corev1.ResourceRequirements{} },
			"spec.containers[0].resources"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: *old.ObjectMeta.DeepCopy(), Spec: *old.Spec.DeepCopy()}
			pod.Annotations = map[string]string{}
			tt.prepare(pod)
			if got := tt.change.Possible(pod, true); got != tt.refusal {
				t.Errorf("refusal %q, want %q", got, tt.refusal)
			}
			if _, known := pod.Annotations["apps.kruise.io/runtime-containers-meta"]; known {
				if got := tt.change.Possible(pod, false); got != "spec.containers[0].env[1]" {
					t.Errorf("refusal %q where the daemon is gone", got)
				}
			}
		})
	}
}

func TestSidecarThatStartsFirstIsNeverChanged(t *testing.T) {
	const old = `{metadata: {labels: {tier: a}}, spec: {containers: [{name: main, image: x}], initContainers: [{name: side, image: x, restartPolicy: Always, env: [{name: TIER, valueFrom: {fieldRef: {fieldPath: "metadata.labels['tier']"}}}]}]}}`
	_, refusal, err := inplace.Diff(template(t, old),
		template(t, string(bytes.ReplaceAll([]byte(old), []byte("tier: a"), []byte("tier: b")))))
	if err != nil || refusal != "spec.initContainers[0].env[0]" {
		t.Errorf("refusal %q, %v", refusal, err)
	}
}

// A restart that only changed an annotation of running pods would restart nothing.
func TestARestartMakesPodsAnew(t *testing.T) {
	const none = `{metadata: {annotations: {note: a}}, spec: {containers: [{name: main, image: x}]}}`
	const first = `{metadata: {annotations: {note: a, kubectl.kubernetes.io/restartedAt: "2026-01-01T00:00:00Z"}}, spec: {containers: [{name: main, image: x}]}}`
	const second = `{metadata: {annotations: {note: b, kubectl.kubernetes.io/restartedAt: "2026-01-02T00:00:00Z"}}, spec: {containers: [{name: main, image: y}]}}`
	const field = "metadata.annotations[kubectl.kubernetes.io/restartedAt]"
	for _, tt := range []struct{ name, old, updated, refusal string }{
		{"asked for", none, first, field},
		{"asked for again, with another image", first, second, field},
		{"asked for before", first, first, ""},
		{"the manifest of before is applied again", second, none, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			change, refusal, err := inplace.Diff(template(t, tt.old), template(t, tt.updated))
			if err != nil || refusal != tt.refusal {
				t.Fatalf("refusal %q, %v; want %q", refusal, err, tt.refusal)
			}
			if value, gone := change.Annotations[inplace.RestartedAt]; gone != (tt.old == second) || value != nil {
				t.Errorf("annotations %v", change.Annotations)
			}
		})
	}
}

func TestSameImage(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"nginx", "docker.io/library/nginx:latest", true},
		{"nginx:1", "index.docker.io/library/nginx:1", true},
		{"me/app", "docker.io/me/app:latest", true},
		{"localhost/app:1", "localhost/app:1", true},
		{"registry:5000/app", "registry:5000/app:latest", true},
		{"nginx:1@sha256:ab", "docker.io/library/nginx@sha256:ab", true},
		{"nginx@sha256:ab", "nginx:latest", false},
		{"nginx:1", "nginx:2", false},
		{"quay.io/nginx", "nginx", false},
		{"sha256:ab", "sha256:ab", true},
		{"sha256:ab", "nginx", false},
		{"", "nginx", false},
	} {
		if got := inplace.SameImage(tt.a, tt.b); got != tt.want {
			t.Errorf("%q and %q: %v", tt.a, tt.b, got)
		}
	}
}
