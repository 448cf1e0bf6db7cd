// Package guard fills ContainerRecreateRequests in when they are created: with the pod, its node, and what its
// containers are at that moment. It refuses what cannot be carried out.
//
// While no agent answers, the API server refuses new requests (failure policy Fail): a request that is not filled in
// would not be served.
package guard

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/podstate"
)

const (
	// Configuration is the name of the MutatingWebhookConfiguration.
	Configuration = "flotilla-containerrecreaterequests"
	// Path is where the guard is served.
	Path = "/mutate-containerrecreaterequests"

	webhookName = "containerrecreaterequests.admission.flotilla.dev"
	// timeout is how long a write may wait for the answer, in seconds.
	timeout = 5
	// program is the value of the label app.kubernetes.io/name of the daemon's pods.
	program = "flotilla-node"
)

// toFill selects new requests, and changes of the labels that say who serves a request.
func toFill() string {
	label := func(object, key string) string {
		return fmt.Sprintf("(has(%[1]s.metadata.labels) && %[2]q in %[1]s.metadata.labels ? "+
			"%[1]s.metadata.labels[%[2]q] : '')", object, key)
	}
	changed := func(key string) string { return label("object", key) + " != " + label("oldObject", key) }
	return "request.operation == 'CREATE' || " + changed(v1beta1.LabelCRRPodUID) + " || " +
		changed(v1beta1.LabelCRRNodeName)
}

// Guard fills requests in.
type Guard struct {
	reader client.Reader
}

// New returns a guard that reads pods with the reader, from the API server.
func New(reader client.Reader) *Guard { return &Guard{reader} }

// Handle fills a new request in, or refuses it. It refuses changes of its labels.
func (g *Guard) Handle(ctx context.Context, request admission.Request) admission.Response {
	if request.Operation == admissionv1.Update {
		return update(request)
	}
	object := &v1beta1.ContainerRecreateRequest{}
	if err := json.Unmarshal(request.Object.Raw, object); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("decode the ContainerRecreateRequest: %w", err))
	}
	if object.Spec.PodName == "" || len(object.Spec.Containers) == 0 {
		return admission.Allowed("") // the definition says what is wrong
	}
	pod := &corev1.Pod{}
	err := g.reader.Get(ctx, types.NamespacedName{Namespace: request.Namespace, Name: object.Spec.PodName}, pod)
	switch {
	case apierrors.IsNotFound(err):
		return refuse("spec.podName is %s: namespace %s has no such pod", object.Spec.PodName, request.Namespace)
	case err != nil:
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("read pod %s: %w", object.Spec.PodName, err))
	}
	if wrong := Fill(object, pod); wrong != "" {
		return refuse("%s", wrong)
	}
	filled, err := json.Marshal(object)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("encode the request: %w", err))
	}
	response := admission.PatchResponseFromRaw(request.Object.Raw, filled)
	if !g.served(ctx, pod.Spec.NodeName) {
		response.Warnings = append(response.Warnings, fmt.Sprintf("no pod of flotilla-node is ready on node %s: the request "+
			"ends after a minute if none answers; install the chart flotilla-node, or delete the pod instead",
			pod.Spec.NodeName))
	}
	return response
}

// update refuses changes of the labels that say which node serves the request.
func update(request admission.Request) admission.Response {
	var before, after metav1.PartialObjectMetadata
	for object, raw := range map[*metav1.PartialObjectMetadata][]byte{
		&before: request.OldObject.Raw, &after: request.Object.Raw,
	} {
		if err := json.Unmarshal(raw, object); err != nil {
			return admission.Errored(http.StatusBadRequest, fmt.Errorf("decode the ContainerRecreateRequest: %w", err))
		}
	}
	for _, key := range []string{v1beta1.LabelCRRPodUID, v1beta1.LabelCRRNodeName} {
		if before.Labels[key] != after.Labels[key] {
			response := admission.Errored(http.StatusForbidden, fmt.Errorf("label %s cannot change from %q to %q, because it "+
				"says who serves the request: set it back", key, before.Labels[key], after.Labels[key]))
			response.Result.Reason = metav1.StatusReasonForbidden
			return response
		}
	}
	return admission.Allowed("")
}

func refuse(format string, args ...any) admission.Response {
	response := admission.Errored(http.StatusBadRequest, fmt.Errorf(format, args...))
	response.Result.Reason = metav1.StatusReasonBadRequest
	return response
}

// served reports whether a daemon runs on the node. An error counts as one: this is for a warning alone.
func (g *Guard) served(ctx context.Context, node string) bool {
	var pods corev1.PodList
	err := g.reader.List(ctx, &pods, client.MatchingLabels{"app.kubernetes.io/name": program},
		client.MatchingFields{"spec.nodeName": node})
	if err != nil {
		return true
	}
	for i := range pods.Items {
		if podstate.Ready(&pods.Items[i]) {
			return true
		}
	}
	return false
}

