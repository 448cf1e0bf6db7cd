//go:build e2e

package suites_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/e2e/harness"
)

// many is the name of the ResourceDistribution, of its Secret, and the value of the label of its namespaces.
const many = "many"

// space is a namespace of a member.
type space struct{ member, name string }

func (s space) object() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.name, Labels: map[string]string{"e2e": many}}}
}

// spacesOf returns namespaces from to-1, over all members in turn.
func spacesOf(from, to int) (out []space) {
	members := h.MemberNames()
	for i := from; i < to; i++ {
		out = append(out, space{members[i%len(members)], fmt.Sprintf("%s-%d", many, i)})
	}
	return out
}

// inEach calls do for each of the namespaces, some at a time.
func inEach(ctx context.Context, spaces []space, do func(ctx context.Context, c client.Client, s space) error) {
	GinkgoHelper()
	const atATime = 8
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atATime)
	for _, s := range spaces {
		group.Go(func() error { return do(ctx, h.Members[s.member].Client, s) })
	}
	Expect(group.Wait()).To(Succeed())
}

func createSpace(ctx context.Context, c client.Client, s space) error {
	return c.Create(ctx, s.object())
}

func deleteSpace(ctx context.Context, c client.Client, s space) error {
	return client.IgnoreNotFound(c.Delete(ctx, s.object()))
}

// createAgain creates a namespace of a name that is being deleted, once that has gone.
func createAgain(ctx context.Context, c client.Client, s space) error {
	const interval = 500 * time.Millisecond
	return wait.PollUntilContextTimeout(ctx, interval, harness.Patience, true, func(ctx context.Context) (bool, error) {
		err := createSpace(ctx, c, s)
		return err == nil, client.IgnoreAlreadyExists(err)
	})
}

// copiesDiffer says in which namespaces of the members the Secret is not what it is to be: content, or foreign in that
// namespace. Terminating namespaces do not count.
func copiesDiffer(ctx context.Context, content string, foreign space) (string, error) {
	var wrong []string
	for name, member := range h.Members {
		namespaces, secrets := &corev1.NamespaceList{}, &corev1.SecretList{}
		if err := member.Client.List(ctx, namespaces, client.MatchingLabels{"e2e": many}); err != nil {
			return "", fmt.Errorf("list namespaces of %s: %w", name, err)
		}
		if err := member.Client.List(ctx, secrets, client.MatchingFields{"metadata.name": many}); err != nil {
			return "", fmt.Errorf("list Secrets of %s: %w", name, err)
		}
		have := map[string]string{}
		for i := range secrets.Items {
			have[secrets.Items[i].Namespace] = string(secrets.Items[i].Data["key"])
		}
		for i := range namespaces.Items {
			namespace := &namespaces.Items[i]
			want := content
			if foreign == (space{name, namespace.Name}) {
				want = "foreign"
			}
			if got := have[namespace.Name]; namespace.DeletionTimestamp == nil && got != want {
				wrong = append(wrong, fmt.Sprintf("%s of %s has %q, not %q", namespace.Name, name, got, want))
			}
		}
	}
	const most = 5
	return strings.Join(wrong[:min(len(wrong), most)], ", "), nil
}

var _ = Describe("A ResourceDistribution on a hub with many namespaces", func() {
	It("gives 200 namespaces that come and go under a changing Secret the last content", func(ctx SpecContext) {
		const first, last = 200, 240
		DeferCleanup(func(ctx SpecContext) {
			h.Kubectl(ctx, "delete", "--ignore-not-found", "resourcedistributions.apps.kruise.io/"+many)
			h.Kubectl(ctx, "delete", "--ignore-not-found", "clusterfederationpolicies.topology.flotilla.dev/"+many)
			inEach(ctx, spacesOf(0, last), deleteSpace)
		})
		change := func(content string) {
			GinkgoHelper()
			h.Kubectl(ctx, "patch", "resourcedistributions.apps.kruise.io/"+many, "--type=merge", "-p",
				fmt.Sprintf(`{"spec": {"resource": {"stringData": {"key": %q}}}}`, content))
		}
		foreign := spacesOf(0, 1)[0]
		inEach(ctx, []space{foreign}, func(ctx context.Context, c client.Client, s space) error {
			if err := createSpace(ctx, c, s); err != nil {
				return err
			}
			return c.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: many},
				StringData: map[string]string{"key": "foreign"}})
		})
		h.Hub.Apply(ctx, strings.NewReplacer("pull", many).Replace(distribution))

		By("creating namespaces, and changing the Secret meanwhile")
		inEach(ctx, spacesOf(1, first/2), createSpace)
		change("two")
		inEach(ctx, spacesOf(first/2, first), createSpace)

		By("deleting some, creating others and some again, and changing the Secret once more")
		leaving := spacesOf(10, 40)
		inEach(ctx, leaving, deleteSpace)
		inEach(ctx, spacesOf(first, last), createSpace)
		change("three")
		const again = 6
		inEach(ctx, leaving[:again], createAgain)

		By("looking at all of them")
		Eventually(ctx, func(ctx context.Context) (string, error) { return copiesDiffer(ctx, "three", foreign) }).
			WithTimeout(harness.Patience).Should(BeEmpty())
		exist := int32(last - len(leaving) + again)
		expectDistributed(ctx, many, exist, exist-1,
			fmt.Sprintf("%s: Secret %s of others is in namespace %s, and stays as it is", foreign.member, many, foreign.name))
		Expect(copiesDiffer(ctx, "three", foreign)).To(BeEmpty())

		By("deleting the copies with it, and nothing else")
		h.Kubectl(ctx, "delete", "resourcedistributions.apps.kruise.io/"+many)
		Eventually(ctx, func(ctx context.Context) (string, error) { return copiesDiffer(ctx, "", foreign) }).
			WithTimeout(harness.Patience).Should(BeEmpty())
	})
})
