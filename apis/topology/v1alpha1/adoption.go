package v1alpha1

import (
	"encoding/json"
	"strconv"
)

const (
	// AnnotationAdopt with value "true" on a user's object lets the hub take over what already runs in the members under
	// its name. On a Work it is AdoptLook, or the number of replicas that the hub knows to stand in the member: an agent
	// takes over an object without a mark only while that is what stands there, so that nothing is ever scaled by
	// surprise.
	AnnotationAdopt = "topology.flotilla.dev/adopt"
	// AdoptLook on a Work asks what stands in the member; the agent tells, and changes nothing.
	AdoptLook = "look"
	// WithdrawRemove as the value of AnnotationWithdraw removes what was placed from all members.
	WithdrawRemove = "true"
	// WithdrawOrphan as the value of AnnotationWithdraw leaves what was placed running in the members, without our marks.
	WithdrawOrphan = "orphan"
	// AnnotationLetGo is on a CloneSet or UnitedDeployment of a member that a hub let go: JSON, a LetGo.
	AnnotationLetGo = "topology.flotilla.dev/let-go"
)

// LetGo is the value of AnnotationLetGo: two values of spec.updateStrategy, so that what was lent is not taken for what
// a person wrote.
// +kubebuilder:object:generate=false
type LetGo struct {
	// Users is what the user's object on the hub said.
	Users json.RawMessage `json:"users"`
	// Lent is what the member's object said when it was let go: the member's share of that.
	Lent json.RawMessage `json:"lent"`
}

// Value returns the value of AnnotationAdopt on a Work; empty where the workload adopts nothing.
func (a Adoption) Value() string {
	switch a.Phase {
	case "":
		return ""
	case AdoptionDiscovering:
		return AdoptLook
	}
	return strconv.Itoa(int(a.Replicas))
}

// AdoptionOf reads what Value wrote.
func AdoptionOf(value string) Adoption {
	if value == "" {
		return Adoption{}
	}
	replicas, err := strconv.ParseInt(value, 10, 32)
	if err != nil {
		return Adoption{Phase: AdoptionDiscovering}
	}
	return Adoption{Phase: AdoptionDiscovered, Replicas: int32(replicas)}
}
