// Package inplace owns the question "can this change be made in the running pod, how, and is it done". It is pure.
//
// The rule: two revisions may differ in the images of containers, in their cpu and memory, and in labels and
// annotations of the template, but for that of a rollout restart, and in nothing else; a refusal names the field. An
// update shuts the gate InPlaceUpdateReady if any container restarts, waits for the grace period, gives the containers
// their change in batches by priority, and opens the gate when every changed container runs what it was given. The
// annotations on the pod hold all that is needed to go on: whoever reads the pod can call Next, and a new change can be
// begun at any point. Example: nginx:1 to nginx:2 on container main. Begin shuts the gate and, in a second patch,
// writes the image, the labels of the revision and a record with main's imageID. As soon as the kubelet reports another
// one, Observe says Finished, and OpenGate ends the update, with the pod's uid and address unchanged and restartCount
// one higher.
package inplace