// Fill fills the request in for its pod. It returns why the request cannot be carried out, "" if it can.
func Fill(request *v1beta1.ContainerRecreateRequest, pod *corev1.Pod) string {
	if wrong := unusable(pod); wrong != "" {
		return wrong
	}
	for i := range request.Spec.Containers {
		if wrong := fillContainer(&request.Spec.Containers[i], pod); wrong != "" {
			return fmt.Sprintf("spec.containers[%d]: %s", i, wrong)
		}
	}
	for key, value := range map[string]string{v1beta1.LabelCRRPodUID: string(pod.UID),
		v1beta1.LabelCRRNodeName: pod.Spec.NodeName, v1beta1.LabelCRRActive: "true"} {
		metav1.SetMetaDataLabel(&request.ObjectMeta, key, value)
	}
	if request.Spec.Strategy == nil {
		request.Spec.Strategy = &v1beta1.ContainerRecreateRequestStrategy{}
	}
	strategy := request.Spec.Strategy
	if strategy.FailurePolicy == "" {
		strategy.FailurePolicy = v1beta1.CRRFail
	}
	if strategy.TerminationGracePeriodSeconds == nil {
		seconds := int64(corev1.DefaultTerminationGracePeriodSeconds)
		if pod.Spec.TerminationGracePeriodSeconds != nil {
			seconds = *pod.Spec.TerminationGracePeriodSeconds
		}
		strategy.TerminationGracePeriodSeconds = &seconds
	}
	return ""
}

// ConditionSidecarTerminated is on a pod whose sidecars are stopped because its main containers have ended.
const ConditionSidecarTerminated corev1.PodConditionType = "SidecarTerminated"

// unusable returns why no container of the pod can be restarted, "" if some can.
func unusable(pod *corev1.Pod) string {
	terminated := podstate.Condition(pod, ConditionSidecarTerminated)
	switch {
	case pod.DeletionTimestamp != nil:
		return fmt.Sprintf("pod %s is being deleted: name a running pod", pod.Name)
	case podstate.Ended(pod) && (terminated == nil || terminated.Status != corev1.ConditionTrue):
		return fmt.Sprintf("pod %s has ended (%s): name a running pod", pod.Name, pod.Status.Phase)
	case pod.Spec.NodeName == "":
		return fmt.Sprintf("pod %s is on no node yet: wait until it runs", pod.Name)
	case len(validation.IsValidLabelValue(pod.Spec.NodeName)) > 0:
		return fmt.Sprintf("pod %s is on node %s, whose name is no value of a label (at most 63 characters): "+
			"delete the pod instead", pod.Name, pod.Spec.NodeName)
	}
	return ""
}

// fillContainer fills in what the container is now.
func fillContainer(wanted *v1beta1.ContainerRecreateRequestContainer, pod *corev1.Pod) string {
	if wanted.PreStop != nil || wanted.Ports != nil || wanted.StatusContext != nil {
		return fmt.Sprintf("preStop, ports and statusContext of container %s are filled in: leave them out", wanted.Name)
	}
	named := func(c corev1.Container) bool { return c.Name == wanted.Name }
	at := slices.IndexFunc(pod.Spec.Containers, named)
	switch {
	case at < 0 && slices.ContainsFunc(pod.Spec.InitContainers, named):
		return fmt.Sprintf("%s is an init container of pod %s: only other containers restart", wanted.Name, pod.Name)
	case at < 0:
		return fmt.Sprintf("pod %s has no container %s", pod.Name, wanted.Name)
	}
	container := &pod.Spec.Containers[at]
	for i := range pod.Status.ContainerStatuses {
		if status := &pod.Status.ContainerStatuses[i]; status.Name == wanted.Name && status.ContainerID != "" {
			wanted.StatusContext = &v1beta1.ContainerRecreateRequestContainerContext{
				ContainerID: status.ContainerID, RestartCount: status.RestartCount}
		}
	}
	if wanted.StatusContext == nil {
		return fmt.Sprintf("container %s of pod %s has not started yet: wait until it runs", wanted.Name, pod.Name)
	}
	if container.Lifecycle == nil || container.Lifecycle.PreStop == nil {
		return ""
	}
	hook := container.Lifecycle.PreStop
	wanted.PreStop = &v1beta1.ContainerRecreateRequestHandler{
		Exec: hook.Exec, HTTPGet: hook.HTTPGet, TCPSocket: hook.TCPSocket, Sleep: hook.Sleep}
	if hook.HTTPGet != nil {
		wanted.Ports = container.Ports
	}
	return ""
}

// Webhook returns the webhook of the guard, with all defaults of the API server filled in but for the client.
func Webhook() admissionregistrationv1.MutatingWebhook {
	return admissionregistrationv1.MutatingWebhook{
		Name: webhookName,
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
			Rule: admissionregistrationv1.Rule{
				// Objects of the other version are converted before they are sent.
				APIGroups: []string{v1beta1.GroupVersion.Group}, APIVersions: []string{v1beta1.GroupVersion.Version},
				Resources: []string{"containerrecreaterequests"}, Scope: new(admissionregistrationv1.NamespacedScope),
			},
		}},
		FailurePolicy:           new(admissionregistrationv1.Fail),
		MatchPolicy:             new(admissionregistrationv1.Equivalent),
		NamespaceSelector:       &metav1.LabelSelector{},
		ObjectSelector:          &metav1.LabelSelector{},
		SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
		TimeoutSeconds:          new(int32(timeout)),
		AdmissionReviewVersions: []string{"v1"},
		ReinvocationPolicy:      new(admissionregistrationv1.NeverReinvocationPolicy),
		MatchConditions:         []admissionregistrationv1.MatchCondition{{Name: "new-or-moved", Expression: toFill()}},
	}
}
