package v1beta1

// CanGoBack tells whether a higher partition brings updated pods back: the status still has a current revision, the one
// that all pods had last, other than the update revision. A status that was never written cannot.
func (s *CloneSetStatus) CanGoBack() bool {
	return s.CurrentRevision != "" && s.UpdateRevision != "" && s.CurrentRevision != s.UpdateRevision
}
