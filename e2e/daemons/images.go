package daemons

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/nodedaemon/images"
)

const (
	// longestPull is how long a pull takes at most.
	longestPull = 2 * time.Second
	// pullsAtOnce is how many pulls run on a node at the same time.
	pullsAtOnce = 2
)

// pulling is an attempt to pull that has not ended.
type pulling struct {
	images.Running
	until time.Time
}

// pull pulls what a node is asked for.
func (m *Member) pull(ctx context.Context, name string, n *node, image *v1beta1.NodeImage, now time.Time) error {
	if image == nil {
		return nil
	}
	for key, attempt := range n.running {
		if !now.Before(attempt.until) {
			delete(n.running, key)
			n.records[key] = m.pulled(name, n, key, attempt, now)
		}
	}
	f := images.Facts{Spec: image.Spec, Status: image.Status, Present: n.images, Records: n.records,
		Running: map[images.Key]images.Running{}, Workers: pullsAtOnce, Now: now}
	for key, attempt := range n.running {
		f.Running[key] = attempt.Running
	}
	plan := images.Make(f)
	for _, stop := range plan.Stop {
		delete(n.running, stop.Key)
	}
	for _, start := range plan.Start {
		n.running[start.Key] = &pulling{images.Running{Version: start.Version, Since: now},
			now.Add(m.upTo(longestPull))}
	}
	if equality.Semantic.DeepEqual(image.Status, plan.Status) {
		return nil
	}
	changed := image.DeepCopy()
	changed.Status = plan.Status
	patch := client.MergeFromWithOptions(image, client.MergeFromWithOptimisticLock{})
	return unless(m.client.Status().Patch(ctx, changed, patch), "NodeImage", name)
}

// pulled returns what a daemon remembers of an attempt that has ended.
func (m *Member) pulled(name string, n *node, key images.Key, of *pulling, now time.Time) images.Record {
	record := n.records[key]
	if record.Version != of.Version {
		record = images.Record{Version: of.Version}
	}
	record.EndedAt = now
	if m.Broken != nil && m.Broken(name) {
		record.Attempts, record.Message, record.Pulled = record.Attempts+1, "no such manifest", false
		return record
	}
	n.images[key.Reference()] = "sha256:" + key.Tag
	record.Pulls, record.Message, record.Pulled = record.Pulls+1, "", true
	return record
}
