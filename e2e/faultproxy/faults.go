package faultproxy

import (
	"encoding/json"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fault is what happens to one request.
type Fault string

// The faults of single requests. Which of them happen, and how often, is up to [Options].
const (
	None        Fault = ""
	Conflict    Fault = "409 conflict"
	TooMany     Fault = "429 with Retry-After"
	Internal    Fault = "500"
	Unavailable Fault = "503"
	LostAnswer  Fault = "answer lost after the write"
	SlowAnswer  Fault = "slow answer"
	SlowRequest Fault = "slow request"
)

// The faults of the whole proxy, as they are counted.
const (
	WatchCut        Fault = "watch cut"
	WatchRefused    Fault = "watch refused"
	Outage          Fault = "outage"
	RequestInOutage Fault = "request in an outage"
	RequestWhileCut Fault = "request while cut off"
)

// slowest is the longest that the proxy delays a request or an answer.
const slowest = 1500 * time.Millisecond

// Chance is how often a fault happens to the requests that it can happen to.
type Chance struct {
	Fault Fault
	// PerMille is out of a thousand requests other than watches.
	PerMille int
}

// possible reports whether a fault makes sense for a request. A create with a name of its own cannot conflict.
func (f Fault) possible(method string) bool {
	switch f {
	case Conflict:
		return method != http.MethodGet && method != http.MethodPost
	case LostAnswer:
		return method != http.MethodGet
	default:
		return true
	}
}

// refusal returns the status with which a fault answers, 0 for a fault that does not answer.
func (f Fault) refusal() (code int, reason metav1.StatusReason) {
	switch f {
	case Conflict:
		return http.StatusConflict, metav1.StatusReasonConflict
	case TooMany:
		return http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests
	case Internal:
		return http.StatusInternalServerError, metav1.StatusReasonInternalError
	case Unavailable, WatchRefused:
		return http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable
	default:
		return 0, ""
	}
}

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	if code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{ // the client may be gone
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: "a fault of the test",
	})
}
