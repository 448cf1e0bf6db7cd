package memberagent_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

// testNotReady orders pods of a CloneSet and of a UnitedDeployment whose image does not exist, and corrects it.
func (b *bed) testNotReady(t *testing.T) {
	const image = "registry.example/does-not-exist:1"
	united := tree{
		"apiVersion": "apps.kruise.io/v1beta1", "kind": "UnitedDeployment",
		"metadata": tree{"namespace": "shop", "name": "unready-united"},
		"spec": tree{
			"replicas": 2, "selector": tree{"matchLabels": tree{"app": "unready-united"}},
			"template": tree{"cloneSetTemplate": tree{
				"metadata": tree{"labels": tree{"app": "unready-united"}},
				"spec": tree{"selector": tree{"matchLabels": tree{"app": "unready-united"}},
					"template": podTemplate("unready-united", image)},
			}},
			"topology": tree{"subsets": []any{tree{"name": "all"}}},
		},
	}
	works := []*work.Work{order(t, 1, cloneSet("shop", "unready", 2, image)), order(t, 1, united)}
	for _, w := range works {
		b.create(t, b.hub, w)
	}
	for _, w := range works {
		b.notReady(t, w, work.PodReason{Reason: "ImagePullBackOff", Message: "cannot pull image " + image, Count: 2,
			Container: "main"})
	}
	b.reorder(t, works[0], 2, cloneSet("shop", "unready", 2, "registry.example/web:1"))
	b.notReady(t, works[0])
	for _, w := range works {
		if err := b.hub.Delete(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		b.gone(t, b.hub, w)
	}
}

// notReady waits until the report on a Work has these reasons of pods, whatever the pods are called.
func (b *bed) notReady(t *testing.T, w *work.Work, want ...work.PodReason) {
	t.Helper()
	eventually(t, fmt.Sprintf("Work %s reports why pods are not Ready", w.Name), func(ctx context.Context) string {
		got := &work.Work{}
		if err := b.hub.Get(ctx, client.ObjectKeyFromObject(w), got); err != nil || got.Status.Report == nil {
			return fmt.Sprintf("no report (%v)", err)
		}
		reasons := slices.Clone(got.Status.Report.NotReady)
		for i := range reasons {
			reasons[i].Pod = ""
		}
		return cmp.Diff(want, reasons)
	})
}
