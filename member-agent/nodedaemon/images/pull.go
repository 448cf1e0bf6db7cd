package images

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/cri"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/images/keyring"
)

const (
	// annotationPulledBy is on the sandbox of every pull, as OpenKruise's daemon has it: some runtimes need a sandbox, and
	// plug-ins of runtimes know the annotation.
	annotationPulledBy = "apps.kruise.io/pulling-image-by"
	pulledBy           = "kruise-daemon"
)

// longestMessage bounds what a runtime answers, in bytes: it is in the status of every tag.
const longestMessage = 512

// puller does single attempts.
type puller struct {
	images internalapi.ImageManagerService
	// live reads Secrets.
	live client.Reader
}

// pull does one attempt, with each credential that matches the image, and without any if none does. It errs with what
// the runtime answered last, and with what was wrong with Secrets.
func (p *puller) pull(ctx context.Context, attempt Pull) error {
	ring, problems := p.credentials(ctx, attempt)
	reference := &runtimeapi.ImageSpec{Image: attempt.Reference(), UserSpecifiedImage: attempt.Reference()}
	credentials := ring.For(attempt.Image)
	if len(credentials) == 0 {
		credentials = []*runtimeapi.AuthConfig{nil}
	}
	var failed error
	for _, credential := range credentials {
		_, failed = p.images.PullImage(cri.Quiet(ctx), reference, credential, sandbox(attempt))
		if failed == nil {
			return nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.New(strings.Join(append([]string{answer(failed)}, problems...), "; "))
}

// credentials reads the Secrets of an attempt. What is wrong with one of them is returned as a sentence, for the others
// may do.
func (p *puller) credentials(ctx context.Context, attempt Pull) (ring keyring.Keyring, problems []string) {
	for _, reference := range attempt.Secrets {
		secret := &corev1.Secret{}
		name := types.NamespacedName{Namespace: reference.Namespace, Name: reference.Name}
		err := p.live.Get(ctx, name, secret)
		switch {
		case apierrors.IsNotFound(err):
			problems = append(problems, fmt.Sprintf("Secret %s does not exist", name))
		case apierrors.IsForbidden(err):
			problems = append(problems, fmt.Sprintf("the daemon may not read Secret %s: "+
				"Role flotilla-node-pulls must name it", name))
		case err != nil:
			problems = append(problems, fmt.Sprintf("read Secret %s: %v", name, err))
		default:
			if err := ring.Add(secret); err != nil {
				problems = append(problems, fmt.Sprintf("Secret %s: %v", source(secret), err))
			}
		}
	}
	return ring, problems
}

// source returns the Secret that a user knows: the original of a copy.
func source(secret *corev1.Secret) string {
	const annotation = "flotilla.dev/source"
	if original := secret.Annotations[annotation]; original != "" {
		return original
	}
	return secret.Namespace + "/" + secret.Name
}

// sandbox returns the sandbox that an attempt pulls for.
func sandbox(attempt Pull) *runtimeapi.PodSandboxConfig {
	config := &runtimeapi.PodSandboxConfig{Annotations: map[string]string{}, Labels: map[string]string{}}
	if s := attempt.Sandbox; s != nil {
		for key, value := range s.Annotations {
			config.Annotations[key] = value
		}
		for key, value := range s.Labels {
			config.Labels[key] = value
		}
	}
	config.Annotations[annotationPulledBy] = pulledBy
	return config
}

// answer returns what a runtime answered, without the words of gRPC, and no longer than a status may hold.
func answer(err error) string {
	text := strings.TrimSpace(status.Convert(err).Message())
	if len(text) > longestMessage {
		text = strings.ToValidUTF8(text[:longestMessage], "") + "…"
	}
	return text
}
