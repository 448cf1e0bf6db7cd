// Package inplace owns the question "can this change be made in the running pod, how, and is it done". It is pure.
//
// The rule: two revisions may differ in the images of containers and in labels and annotations of the template, and in
// nothing else; a refusal names the field. An update has three writes: the gate InPlaceUpdateReady shuts, the pod gets
// its images, labels and the state annotation in one patch, and the gate opens when every changed container runs another
// image than before (or one that is called as the spec says).
// Example: nginx:1 to nginx:2 on container main. The annotation remembers main's imageID; as soon as the kubelet reports
// another one, the update is done, with the pod's uid and address unchanged and restartCount one higher.
package inplace
