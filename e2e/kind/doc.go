// Package kind runs a hub and two members as kind clusters: real nodes with real kubelets, the programs from their
// images by the charts, as docs/install.md says, and pods of an image that has one small program (app). Simulated nodes
// keep a kubelet's promises as far as we know them; here it is seen what kubelets do.
//
// `make e2e-kind` runs it (tag e2e). The node image is the only parameter: NODE_IMAGE, else kind's own where docker
// runs, else one that is made of Debian packages and Go modules and needs no registry (e2e/tools/node). Nothing here is
// about the node image.
//
// One story, since clusters take minutes and their pods seconds; what is lost by a failure is what comes after it.
// Every step says how long it took.
package kind
