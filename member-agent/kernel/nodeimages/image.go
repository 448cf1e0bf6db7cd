package nodeimages

import "strings"

// SplitImage returns the name and the tag by which a NodeImage lists an image: the name without docker.io and library,
// and the digest, the tag or latest.
func SplitImage(image string) (name, tag string) {
	name, digest, _ := strings.Cut(image, "@")
	if colon := strings.LastIndex(name, ":"); colon > strings.LastIndex(name, "/") {
		name, tag = name[:colon], name[colon+1:]
	}
	for _, registry := range []string{"index.docker.io/", "docker.io/"} {
		if path, found := strings.CutPrefix(name, registry); found {
			name = path
			break
		}
	}
	if path, found := strings.CutPrefix(name, "library/"); found && !strings.Contains(path, "/") {
		name = path
	}
	switch {
	case digest != "":
		tag = digest
	case tag == "":
		tag = "latest"
	}
	return name, tag
}
