// Package fleet runs a hub and its members as real control planes on this machine: etcd, kube-apiserver,
// kube-controller-manager and kube-scheduler as processes, nodes and their pods simulated by kwok with stages of our
// own. `flotilla try`, the e2e harness, integration tests and benchmarks share it.
//
// A test takes a fleet like this; it ends with the test, and also when the test process is killed:
//
//	f := fleet.ForTest(t, fleet.Config{
//		Members: []fleet.ClusterSpec{
//			{Name: "east", Nodes: fleet.Nodes("east", "eu", []string{"a", "b"}, 2)},
//			{Name: "west", Nodes: fleet.Nodes("west", "eu", []string{"b", "c"}, 2)},
//		},
//	})
//	err := f.Hub().InstallCRDs(t.Context(), crds.FS)
//	restConfig := f.Member("east").RESTConfig()
//
// A test of one cluster alone sets NoHub and gives one member.
//
// Pods on the simulated nodes behave as a kubelet's do, see stages.yaml; these labels and annotations of a pod
// steer it: LabelNeverReady, LabelNoResize, AnnotationStartFor, AnnotationRunFor, AnnotationExitCode. An image whose
// name contains "does-not-exist" cannot be pulled; one whose tag ends with "-again" has the content of the tag before
// that. A node with AnnotationKubelet has no kubelet.
package fleet
