package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxReview bounds the size of a request. An API server accepts objects of 3 MB; its request has the object once.
const maxReview = 8 << 20

// usualReview is the room for a request to begin with: most fit.
const usualReview = 16 << 10

// Request is the creation of a pod, on which the mutators work one after the other.
type Request struct {
	*admissionv1.AdmissionRequest
	// sent is the pod as the API server sent it, without managedFields, pod is what the mutators made of it. They are one
	// object until the first change.
	sent, pod *corev1.Pod
	// raw returns the pod in the JSON of the request, where Object is empty because it was decoded with the request.
	raw    func() ([]byte, error)
	err    error
	waited bool
}

// Waited notes that the answer waited for a cache.
func (r *Request) Waited() { r.waited = true }

// Pod returns the pod as the mutators before left it, with its namespace and without managedFields; only Change changes
// it.
func (r *Request) Pod() (*corev1.Pod, error) {
	if r.pod == nil && r.err == nil {
		pod := &corev1.Pod{}
		if err := json.Unmarshal(r.Object.Raw, pod); err != nil {
			r.err = fmt.Errorf("decode the pod: %w", err)
			return nil, r.err
		}
		r.decoded(pod)
	}
	return r.pod, r.err
}

// decoded takes the pod of the request.
func (r *Request) decoded(pod *corev1.Pod) {
	pod.Namespace, pod.ManagedFields = r.Namespace, nil
	r.sent, r.pod = pod, pod
}

// Change applies f to the pod. After an error of f the pod is what it was.
func (r *Request) Change(f func(*corev1.Pod) error) error {
	pod, err := r.Pod()
	if err != nil {
		return err
	}
	changed := pod.DeepCopy()
	if err := f(changed); err != nil {
		return err
	}
	r.pod = changed
	return nil
}

// patch returns the JSON patch with all changes; nil if there are none.
func (r *Request) patch() ([]byte, error) {
	if r.pod == r.sent {
		return nil, nil
	}
	raw := r.raw
	if raw == nil {
		raw = func() ([]byte, error) { return r.Object.Raw, nil }
	}
	return patchOf(raw, r.sent, r.pod)
}

// endpoint answers the API server. It is safe for concurrent use if admit is.
type endpoint struct {
	admit    func(context.Context, *Request) (*admissionv1.AdmissionResponse, error)
	decode   func([]byte) (*Request, metav1.TypeMeta, error)
	log      logr.Logger
	patience time.Duration
	// differs reports whether replicas can have different answers.
	differs bool
	metrics Metrics
}

// chain has the mutators in their order.
type chain struct {
	mutators []Mutator
	metrics  Metrics
}

// NewHandler returns the endpoint that has the mutators change new pods, in this order. patience is how long all of
// them together may wait for their caches: the context of a request ends after it.
func NewHandler(log logr.Logger, patience time.Duration, mutators ...Mutator) http.Handler {
	return newHandler(log, patience, Metrics{}, mutators)
}

func newHandler(log logr.Logger, patience time.Duration, metrics Metrics, mutators []Mutator) *endpoint {
	return &endpoint{admit: chain{mutators, metrics}.admit, decode: decodePod, log: log, patience: patience,
		metrics: metrics}
}

// ServeHTTP answers one AdmissionReview. What it cannot answer is a failed call, for which the API server follows the
// failure policy of the entry. A panic ends the connection, which is the same.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), e.patience)
	defer cancel()
	begun := time.Now()
	defer func() { e.metrics.took(time.Since(begun)) }()
	answer, again, err := e.answer(ctx, http.MaxBytesReader(w, r.Body, maxReview))
	if err != nil {
		e.log.Error(err, "did not answer about a pod; the failure policy of the webhook applies")
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if again {
		// The API server makes a new connection then, which may reach the other replica.
		w.Header().Set("Connection", "close")
	}
	if _, err := w.Write(answer); err != nil {
		e.log.Error(err, "the API server did not read the answer about a pod")
	}
}

