package main

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// copyTo creates webhooks like these for the pods of a side, which the server is asked about.
func (a *admissions) copyTo(
	ctx context.Context, s side, webhooks []admissionregistrationv1.MutatingWebhook, server *httptest.Server,
) error {
	text, err := json.Marshal(webhooks)
	if err != nil {
		return fmt.Errorf("copy the webhooks of the agent: %w", err)
	}
	other := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: string(s)}}
	err = json.Unmarshal([]byte(strings.ReplaceAll(string(text), string(sideChain), string(s))), &other.Webhooks)
	if err != nil {
		return fmt.Errorf("copy the webhooks of the agent: %w", err)
	}
	for i := range other.Webhooks {
		other.Webhooks[i].ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: new(server.URL + "/" + string(s)),
			CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})}
	}
	if err := a.Create(ctx, other); err != nil {
		return fmt.Errorf("create the webhooks of %s: %w", s, err)
	}
	return nil
}

// likePatch returns a patch like those of the agent: it adds the same sidecar, volume and annotations to a pod, the
// annotations under other names of the same length, so that the agent does not take the pod for one of its own.
func (a *admissions) likePatch(ctx context.Context) ([]byte, error) {
	pod, err := a.core.CoreV1().Pods(string(sideChain)).Create(ctx, podFor("probe", appOf(0)),
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return nil, fmt.Errorf("create a pod with a sidecar: %w", err)
	}
	annotations := map[string]string{}
	for name, value := range pod.Annotations {
		annotations[strings.ReplaceAll(name, "kruise.io/", "benchs.io/")] = value
	}
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	operations := []operation{{"add", "/metadata/annotations", annotations}}
	for i := range pod.Spec.Containers {
		if c := pod.Spec.Containers[i]; c.Name == sidecarName {
			mounts := slices.DeleteFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name != sidecarName })
			operations = append(operations, operation{"add", fmt.Sprint("/spec/containers/", i),
				corev1.Container{Name: c.Name, Image: c.Image, Env: c.Env, VolumeMounts: mounts}})
		}
	}
	volume := operation{"add", "/spec/volumes/-", nil}
	if len(pod.Spec.Volumes) == 1 {
		volume.Path = "/spec/volumes"
	}
	for i := range pod.Spec.Volumes {
		if v := pod.Spec.Volumes[i]; v.Name == sidecarName && len(pod.Spec.Volumes) == 1 {
			volume.Value = []corev1.Volume{v}
		} else if v.Name == sidecarName {
			volume.Value = v
		}
	}
	return json.Marshal(append(operations, volume))
}

// fixedAnswer answers AdmissionReviews with yes, and with the patch unless it is nil.
func fixedAnswer(patch func() []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		data, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(data, &review)
		}
		if err != nil || review.Request == nil {
			http.Error(w, "no AdmissionReview", http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		if review.Response.Patch = patch(); review.Response.Patch != nil {
			review.Response.PatchType = new(admissionv1.PatchTypeJSONPatch)
		}
		review.Request = nil
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(&review) // an answer that is not read fails at the API server
	}
}
