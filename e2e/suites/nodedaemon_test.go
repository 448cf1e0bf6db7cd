//go:build e2e

package suites_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1alpha1"
	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/e2e/harness"
)

// pulledImage is pulled on the nodes of two members, atOnce at a time.
const (
	pulledImage = "registry.example/pulled"
	atOnce      = 3
)

func imagePullJob(namespace string) string {
	return fmt.Sprintf(`
apiVersion: apps.kruise.io/v1beta1
kind: ImagePullJob
metadata: {name: pull, namespace: %s}
spec:
  image: %s:2
  parallelism: %d
  flotilla: {pullBy: Daemon}
`, namespace, pulledImage, atOnce)
}

// puller plays the node daemons of some members. It ends a pull that it has seen in several looks.
type puller struct {
	members []string
	fails   string // <member>/<node>, whose pull fails
	seen    map[string]int
	// most is on how many nodes the image was pulled at the same time, ended on how many the pull has ended.
	most, ended int
}

// looks is how many looks a pull takes, and lookEvery the time between them.
const (
	looks     = 3
	lookEvery = 250 * time.Millisecond
)

// look answers what nodes are asked for, and returns on how many nodes the pull has ended.
func (p *puller) look(ctx context.Context) (int, error) {
	pulling := map[string]*apps.NodeImage{}
	for _, member := range p.members {
		var list apps.NodeImageList
		if err := h.Members[member].Client.List(ctx, &list); err != nil {
			return 0, fmt.Errorf("list NodeImages of %s: %w", member, err)
		}
		for i := range list.Items {
			if image := &list.Items[i]; asked(image) {
				pulling[member+"/"+image.Name] = image
			}
		}
	}
	p.most = max(p.most, len(pulling))
	for key, image := range pulling {
		if p.seen[key]++; p.seen[key] < looks {
			continue
		}
		member, _, _ := strings.Cut(key, "/")
		p.answer(image, key == p.fails)
		if err := h.Members[member].Client.Status().Update(ctx, image); apierrors.IsConflict(err) {
			continue // at the next look
		} else if err != nil {
			return 0, fmt.Errorf("write the status of NodeImage %s of %s: %w", image.Name, member, err)
		}
		p.ended++
	}
	return p.ended, nil
}

// asked reports whether a node is asked for the image and has not answered.
func asked(image *apps.NodeImage) bool {
	for _, tag := range image.Spec.Images[pulledImage].Tags {
		if !slices.ContainsFunc(image.Status.ImageStatuses[pulledImage].Tags, func(s apps.ImageTagStatus) bool {
			return s.Version == tag.Version
		}) {
			return true
		}
	}
	return false
}

// answer writes how the pull of a node ended into its NodeImage.
func (p *puller) answer(image *apps.NodeImage, fails bool) {
	var answers []apps.ImageTagStatus
	for _, tag := range image.Spec.Images[pulledImage].Tags {
		answer := apps.ImageTagStatus{Tag: tag.Tag, Version: tag.Version, Phase: apps.ImagePhaseSucceeded,
			CompletionTime: new(metav1.Now())}
		if fails {
			answer.Phase, answer.Message = apps.ImagePhaseFailed, "no such manifest"
		}
		answers = append(answers, answer)
	}
	image.Status.ImageStatuses = map[string]apps.ImageStatus{pulledImage: {Tags: answers}}
}

// nodeImages counts the NodeImages of members.
func nodeImages(ctx context.Context, members []string) (names []string, err error) {
	for _, member := range members {
		var list apps.NodeImageList
		if err := h.Members[member].Client.List(ctx, &list); err != nil {
			return nil, fmt.Errorf("list NodeImages of %s: %w", member, err)
		}
		for i := range list.Items {
			names = append(names, member+"/"+list.Items[i].Name)
		}
	}
	return names, nil
}

