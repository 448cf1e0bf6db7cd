package defaults

import (
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// The parts of a reference of an image.
var (
	tagPattern    = regexp.MustCompile(`^[\w][\w.-]{0,127}$`)
	digestPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}$`)
	domainPattern = regexp.MustCompile(
		`^(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*|` +
			`\[[a-fA-F0-9:]+\])(?::[0-9]+)?$`)
	pathPattern = regexp.MustCompile(`^` + component + `(?:/` + component + `)*$`)
)

// component is a part of the path of a repository.
const component = `[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*`

// pullPolicy is the pull policy of an image that names none: Always for the tag latest, which an image without tag and
// digest has. What is no reference of an image has no tag.
func pullPolicy(image string) corev1.PullPolicy {
	rest, digest, hasDigest := strings.Cut(image, "@")
	name, tag := rest, ""
	if colon := strings.LastIndex(rest, ":"); colon > strings.LastIndex(rest, "/") {
		name, tag = rest[:colon], rest[colon+1:]
		if !tagPattern.MatchString(tag) {
			return corev1.PullIfNotPresent
		}
	}
	if !validName(name) || hasDigest && !digestPattern.MatchString(digest) {
		return corev1.PullIfNotPresent
	}
	if tag == "latest" || tag == "" && !hasDigest {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

// validName reports whether name can be that of a repository, with or without the domain of its registry.
func validName(name string) bool {
	domain, path, hasSlash := strings.Cut(name, "/")
	isDomain := strings.ContainsAny(domain, ".:") || domain == "localhost" || strings.ToLower(domain) != domain
	if !hasSlash || !isDomain {
		path = name
	} else if !domainPattern.MatchString(domain) {
		return false
	}
	return pathPattern.MatchString(path)
}
