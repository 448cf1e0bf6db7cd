package nodeimage

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/nodeimages"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func ago(d time.Duration) *metav1.Time { return new(metav1.NewTime(now.Add(-d))) }

func readyNode(since time.Duration) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"zone": "1"}}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue,
		LastTransitionTime: *ago(since)}}
	return node
}

func job(uid types.UID, secrets ...string) *v1beta1.ImagePullJob {
	out := &v1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: string(uid), UID: uid}}
	out.Spec.Image, out.Spec.PullSecrets = "web:1", secrets
	return out
}

func tag(name string, owners ...types.UID) v1beta1.ImageTagSpec {
	out := v1beta1.ImageTagSpec{Tag: name,
		PullPolicy: &v1beta1.ImageTagPullPolicy{TTLSecondsAfterFinished: new(int32(60))}}
	for _, uid := range owners {
		out.OwnerReferences = append(out.OwnerReferences, v1beta1.JobReference{Kind: "ImagePullJob", UID: uid})
	}
	return out
}

// image returns the NodeImage of node a with tags of the image web.
func image(tags ...v1beta1.ImageTagSpec) *v1beta1.NodeImage {
	out := &v1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"zone": "1"}}}
	if len(tags) > 0 {
		out.Spec.Images = map[string]v1beta1.ImageSpec{"web": {Tags: tags}}
	}
	return out
}

func ended(i *v1beta1.NodeImage, tag string, since time.Duration) *v1beta1.NodeImage {
	i.Status.ImageStatuses = map[string]v1beta1.ImageStatus{"web": {Tags: []v1beta1.ImageTagStatus{
		{Tag: tag, Phase: v1beta1.ImagePhaseSucceeded, CompletionTime: ago(since)}}}}
	return i
}

func TestOneNodeImagePerNode(t *testing.T) {
	notReady, leaving, serverless := readyNode(time.Hour), readyNode(time.Hour), readyNode(time.Hour)
	notReady.Status.Conditions[0].Status = corev1.ConditionFalse
	leaving.DeletionTimestamp = ago(0)
	serverless.Labels["type"] = "virtual-kubelet"
	fake, deleting := image(), image()
	fake.Labels[v1beta1.LabelFakeNodeImage] = "true"
	deleting.DeletionTimestamp = ago(0)
	for _, row := range []struct {
		name  string
		node  *corev1.Node
		image *v1beta1.NodeImage
		want  string
		next  time.Duration
	}{
		{name: "a new node waits", node: readyNode(10 * time.Second), next: 20 * time.Second},
		{name: "a ready node", node: readyNode(30 * time.Second), want: "create"},
		{name: "a node that became ready in the future of a clock set back", node: readyNode(-time.Hour), want: "create"},
		{name: "a node that is not ready", node: notReady},
		{name: "a node that is being deleted", node: leaving},
		{name: "a serverless node", node: serverless},
		{name: "a node that became not ready keeps it", node: notReady, image: image()},
		{name: "as it is", node: readyNode(time.Hour), image: image()},
		{name: "no node", image: image(), want: "delete"},
		{name: "no node, and fake", image: fake},
		{name: "no node, and being deleted", image: deleting},
		{name: "a node that became serverless", node: serverless, image: image(), want: "delete"},
		{name: "neither"},
	} {
		t.Run(row.name, func(t *testing.T) {
			plan := Make(Facts{Node: row.node, Image: row.image, Now: now})
			got := map[bool]string{true: "create"}[plan.Create] + map[bool]string{true: "delete"}[plan.Delete] +
				map[bool]string{true: "edit"}[plan.Edit != nil]
			next := time.Duration(0)
			if !plan.Next.IsZero() {
				next = plan.Next.Sub(now)
			}
			if got != row.want || next != row.next {
				t.Errorf("%q after %s, want %q after %s", got, next, row.want, row.next)
			}
		})
	}
}

