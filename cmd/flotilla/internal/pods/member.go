package pods

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clientgo "k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
)

// defaultContainer is the annotation by which a pod says which container is meant without a name, as kubectl reads it.
const defaultContainer = "kubectl.kubernetes.io/default-container"

// memberPatience is how long a member has to answer, without the flag.
const memberPatience = 10 * time.Second

// options are those that all verbs have.
type options struct {
	hub      console.Hub
	members  console.Members
	only     []string
	patience time.Duration
}

func (o *options) addFlags(cmd *cobra.Command) {
	o.hub.AddFlags(cmd)
	o.members.AddFlags(cmd, &o.hub)
	cmd.Flags().StringSliceVarP(&o.only, "member", "C", nil, "only these members, with commas between them")
	cmd.Flags().DurationVar(&o.patience, "member-timeout", memberPatience, "how long a member has to answer a request")
	// The flag was added above.
	_ = cmd.RegisterFlagCompletionFunc("member", o.hub.CompleteMembers)
}

// addContainer adds the flag -c.
func addContainer(cmd *cobra.Command, container *string) {
	cmd.Flags().StringVarP(container, "container", "c", "", "the container; without it the pod's default or first one")
}

// reached is a member that is reached.
type reached struct {
	name, namespace, kubecontext string
	// expected: the user or the hub says that the pods are in this member, so what fails there is said.
	expected bool
	// placed: only a workload that a hub placed in the member is meant, that of hubID if this is known.
	placed bool
	hubID  string
	// config has no timeout: it is for sessions.
	config *rest.Config
	// core and client end a request after the time that a member has to answer.
	core     clientgo.Interface
	client   client.Reader
	patience time.Duration
	// streams are requests that stay open.
	streams clientgo.Interface
}

// newReached returns a member by the configuration of its API server. It asks nothing of it.
func newReached(name, namespace, kubecontext string, cfg *rest.Config, patience time.Duration) (*reached, error) {
	r := &reached{
		name: name, namespace: namespace, kubecontext: kubecontext, config: rest.CopyConfig(cfg),
		patience: patience,
	}
	r.config.Timeout, r.config.WarningHandler = 0, rest.NoWarnings{}
	quick, streams := rest.CopyConfig(r.config), rest.CopyConfig(r.config)
	quick.Timeout = patience
	// With HTTP/2 a client buffers some MiB of each stream, which is too much for hundreds that a slow terminal holds
	// up. With HTTP/1.1 each is a connection, and the server waits.
	streams.NextProtos = []string{"http/1.1"}
	var err error
	if r.core, err = clientgo.NewForConfig(quick); err == nil {
		r.streams, err = clientgo.NewForConfig(streams)
	}
	if err == nil {
		r.client, err = client.New(quick, client.Options{Scheme: clientgoscheme.Scheme})
	}
	if err != nil {
		return nil, fmt.Errorf("connect to member %s: %w", name, err)
	}
	return r, nil
}

// failed returns the sentence about a request that a member did not answer as asked. doing is what was tried, such as
// "list pods in namespace shop".
func (r *reached) failed(doing string, err error) error {
	var transport *url.Error
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("you may not %s in member %s: ask for that right there, for the user of the context %s",
			doing, r.name, r.kubecontext)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("member %s does not accept the credentials of the context %s: renew them", r.name,
			r.kubecontext)
	case errors.As(err, &transport) || errors.Is(err, context.DeadlineExceeded):
		if transport != nil {
			err = transport.Err
		}
		return fmt.Errorf("member %s does not answer (%w): look at it with kubectl --context %s version", r.name, err,
			r.kubecontext)
	}
	return fmt.Errorf("%s in member %s: %w", doing, r.name, err)
}

// containerOf returns the container that is meant: the one that is named, else the pod's default, else its first one.
func containerOf(pod *corev1.Pod, named string) (string, error) {
	names := containersOf(pod)
	switch byDefault := pod.Annotations[defaultContainer]; {
	case named != "" && slices.Contains(names, named):
		return named, nil
	case named != "":
		return "", fmt.Errorf("pod %s has no container %s; it has %s", pod.Name, named, strings.Join(names, ", "))
	case slices.Contains(names, byDefault):
		return byDefault, nil
	case len(names) == 0:
		return "", fmt.Errorf("pod %s has no containers", pod.Name)
	}
	return names[0], nil
}

// containersOf returns the names of a pod's containers, the regular ones first.
func containersOf(pod *corev1.Pod) []string {
	var names []string
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			names = append(names, list[i].Name)
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		names = append(names, pod.Spec.EphemeralContainers[i].Name)
	}
	return names
}
