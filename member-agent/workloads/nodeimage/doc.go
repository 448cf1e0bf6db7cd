// Package nodeimage is the controller of NodeImages: one for each node that has been ready for 30 seconds. It gives
// them the labels of their nodes, deletes them with their nodes, and takes tags from them that no ImagePullJob
// needs any more. What jobs leave within seconds is one write per node.
//
// plan.go decides, and is pure. controller.go reads and writes.
package nodeimage