func TestLabelsFollowTheNode(t *testing.T) {
	have := image()
	have.Labels = map[string]string{"zone": "2", "old": "x", v1beta1.LabelFakeNodeImage: "yes"}
	plan := Make(Facts{Node: readyNode(time.Hour), Image: have, Now: now})
	if plan.Edit == nil {
		t.Fatal("nothing is changed")
	}
	plan.Edit(have)
	if got := fmt.Sprint(have.Labels); got != "map[apps.kruise.io/fake-nodeimage:yes zone:1]" {
		t.Errorf("labels %s", got)
	}
}

func TestTagsLeaveWithTheirJobs(t *testing.T) {
	completed, deleted, failed := job("completed"), job("deleted"), job("failed")
	completed.Status.CompletionTime, deleted.DeletionTimestamp = ago(0), ago(0)
	failed.Status.FailedNodes = []string{"a", "b"}
	jobs := map[types.UID]*v1beta1.ImagePullJob{}
	for _, j := range []*v1beta1.ImagePullJob{completed, deleted, failed, job("runs"), job("runs-too")} {
		jobs[j.UID] = j
	}
	other := tag("1", "x")
	other.OwnerReferences[0].Kind = "Other"
	for _, row := range []struct {
		name  string
		image *v1beta1.NodeImage
		want  string // tags with the number of their owners; "as it is" for no change
		next  time.Duration
	}{
		{"a job that runs", image(tag("1", "runs")), "as it is", 0},
		{"a job that is gone", image(tag("1", "gone")), "", 0},
		{"a job that has ended", image(tag("1", "runs"), tag("2", "completed")), "1/1 ", 0},
		{"a job that is being deleted", image(tag("1", "deleted", "runs")), "1/1 ", 0},
		{"a job that pulls another tag now", image(tag("1", "runs"), tag("2", "runs", "gone")), "1/1 ", 0},
		{"a job for which this node has failed", image(tag("1", "failed")), "", 0},
		{"two jobs that run", image(tag("1", "runs", "runs-too")), "as it is", 0},
		{"an owner of another kind", image(other), "as it is", 0},
		{"no owner, not pulled yet", image(tag("1")), "as it is", 0},
		{"no owner, pulled", ended(image(tag("1")), "1", 50*time.Second), "as it is", 10 * time.Second},
		{"no owner, pulled for longer than its time to live", ended(image(tag("1")), "1", time.Minute), "", 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			plan := Make(Facts{Node: readyNode(time.Hour), Image: row.image, Jobs: jobs, Now: now})
			got := "as it is"
			if plan.Edit != nil {
				plan.Edit(row.image)
				got = ""
				for _, tag := range row.image.Spec.Images["web"].Tags {
					got += fmt.Sprintf("%s/%d ", tag.Tag, len(tag.OwnerReferences))
				}
			}
			next := time.Duration(0)
			if !plan.Next.IsZero() {
				next = plan.Next.Sub(now)
			}
			if got != row.want || next != row.next {
				t.Errorf("%q, next in %s; want %q in %s", got, next, row.want, row.next)
			}
		})
	}
}

func TestSecretsLeaveWithTheirJobs(t *testing.T) {
	reference := func(namespace, name string) v1beta1.PullSecretReference {
		return v1beta1.PullSecretReference{Namespace: namespace, Name: name}
	}
	mine, old := nodeimages.SecretName("shop", "mine"), nodeimages.SecretName("shop", "old")
	have := image(tag("1", "runs"), tag("2", "gone"))
	spec := have.Spec.Images["web"]
	spec.PullSecrets = []v1beta1.PullSecretReference{reference("own", mine), reference("own", old),
		reference("elsewhere", old), reference("own", "by-hand")}
	have.Spec.Images["web"] = spec
	plan := Make(Facts{Node: readyNode(time.Hour), Image: have, Namespace: "own", Now: now,
		Jobs: map[types.UID]*v1beta1.ImagePullJob{"runs": job("runs", "mine")}})
	plan.Edit(have)
	want := []v1beta1.PullSecretReference{reference("own", mine), reference("elsewhere", old), reference("own", "by-hand")}
	if got := have.Spec.Images["web"].PullSecrets; !slices.Equal(got, want) {
		t.Errorf("secrets %v, want %v", got, want)
	}
}
