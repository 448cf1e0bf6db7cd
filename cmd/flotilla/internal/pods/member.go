package pods

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgo "k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
	"github.com/flotilla-dev/flotilla/hub/kinds"
)

// defaultContainer is the annotation by which a pod says which container is meant without a name, as kubectl reads it.
const defaultContainer = "kubectl.kubernetes.io/default-container"

// options are those that both verbs have.
type options struct {
	hub       console.Hub
	members   console.Members
	member    string
	container string
}

func (o *options) addFlags(cmd *cobra.Command) {
	o.hub.AddFlags(cmd)
	o.members.AddFlags(cmd, &o.hub)
	cmd.Flags().StringVarP(&o.member, "member", "C", "", "the member to reach into")
	cmd.Flags().StringVarP(&o.container, "container", "c", "", "the container; without it the pod's default or first one")
	// The flag was added above.
	_ = cmd.RegisterFlagCompletionFunc("member", o.hub.CompleteMembers)
}

// reached is a member that is reached.
type reached struct {
	name, namespace string
	config          *rest.Config
	core            clientgo.Interface
	client          client.Reader
}

// reach connects to the member that the flags name, and makes sure that it is the one that the hub means.
func (o *options) reach(cmd *cobra.Command) (*reached, error) {
	if o.member == "" {
		return nil, console.Usagef("which member? name it with -C; flotilla get clusters lists them")
	}
	namespace, err := o.hub.Namespace()
	if err != nil {
		return nil, err
	}
	cfg, kubecontext, err := o.members.Config(o.member)
	if err != nil {
		return nil, err
	}
	core, err := clientgo.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to member %s: %w", o.member, err)
	}
	c, err := client.New(cfg, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to member %s: %w", o.member, err)
	}
	hub, err := o.hub.Client()
	if err != nil {
		fmt.Fprintf(
			cmd.ErrOrStderr(),
			"The hub was not asked whether the context %s is member %s: %v\n",
			kubecontext,
			o.member,
			err,
		)
	} else if err := console.Verify(cmd.Context(), hub, c, o.member, kubecontext, cmd.ErrOrStderr()); err != nil {
		return nil, err
	}
	return &reached{name: o.member, namespace: namespace, config: cfg, core: core, client: c}, nil
}

// pods returns the pods that an argument names, sorted: POD, pod/POD, or KIND/NAME of a workload, which the member is
// asked for.
func (r *reached) pods(ctx context.Context, argument string) ([]corev1.Pod, error) {
	kind, name, slash := strings.Cut(argument, "/")
	if !slash {
		kind, name = "pod", argument
	}
	if slices.Contains([]string{"pod", "pods", "po"}, strings.ToLower(kind)) {
		pod, err := r.core.CoreV1().Pods(r.namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf(
				"member %s has no pod %s in namespace %s; name its workload, as in clone/api, for all its pods there",
				r.name,
				name,
				r.namespace,
			)
		}
		if err != nil {
			return nil, fmt.Errorf("read pod %s/%s in member %s: %w", r.namespace, name, r.name, err)
		}
		return []corev1.Pod{*pod}, nil
	}
	key, err := console.Workload(argument, r.namespace)
	if err != nil {
		return nil, err
	}
	workload := &unstructured.Unstructured{}
	workload.SetGroupVersionKind(kinds.Workloads()[key.GroupKind()].GVK)
	if err := r.client.Get(ctx, key.Workload(), workload); apierrors.IsNotFound(err) {
		return nil, fmt.Errorf(
			"member %s has no %s; flotilla why %s -C %s says why",
			r.name,
			key.Sentence(),
			argument,
			r.name,
		)
	} else if err != nil {
		return nil, fmt.Errorf("read %s in member %s: %w", key.Sentence(), r.name, err)
	}
	selector, err := selectorOf(workload)
	if err != nil {
		return nil, fmt.Errorf("read the selector of %s in member %s: %w", key.Sentence(), r.name, err)
	}
	list, err := r.list(ctx, selector)
	if err != nil {
		return nil, fmt.Errorf("list the pods of %s in member %s: %w", key.Sentence(), r.name, err)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf(
			"%s has no pods in member %s; flotilla why %s -C %s says why",
			key.Sentence(),
			r.name,
			argument,
			r.name,
		)
	}
	slices.SortFunc(list, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// list returns the pods of a selector, which it reads in pages.
func (r *reached) list(ctx context.Context, selector string) (pods []corev1.Pod, err error) {
	const page = 500
	read := pager.New(func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
		return r.core.CoreV1().Pods(r.namespace).List(ctx, opts)
	})
	read.PageSize = page
	err = read.EachListItem(ctx, metav1.ListOptions{LabelSelector: selector}, func(object runtime.Object) error {
		if pod, ok := object.(*corev1.Pod); ok {
			pods = append(pods, *pod)
		}
		return nil
	})
	return pods, err
}

func selectorOf(workload *unstructured.Unstructured) (string, error) {
	raw, found, err := unstructured.NestedMap(workload.Object, "spec", "selector")
	if err != nil {
		return "", err
	}
	if !found {
		return "", errors.New("spec.selector is missing")
	}
	selector := &metav1.LabelSelector{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, selector); err != nil {
		return "", err
	}
	text, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return "", err
	}
	return text.String(), nil
}

// containerOf returns the container that is meant: the one that is named, else the pod's default, else its first one.
func containerOf(pod *corev1.Pod, named string) (string, error) {
	var names []string
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			names = append(names, list[i].Name)
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		names = append(names, pod.Spec.EphemeralContainers[i].Name)
	}
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
