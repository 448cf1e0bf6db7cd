package inplace

import "strings"

// dockerHub is the registry that names without one mean.
const dockerHub = "docker.io"

// SameImage reports whether two names of images mean the same image: "nginx", "nginx:latest" and
// "docker.io/library/nginx:latest" do. With a digest the tag says nothing. A bare identity ("sha256:…") equals only
// itself.
func SameImage(a, b string) bool { return a == b || fullName(a) == fullName(b) }

// fullName returns the image's name with registry and with digest or tag.
func fullName(image string) string {
	if image == "" || strings.HasPrefix(image, "sha256:") {
		return image
	}
	name, digest, hasDigest := strings.Cut(image, "@")
	tag := "latest"
	if colon := strings.LastIndexByte(name, ':'); colon > strings.LastIndexByte(name, '/') {
		name, tag = name[:colon], name[colon+1:]
	}
	registry, path, ok := strings.Cut(name, "/")
	if !ok || (!strings.ContainsAny(registry, ".:") && registry != "localhost") {
		registry, path = dockerHub, name
	}
	if registry == "index."+dockerHub {
		registry = dockerHub
	}
	if registry == dockerHub && !strings.Contains(path, "/") {
		path = "library/" + path
	}
	if hasDigest {
		return registry + "/" + path + "@" + digest
	}
	return registry + "/" + path + ":" + tag
}