// answer returns the AdmissionReview that answers the one in body. again: another replica may have another answer.
func (e *endpoint) answer(ctx context.Context, body io.Reader) (answer []byte, again bool, err error) {
	data := bytes.NewBuffer(make([]byte, 0, usualReview))
	if _, err := data.ReadFrom(body); err != nil {
		return nil, false, fmt.Errorf("read the AdmissionReview: %w", err)
	}
	request, kind, err := e.decode(data.Bytes())
	if err != nil {
		return nil, false, fmt.Errorf("decode the AdmissionReview: %w", err)
	}
	response, err := e.admit(ctx, request)
	if err != nil {
		return nil, false, err
	}
	if answer, err = json.Marshal(&admissionv1.AdmissionReview{TypeMeta: kind, Response: response}); err != nil {
		return nil, false, fmt.Errorf("encode the AdmissionReview: %w", err)
	}
	again = !response.Allowed && e.differs
	return answer, again, nil
}

// errNoRequest says that an AdmissionReview asks nothing.
var errNoRequest = errors.New("it has no request")

// decode returns the request of an AdmissionReview, and the version to answer in.
func decode(data []byte) (*Request, metav1.TypeMeta, error) {
	var review admissionv1.AdmissionReview
	err := json.Unmarshal(data, &review)
	if err == nil && review.Request == nil {
		err = errNoRequest
	}
	return &Request{AdmissionRequest: review.Request}, review.TypeMeta, err
}

// decodePod is decode for an endpoint that is asked about new pods: it decodes the pod, which is most of the request,
// in the same pass. What has no pod, or one that cannot be decoded, is left to decode.
func decodePod(data []byte) (*Request, metav1.TypeMeta, error) {
	var review struct {
		metav1.TypeMeta `json:",inline"`
		Request         *struct {
			admissionv1.AdmissionRequest `json:",inline"`

			Object *corev1.Pod `json:"object"`
		} `json:"request"`
	}
	if err := json.Unmarshal(data, &review); err != nil || review.Request == nil || review.Request.Object == nil ||
		!asksAboutPod(&review.Request.AdmissionRequest) {
		return decode(data)
	}
	r := &Request{AdmissionRequest: &review.Request.AdmissionRequest}
	r.raw = func() ([]byte, error) {
		whole, _, err := decode(data)
		if err != nil {
			return nil, err
		}
		return whole.Object.Raw, nil
	}
	r.decoded(review.Request.Object)
	return r, review.TypeMeta, nil
}

// asksAboutPod reports whether the request is the creation of a pod.
func asksAboutPod(request *admissionv1.AdmissionRequest) bool {
	return request.Operation == admissionv1.Create && request.Kind.Kind == "Pod" && request.SubResource == ""
}

// admit has the mutators change the pod.
func (c chain) admit(ctx context.Context, r *Request) (*admissionv1.AdmissionResponse, error) {
	response := &admissionv1.AdmissionResponse{UID: r.UID, Allowed: true}
	if !asksAboutPod(r.AdmissionRequest) {
		return response, nil
	}
	defer func() {
		if r.waited {
			c.metrics.waited()
		}
	}()
	for _, mutator := range c.mutators {
		if err := mutator.Mutate(ctx, r); err != nil {
			response.Allowed, response.Result = false, refusal(mutator.Name, err)
			return response, nil
		}
	}
	patch, err := r.patch()
	if err != nil {
		return nil, fmt.Errorf("make the patch of pod %s/%s: %w", r.Namespace, r.Name, err)
	}
	if patch != nil {
		response.Patch, response.PatchType = patch, new(admissionv1.PatchTypeJSONPatch)
	}
	return response, nil
}

// later is a refusal that passes.
type later struct{ error }

func (l later) Unwrap() error { return l.error }

// Later returns an error with which a mutator refuses a pod for now: the API server answers 429, and clients try
// again.
func Later(err error) error { return later{err} }

// retryAfter is when clients try again after a refusal that passes, in seconds.
const retryAfter = 1

// refusal is the answer for a pod that a mutator refuses: 403, or 429 if that passes.
func refusal(mutator string, err error) *metav1.Status {
	status := &metav1.Status{
		Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden,
		Message: mutator + ": " + err.Error(),
	}
	var passes later
	if errors.As(err, &passes) {
		status.Reason, status.Code = metav1.StatusReasonTooManyRequests, http.StatusTooManyRequests
		status.Details = &metav1.StatusDetails{RetryAfterSeconds: retryAfter}
	}
	return status
}