var _ = Describe("An ImagePullJob on a hub", func() {
	It("pulls on the nodes of two members within one parallelism, and names the node that failed", func(ctx SpecContext) {
		ns, members := bare(ctx, "pulls"), []string{"east", "west"}
		enforce(ctx, ns, policyOn(ns, "two", strings.Join(members, ", "), "ImagePullJob"))
		pull := harness.Workload{GroupVersionKind: apps.ImagePullJobKind, Namespace: ns, Name: "pull"}
		var nodes []string
		Eventually(ctx, func(ctx context.Context) (_ int, err error) {
			nodes, err = nodeImages(ctx, members) // 30 s after a node is ready
			return len(nodes), err
		}).WithTimeout(harness.Patience).Should(Equal(8))
		DeferCleanup(func(ctx SpecContext) { // no daemon has reported for specs that come later
			for _, key := range nodes {
				member, node, _ := strings.Cut(key, "/")
				_, _ = h.Members[member].Kubectl(ctx, "delete", "nodeimage", node)
			}
		})
		daemons := &puller{members: members, fails: nodes[len(nodes)-1], seen: map[string]int{}}

		h.Hub.Apply(ctx, imagePullJob(ns))
		Eventually(ctx, daemons.look).WithPolling(lookEvery).WithTimeout(harness.Patience).Should(Equal(len(nodes)))
		Expect(daemons.most).To(And(BeNumerically(">", 1), BeNumerically("<=", atOnce)), "nodes that pull at the same time")
		Eventually(ctx, func(ctx context.Context) error {
			job := &apps.ImagePullJob{}
			if err := h.Hub.Client.Get(ctx, client.ObjectKey{Namespace: ns, Name: "pull"}, job); err != nil {
				return err
			}
			s := &job.Status
			if s.CompletionTime == nil || s.Desired != 8 || s.Succeeded != 7 || s.Failed != 1 || s.Active != 0 ||
				!slices.Equal(s.FailedNodes, []string{daemons.fails}) ||
				!meta.IsStatusConditionTrue(s.Conditions, apps.ConditionStalled) {
				return fmt.Errorf("status %+v", s)
			}
			return nil
		}).WithTimeout(harness.Patience).Should(Succeed())

		h.Kubectl(ctx, "-n", ns, "delete", "imagepulljobs.apps.kruise.io/pull")
		h.ExpectGone(ctx, pull)
	})
})

func podProbeMarker(namespace string) string {
	return fmt.Sprintf(`
apiVersion: apps.kruise.io/v1alpha1
kind: PodProbeMarker
metadata: {name: roles, namespace: %s}
spec:
  selector: {matchLabels: {app: web}}
  probes:
  - name: leader
    containerName: main
    probe: {tcpSocket: {port: 80}}
    markerPolicy:
    - {state: Succeeded, labels: {role: leader}}
    - {state: Failed, labels: {role: follower}}
`, namespace)
}

// probeAll answers as the daemons of the members' nodes all probes of pods of a namespace. The first pod of a member
// leads. It returns how many pods were answered.
func probeAll(ctx context.Context, namespace, leads string) (answered int, err error) {
	for _, member := range h.MemberNames() {
		var list v1alpha1.NodePodProbeList
		if err := h.Members[member].Client.List(ctx, &list); err != nil {
			return 0, fmt.Errorf("list NodePodProbes of %s: %w", member, err)
		}
		first := member == leads
		for i := range list.Items {
			node := &list.Items[i]
			node.Status.PodProbeStatuses = nil
			for _, pod := range node.Spec.PodProbes {
				if pod.Namespace != namespace {
					continue
				}
				status := v1alpha1.PodProbeStatus{Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID}
				state := v1alpha1.ProbeFailed
				if first {
					state, first = v1alpha1.ProbeSucceeded, false
				}
				for _, probe := range pod.Probes {
					status.ProbeStates = append(status.ProbeStates, v1alpha1.ContainerProbeState{Name: probe.Name, State: state,
						LastProbeTime: metav1.Now(), LastTransitionTime: metav1.Now()})
				}
				node.Status.PodProbeStatuses = append(node.Status.PodProbeStatuses, status)
				answered++
			}
			if err := h.Members[member].Client.Status().Update(ctx, node); err != nil && !apierrors.IsConflict(err) {
				return 0, fmt.Errorf("write the status of NodePodProbe %s of %s: %w", node.Name, member, err)
			}
		}
	}
	return answered, nil
}

