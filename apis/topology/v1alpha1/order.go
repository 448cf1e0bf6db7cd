package v1alpha1

import (
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// LeaseDuration is how long an agent may be unreachable before its member is NotReady: four renewals, so that one
	// lost request is no outage. An agent without contact to its hub for as long disrupts nothing.
	LeaseDuration = 40 * time.Second
	// GrantsExpire is how long the hub waits, from the last renewal that it saw, before it grants to others what the
	// agent may disrupt. The agent stops after LeaseDuration, by its own clock, from when it sent that renewal: the
	// other half is for clocks that do not run alike, and for requests on their way.
	GrantsExpire = 2 * LeaseDuration
)

// SequenceOf returns the sequence of the order that a Work carries or that a member object has, and whether it has one
// that can be read; 0 if not.
func SequenceOf(object metav1.Object) (sequence int64, ok bool) {
	sequence, err := strconv.ParseInt(object.GetAnnotations()[AnnotationSequence], 10, 64)
	if err != nil {
		return 0, false
	}
	return sequence, true
}
