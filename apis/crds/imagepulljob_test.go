package crds_test

import (
	"strings"
	"testing"
)

const (
	imagePullJob = `
apiVersion: apps.kruise.io/v1beta1
kind: ImagePullJob
metadata:
  name: web
  namespace: default
spec:
  image: registry.example/web:1
`
	imageListPullJob = `
apiVersion: apps.kruise.io/v1beta1
kind: ImageListPullJob
metadata:
  name: web
  namespace: default
spec:
  images: [registry.example/web:1, nginx]
`
	nodeImage = `
apiVersion: apps.kruise.io/v1beta1
kind: NodeImage
metadata:
  name: node-1
spec:
  images:
    registry.example/web:
      tags:
      - tag: "1"
        createdAt: "2026-01-02T03:04:05Z"
        pullPolicy: {ttlSecondsAfterFinished: 60}
`
)

// imagePullRules are those that ImagePullJobs and ImageListPullJobs have.
func imagePullRules() []rule {
	return []rule{
		{name: "as it is", edit: named("web")},
		{name: "all fields", edit: all(set("spec.pullSecrets", "[a, b]"), set("spec.selector", "{matchLabels: {a: b}}"),
			set("spec.parallelism", "10%"), set("spec.pullPolicy", "{timeoutSeconds: 30, backoffLimit: 0}"),
			set("spec.completionPolicy", "{type: Always, activeDeadlineSeconds: 30, ttlSecondsAfterFinished: 0}"),
			set("spec.sandboxConfig", "{labels: {a: b}, annotations: {c: d}}"), set("spec.imagePullPolicy", "Always"))},
		{name: "names of nodes", edit: set("spec.selector", "{names: [node-1]}")},
		{name: "on the nodes of pods", edit: set("spec.podSelector", "{matchLabels: {app: web}}")},
		{name: "names and labels", edit: set("spec.selector", "{names: [node-1], matchLabels: {a: b}}"),
			says: []string{"spec.selector.names", "names and labels both select nodes", "give names, or matchLabels"}},
		{name: "nodes and pods", edit: all(set("spec.selector", "{names: [node-1]}"), set("spec.podSelector", "{}")),
			says: []string{"spec.podSelector", "selector and podSelector are both given"}},
		{name: "negative parallelism", edit: set("spec.parallelism", "-1"),
			says: []string{"spec.parallelism", "parallelism is -1"}},
		{name: "parallelism of 101%", edit: set("spec.parallelism", "101%"),
			says: []string{"spec.parallelism", "parallelism is 101%"}},
		{name: "no timeout", edit: set("spec.pullPolicy", "{timeoutSeconds: 0}"),
			says: []string{"spec.pullPolicy.timeoutSeconds", "greater than or equal to 1"}},
		{name: "negative backoffLimit", edit: set("spec.pullPolicy", "{backoffLimit: -1}"),
			says: []string{"spec.pullPolicy.backoffLimit"}},
		{name: "a deadline below the timeout", edit: set("spec.completionPolicy", "{activeDeadlineSeconds: 599}"),
			says: []string{"spec.completionPolicy.activeDeadlineSeconds", "activeDeadlineSeconds is 599",
				"timeoutSeconds, which is 600", "raise it"}},
		{name: "a deadline of the timeout", edit: set("spec.completionPolicy", "{activeDeadlineSeconds: 600}")},
		{name: "Never and a deadline",
			edit: set("spec.completionPolicy", "{type: Never, activeDeadlineSeconds: 600}"),
			says: []string{"spec.completionPolicy.activeDeadlineSeconds", "does not go with type Never", "use type Always"}},
		{name: "Never and a time to live", edit: set("spec.completionPolicy", "{type: Never, ttlSecondsAfterFinished: 6}"),
			says: []string{"spec.completionPolicy.ttlSecondsAfterFinished", "does not go with type Never"}},
		{name: "unknown completion", edit: set("spec.completionPolicy", "{type: Sometimes}"),
			says: []string{"spec.completionPolicy.type", `"Sometimes"`, "Never"}},
		{name: "unknown pull policy", edit: set("spec.imagePullPolicy", "Never"),
			says: []string{"spec.imagePullPolicy", `"Never"`, "IfNotPresent"}},
	}
}

func testImagePullJobRules(t *testing.T, s *server) {
	rows := append(imagePullRules(),
		rule{name: "the secrets change", first: all(named("secrets"), set("spec.pullSecrets", "[a]")),
			edit: set("spec.pullSecrets", "[b]"),
			says: []string{"spec.pullSecrets", "pullSecrets cannot change", "another name"}},
		rule{name: "the secrets go", first: all(named("secrets-go"), set("spec.pullSecrets", "[a]")),
			edit: remove("spec.pullSecrets"), says: []string{"spec.pullSecrets", "pullSecrets cannot change"}},
		rule{name: "the image changes", first: named("image"), edit: set("spec.image", "nginx:2")},
	)
	for image, taken := range map[string]bool{
		"nginx": true, "nginx:1.25-alpine": true, "library/nginx": true, "localhost:5000/a/b_c/d__e.f-g": true,
		"Registry.Example/web": true, "[::1]:5000/web:v1": true,
		"web@sha256:" + strings.Repeat("a1", 32):                    true,
		"registry.example/web:1@sha256:" + strings.Repeat("0f", 32): true,
		"": false, "Web": false, "https://registry.example/web": false, "web:": false, "web:1:2": false, "a b": false,
		"web@sha256:12": false, "registry.example/": false, "/web": false, "web:-1": false, "web\\nb": false,
	} {
		row := rule{name: "image " + image, edit: set("spec.image", `"`+image+`"`)}
		if !taken {
			row.says = []string{"spec.image", "is no reference of an image", "registry.example/web:1.2"}
		}
		rows = append(rows, row)
	}
	s.check(t, imagePullJob, rows)
	if s.version == "" {
		t.Run("Defaults", func(t *testing.T) { testImagePullJobDefaults(t, s) })
		t.Run("Ended", func(t *testing.T) { testEndedImagePullJob(t, s) })
	}
}

