package defaults

import (
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// pullPolicy is the pull policy of an image that names none: Always for the tag latest, which an image without tag and
// digest has. What is no reference of an image has no tag.
func pullPolicy(image string) corev1.PullPolicy {
	rest, digest, hasDigest := strings.Cut(image, "@")
	name, tag := rest, ""
	if colon := strings.LastIndex(rest, ":"); colon > strings.LastIndex(rest, "/") {
		name, tag = rest[:colon], rest[colon+1:]
		if !matches(`[\w][\w.-]{0,127}`, tag) {
			return corev1.PullIfNotPresent
		}
	}
	if !validName(name) || hasDigest && !matches(`[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}`,
		digest) {
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
	} else if !matches(`(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*|`+
		`\[[a-fA-F0-9:]+\])(?::[0-9]+)?`, domain) {
		return false
	}
	const component = `[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*`
	return matches(component+`(?:/`+component+`)*`, path)
}

// matches reports whether the whole text matches the pattern.
func matches(pattern, text string) bool {
	return regexp.MustCompile(`^(?:` + pattern + `)$`).MatchString(text)
}
