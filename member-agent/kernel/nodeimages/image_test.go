package nodeimages

import "testing"

func TestSplitImage(t *testing.T) {
	for image, want := range map[string][2]string{
		"nginx": {"nginx", "latest"}, "nginx:1": {"nginx", "1"}, "docker.io/library/nginx:1": {"nginx", "1"},
		"index.docker.io/library/nginx": {"nginx", "latest"}, "docker.io/a/b": {"a/b", "latest"},
		"library/a/b": {"library/a/b", "latest"}, "r.example:5000/web": {"r.example:5000/web", "latest"},
		"r.example:5000/web:1@sha256:ab": {"r.example:5000/web", "sha256:ab"},
		"r.example/library/web":          {"r.example/library/web", "latest"},
	} {
		if name, tag := SplitImage(image); [2]string{name, tag} != want {
			t.Errorf("%s is %s and %s, want %q", image, name, tag, want)
		}
	}
}
