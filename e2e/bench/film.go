package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	topologyv1alpha1 "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	workv1alpha1 "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/hub/wire"
)

// film notes what was seen of one workload on the hub and in its members, in the order in which it was seen here.
type film struct {
	mu    sync.Mutex
	began time.Time
	lines strings.Builder
	last  map[string]string
}

// note adds a line, unless the same source said the same before.
func (f *film) note(source, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last[source] != text {
		f.last[source] = text
		fmt.Fprintf(&f.lines, "%6d ms  %-14s %s\n", time.Since(f.began).Milliseconds(), source, text)
	}
}

// shoot films the CloneSet called name until the returned function is called, which returns the lines.
func (d *delivery) shoot(ctx context.Context, name string) func() string {
	f := &film{began: time.Now(), last: map[string]string{}}
	ctx, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	follow := func(c *connection, list client.ObjectList, see func(client.Object)) {
		group.Go(func() {
			err := c.follow(ctx, list, nil, func(object client.Object, gone bool) bool {
				if !gone {
					see(object)
				}
				return false
			})
			if ctx.Err() == nil {
				f.note(c.cluster.Name, fmt.Sprint("the film ends: ", err))
			}
		})
	}
	follow(d.hub, &topologyv1alpha1.WorkloadPlacementList{}, func(o client.Object) {
		p := o.(*topologyv1alpha1.WorkloadPlacement)
		if p.Spec.Workload.Name != name {
			return
		}
		var cells []string
		for i := range p.Spec.Cells {
			c := &p.Spec.Cells[i]
			cells = append(
				cells,
				fmt.Sprintf(
					"%s#%d updated %d/%d unavailable %d/%d",
					c.Cluster,
					c.Sequence,
					c.Granted.Updated,
					c.Reserved.Updated,
					c.Granted.Unavailable,
					c.Reserved.Unavailable,
				),
			)
		}
		f.note("placement", strings.Join(cells, ", "))
	})
	follow(d.hub, &workv1alpha1.WorkList{}, func(o client.Object) {
		w := o.(*workv1alpha1.Work)
		key, ok := wire.KeyOf(w)
		if !ok || key.Name != name || w.Status.Report == nil {
			return
		}
		cluster, _ := wire.MemberOf(w.Namespace)
		use, err := json.Marshal(w.Status.Report.InUse)
		if err != nil {
			use = []byte(err.Error())
		}
		f.note(
			"work of "+cluster,
			fmt.Sprintf("#%s; report #%d %s", w.Annotations[topologyv1alpha1.AnnotationSequence], w.Status.Report.Sequence, use),
		)
	})
	for _, c := range append([]*connection{d.hub}, d.members...) {
		follow(c, &appsv1beta1.CloneSetList{}, func(o client.Object) {
			if o.GetName() == name {
				f.note(
					c.cluster.Name,
					fmt.Sprintf("#%s %s", o.GetAnnotations()[topologyv1alpha1.AnnotationSequence], cloneSetKind().counts(o)),
				)
			}
		})
	}
	return func() string {
		stop()
		group.Wait()
		return f.lines.String()
	}
}
