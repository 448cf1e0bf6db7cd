package cri

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
)

// DefaultDirectory is the folder of the sockets of runtimes.
const DefaultDirectory = "/run"

// Flag is the flag of the program that names the runtime, for messages.
const Flag = "--runtime-endpoint"

// The reasons of a DiscoveryError.
const (
	// ReasonNoSocket: no socket of a runtime that we know.
	ReasonNoSocket = "NoRuntimeFound"
	// ReasonSeveral: more than one runtime answers.
	ReasonSeveral = "SeveralRuntimesFound"
	// ReasonRefused: sockets are there, but none of them serves CRI.
	ReasonRefused = "NoRuntimeAnswers"
)

// DiscoveryError says why no runtime was chosen.
type DiscoveryError struct {
	Reason  string
	Message string
}

func (e *DiscoveryError) Error() string { return e.Message }

// sockets are where runtimes have their sockets, below the folder.
func sockets() []string {
	return []string{
		"containerd/containerd.sock",
		"k3s/containerd/containerd.sock",
		"k0s/containerd.sock",
		"crio/crio.sock",
		"cri-dockerd.sock",
	}
}

// Find returns the endpoint of the node's runtime: that of the options, or the one that answers. A socket of a
// containerd that serves Docker alone does not count. It errs with a DiscoveryError if none or several answer.
func Find(ctx context.Context, o Options) (string, error) {
	if o.Endpoint != "" {
		return endpoint(o.Endpoint), nil
	}
	directory := o.directory()
	var found, refused []string
	for _, path := range existing(directory) {
		at := endpoint(path)
		if _, err := version(ctx, at); err != nil {
			refused = append(refused, fmt.Sprintf("%s: %v", path, err))
			continue
		}
		found = append(found, at)
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return "", &DiscoveryError{Reason: ReasonSeveral, Message: fmt.Sprintf("%d container runtimes answer on this node: "+
			"%s; give %s the one that the kubelet uses", len(found), strings.Join(found, " and "), Flag)}
	case len(refused) > 0:
		return "", &DiscoveryError{Reason: ReasonRefused, Message: fmt.Sprintf("no container runtime answers: %s; "+
			"check that the runtime runs and serves CRI v1, or give %s", strings.Join(refused, "; "), Flag)}
	}
	return "", &DiscoveryError{Reason: ReasonNoSocket, Message: fmt.Sprintf("no socket of a container runtime in %s: "+
		"looked for %s; give %s, or mount the folder of the socket", directory, strings.Join(sockets(), ", "), Flag)}
}

// existing returns the sockets that exist below the folder, each once.
func existing(directory string) []string {
	var paths []string
	seen := sets.New[string]()
	for _, name := range sockets() {
		path := filepath.Join(directory, name)
		target, err := filepath.EvalSymlinks(path)
		if err != nil || seen.Has(target) {
			continue
		}
		if info, err := os.Stat(target); err == nil && info.Mode()&os.ModeSocket != 0 {
			seen.Insert(target)
			paths = append(paths, path)
		}
	}
	return paths
}

// endpoint returns a path or an endpoint as an endpoint.
func endpoint(path string) string {
	if strings.Contains(path, "://") {
		return path
	}
	return "unix://" + path
}
