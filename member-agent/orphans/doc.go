// Package orphans finds the objects of the member that carry the label of the hub (topology.LabelHub) and have no order:
// no Work in this member's namespace on the hub names them. The cluster was a member under another name, a backup of a
// namespace was restored, or a person copied an object with its labels. Orphans keep running. They are reported in
// MemberCluster.status, and never changed or deleted.
//
// Lists are metadata only and select the label. They are made when the hub has answered a session, when a Work vanished,
// when the watch of ordered kinds shows an object without an order, and every ten minutes for the other kinds.
package orphans