// expectProbed waits until the hub's PodProbeMarker counts pods and their states, and Ready has the status and says
// some words.
func expectProbed(
	ctx context.Context, namespace string, pods int64, counts v1alpha1.ProbeCounts, ready metav1.ConditionStatus,
	says string,
) {
	GinkgoHelper()
	Eventually(ctx, func(ctx context.Context) error {
		m := &v1alpha1.PodProbeMarker{}
		if err := h.Hub.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "roles"}, m); err != nil {
			return err
		}
		s := &m.Status
		c := meta.FindStatusCondition(s.Conditions, apps.ConditionReady)
		if s.ObservedGeneration != m.Generation || s.MatchedPods != pods || s.Flotilla == nil ||
			len(s.Flotilla.Probes) != 1 || s.Flotilla.Probes[0] != counts || c == nil || c.Status != ready ||
			!strings.Contains(c.Message, says) {
			return fmt.Errorf("status %+v, %+v", s, s.Flotilla)
		}
		return nil
	}).WithTimeout(harness.Patience).Should(Succeed())
}

// marked returns how many pods of a namespace have each value of the label role.
func marked(ctx context.Context, namespace string) (map[string]int, error) {
	out := map[string]int{}
	for _, member := range h.MemberNames() {
		var list corev1.PodList
		err := h.Members[member].Client.List(ctx, &list, client.InNamespace(namespace), client.HasLabels{"role"})
		if err != nil {
			return nil, fmt.Errorf("list pods of %s: %w", member, err)
		}
		for i := range list.Items {
			out[list.Items[i].Labels["role"]]++
		}
	}
	return out, nil
}

var _ = Describe("A PodProbeMarker on a hub", func() {
	It("probes pods of three members, counts their states and goes with its marks", func(ctx SpecContext) {
		ns := bare(ctx, "probes")
		enforce(ctx, ns, policy(ns, "everywhere", "CloneSet", "PodProbeMarker"))
		web := harness.CloneSet(ns, "web")
		roles := harness.Workload{GroupVersionKind: v1alpha1.PodProbeMarkerKind, Namespace: ns, Name: "roles"}
		h.Hub.Apply(ctx, cloneSet(ns, "web", 6, webImage, ""))
		h.ExpectAtRest(ctx, web, 6)

		By("waiting for daemons")
		h.Hub.Apply(ctx, podProbeMarker(ns))
		expectProbed(ctx, ns, 6, v1alpha1.ProbeCounts{Name: "leader", Unknown: 6}, metav1.ConditionFalse,
			"east: 0 of 2 pods have results")

		By("counting what they find")
		Eventually(ctx, func(ctx context.Context) (int, error) { return probeAll(ctx, ns, "west") }).
			WithTimeout(harness.Patience).Should(Equal(6))
		expectProbed(ctx, ns, 6, v1alpha1.ProbeCounts{Name: "leader", Succeeded: 1, Failed: 5}, metav1.ConditionTrue,
			"pods that are probed: 6, in 3 members")
		// The pods are those of the CloneSet: their number makes no order.
		Expect(h.MustPlacement(ctx, roles).Spec.Cells).To(HaveEach(HaveField("Replicas", BeZero())))
		Eventually(ctx, func(ctx context.Context) (map[string]int, error) { return marked(ctx, ns) }).
			WithTimeout(harness.Patience).Should(Equal(map[string]int{"leader": 1, "follower": 5}))
		Eventually(ctx, func(ctx context.Context) string { return h.Flotilla(ctx, "tree", "cloneset/web", "-n", ns).Out }).
			WithTimeout(harness.Patience).Should(ContainSubstring("role=leader 1 (west 1)"))

		By("naming the member where a policy cannot be carried out")
		h.Kubectl(ctx, "-n", ns, "patch", "podprobemarkers.apps.kruise.io/roles", "--type=json", "-p",
			`[{"op": "add", "path": "/spec/probes/0/markerPolicy/1/labels/app", "value": "x"}]`)
		expectProbed(ctx, ns, 6, v1alpha1.ProbeCounts{Name: "leader", Succeeded: 1, Failed: 5}, metav1.ConditionFalse,
			"east: markerPolicy sets app, which is left out")

		By("taking it away, and its marks with it")
		h.Kubectl(ctx, "-n", ns, "delete", "podprobemarkers.apps.kruise.io/roles")
		Eventually(ctx, func(ctx context.Context) (map[string]int, error) { return marked(ctx, ns) }).
			WithTimeout(harness.Patience).Should(BeEmpty())
		h.Kubectl(ctx, "-n", ns, "delete", "clonesets.apps.kruise.io/web")
		h.ExpectGone(ctx, roles)
	})
})
