// Package orphans finds the objects of the member that carry the label of the hub (topology.LabelHub) and have no
// order: no Work in this member's namespace on the hub names them. The cluster was a member under another name, a
// backup of a namespace was restored, or a person copied an object with its labels. Orphans keep running. They are
// reported in MemberCluster.status, and never changed or deleted.
//
// Lists are metadata only and select the label. They are made when the hub has answered a session, when a Work
// vanished, and when the watch of marked objects shows one without an order. That watch has the kinds that Works name
// and those of known orphans; the other kinds are listed every ten minutes.
package orphans
