package v1alpha1

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/json"
)

// WorkloadPlacements that a hub of an earlier version stored have other names of fields. They are read for one minor
// version and never written.

// EarlierSpec has the earlier names of fields of WorkloadPlacementSpec.
type EarlierSpec struct {
	// before is the earlier name of previousTemplate. Deprecated.
	// +optional
	EarlierBefore *RevisionTemplate `json:"before,omitempty"`
}

// EarlierAmounts has the earlier names of fields of Budget.
type EarlierAmounts struct {
	// update is the earlier name of updated. Deprecated.
	// +optional
	EarlierUpdate int32 `json:"update,omitempty"`
	// break is the earlier name of unavailable. Deprecated.
	// +optional
	EarlierBreak int32 `json:"break,omitempty"`
	// add is the earlier name of surge. Deprecated.
	// +optional
	EarlierAdd int32 `json:"add,omitempty"`
}

// EarlierCell has the earlier names of fields of Cell.
type EarlierCell struct {
	// leaving is the earlier name of replaced. Deprecated.
	// +optional
	EarlierLeaving int32 `json:"leaving,omitempty"`
	// share is the earlier name of granted. Deprecated.
	// +optional
	EarlierShare *EarlierAmounts `json:"share,omitempty"`
	// held is the earlier name of reserved. Deprecated.
	// +optional
	EarlierHeld *EarlierAmounts `json:"held,omitempty"`
	// frozen is the earlier name of waiting. Deprecated.
	// +optional
	EarlierFrozen bool `json:"frozen,omitempty"`
	// adopt is the earlier form of adoption: "look" for Discovering, else the replicas. Deprecated.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	EarlierAdopt string `json:"adopt,omitempty"`
	// asked is the earlier name of taskSequence. Deprecated.
	// +optional
	EarlierAsked int64 `json:"asked,omitempty"`
}

// UnmarshalJSON reads a decision under the names of now and of the version before. In memory it has those of now alone.
func (s *WorkloadPlacementSpec) UnmarshalJSON(data []byte) error {
	type plain WorkloadPlacementSpec
	if err := json.Unmarshal(data, (*plain)(s)); err != nil {
		return fmt.Errorf("read the spec of a WorkloadPlacement: %w", err)
	}
	if s.EarlierBefore != nil {
		s.PreviousTemplate, s.EarlierSpec = s.EarlierBefore, EarlierSpec{}
	}
	for i := range s.Limits {
		if l := &s.Limits[i]; l.EarlierAmounts != (EarlierAmounts{}) {
			l.Budget, l.EarlierAmounts = l.budget(), EarlierAmounts{}
		}
	}
	for i := range s.Cells {
		s.Cells[i].rename()
	}
	return nil
}

// rename moves what stands under earlier names.
func (c *Cell) rename() {
	e := c.EarlierCell
	if e.EarlierShare != nil {
		c.Granted = e.EarlierShare.budget()
	}
	if e.EarlierHeld != nil {
		c.Reserved = e.EarlierHeld.budget()
	}
	if e.EarlierLeaving != 0 {
		c.Replaced = e.EarlierLeaving
	}
	if e.EarlierAsked != 0 {
		c.TaskSequence = e.EarlierAsked
	}
	c.Waiting = c.Waiting || e.EarlierFrozen
	if e.EarlierAdopt != "" {
		c.Adoption = AdoptionOf(e.EarlierAdopt)
	}
	c.EarlierCell = EarlierCell{}
}

func (a *EarlierAmounts) budget() Budget {
	return Budget{Updated: a.EarlierUpdate, Unavailable: a.EarlierBreak, Surge: a.EarlierAdd}
}