func testImagePullJobDefaults(t *testing.T, s *server) {
	stored := s.make(t, imagePullJob, named("defaults"))
	expectFields(t, "ImagePullJob", stored.Object, "spec", "{image: registry.example/web:1, parallelism: 1, "+
		"pullPolicy: {timeoutSeconds: 600, backoffLimit: 3}, completionPolicy: {type: Always}, "+
		"imagePullPolicy: IfNotPresent}")
}

// testEndedImagePullJob changes a job that has ended.
func testEndedImagePullJob(t *testing.T, s *server) {
	job := s.make(t, imagePullJob, named("ended"))
	set("status", `{desired: 0, active: 0, succeeded: 0, failed: 0, completionTime: "2026-01-02T03:04:05Z"}`)(job)
	if err := s.Status().Update(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	set("metadata.labels", "{a: b}")(job)
	if err := s.Update(t.Context(), job); err != nil {
		t.Errorf("a label: %v", err)
	}
	set("spec.image", "nginx:2")(job)
	if err := s.Update(t.Context(), job); err == nil || !strings.Contains(err.Error(), "the job has ended") {
		t.Errorf("another image: %v, want an error that the job has ended", err)
	}
}

func testImageListPullJobRules(t *testing.T, s *server) {
	s.check(t, imageListPullJob, append(imagePullRules(),
		rule{name: "no images", edit: set("spec.images", "[]"), says: []string{"spec.images", "at least 1"}},
		rule{name: "an image twice", edit: set("spec.images", "[a, a]"), says: []string{"spec.images[1]", "Duplicate"}},
		rule{name: "a scheme", edit: set("spec.images", "[a, 'https://b']"),
			says: []string{"spec.images[1]", "image https://b is no reference", "without a scheme"}},
		rule{name: "the images change", first: named("images"), edit: set("spec.images", "[nginx:2]")},
		rule{name: "the secrets change", first: all(named("secrets"), set("spec.pullSecrets", "[a]")),
			edit: set("spec.pullSecrets", "[b]")},
	))
}

func testNodeImageRules(t *testing.T, s *server) {
	const tags = `{images: {web: {tags: `
	s.check(t, nodeImage, []rule{
		{name: "as it is", edit: named("node-1")},
		{name: "nothing to pull", edit: remove("spec")},
		{name: "all fields", edit: set("spec", tags+`[{tag: "1", createdAt: "2026-01-02T03:04:05Z", version: 3,
			pullPolicy: {timeoutSeconds: 1, backoffLimit: 0, ttlSecondsAfterFinished: 0, activeDeadlineSeconds: 5},
			ownerReferences: [{apiVersion: apps.kruise.io/v1beta1, kind: ImagePullJob, namespace: a, name: b, uid: c}],
			imagePullPolicy: Always}], pullSecrets: [{namespace: a, name: b, mode: batch}],
			sandboxConfig: {labels: {a: b}}}}}`)},
		{name: "no time to live", edit: set("spec", tags+`[{tag: "1", pullPolicy: {}}]}}}`),
			says: []string{"spec.images[web].tags[0].pullPolicy", "has no ttlSecondsAfterFinished", "such as 86400"}},
		{name: "no policy", edit: set("spec", tags+`[{tag: "1"}]}}}`),
			says: []string{"spec.images.web.tags[0].pullPolicy", "Required"}},
		{name: "an empty tag", edit: set("spec", tags+`[{tag: "", pullPolicy: {ttlSecondsAfterFinished: 1}}]}}}`),
			says: []string{"spec.images[web].tags[0].tag", "tag is empty", "such as latest"}},
		{name: "a tag twice", edit: set("spec", tags+`[{tag: a, pullPolicy: {ttlSecondsAfterFinished: 1}},
			{tag: a, pullPolicy: {ttlSecondsAfterFinished: 1}}]}}}`),
			says: []string{"spec.images[web].tags[1]", "Duplicate"}},
		{name: "a negative version",
			edit: set("spec", tags+`[{tag: a, version: -1, pullPolicy: {ttlSecondsAfterFinished: 1}}]}}}`),
			says: []string{"spec.images.web.tags[0].version", "greater than or equal to 0"}},
		{name: "an image without a name", edit: set("spec", `{images: {"": {tags: []}}}`),
			says: []string{"spec.images", "the name of an image is empty", "give the name without its tag"}},
	})
}
