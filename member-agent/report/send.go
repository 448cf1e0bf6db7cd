package report

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/apply"
)

// fieldManager names the agent in what it writes on the hub.
const fieldManager = "flotilla-agent"

// writeTimeout ends a report to a hub that hangs; the next one says the same or more.
const writeTimeout = 10 * time.Second

// Patch is a JSON patch of a Work's status as a whole, for the Work with this uid alone: one that was deleted and
// recreated under the name is another order, and what became of the first says nothing of it. An API server ignores the
// uid of a merge patch of a status.
func Patch(uid types.UID, status work.WorkStatus) (client.Patch, error) {
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	steps, err := json.Marshal([]operation{{"test", "/metadata/uid", uid}, {"add", "/status", status}})
	if err != nil {
		return nil, err
	}
	return client.RawPatch(types.JSONPatchType, steps), nil
}

// send writes the status with one request. There is one writer of it, so no resourceVersion is needed.
func (r *Reconciler) send(
	ctx context.Context,
	w *work.Work,
	m *memo,
	outcome apply.Outcome,
	status work.WorkStatus,
) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	sent := r.Clock.Now()
	status.Report.Epoch, status.Report.Counter, status.Report.ObservedAt = r.epoch, r.counter.Add(1),
		metav1.NewMicroTime(sent)
	restarts, round := toRestartIn(status.Report) > 0, int64(0)
	if restarts {
		round = r.Hub.Round()
	}
	patch, err := Patch(w.UID, status)
	if err != nil {
		return fmt.Errorf("write the report on Work %s: %w", client.ObjectKeyFromObject(w), err)
	}
	err = r.Hub.Client().Status().Patch(ctx, w, patch, client.FieldOwner(fieldManager))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("report on Work %s: %w", client.ObjectKeyFromObject(w), err)
	}
	if err == nil {
		m.version, m.status = w.ResourceVersion, w.Status
		if restarts && toRestartIn(m.status.Report) == 0 {
			m.restartsUnkept = round
		}
	}
	m.sentAt, m.generation, m.sequence = sent, outcome.Generation, outcome.Sequence
	if healthy(status) {
		m.finished = max(m.finished, status.Report.Sequence)
	}
	return nil
}

// sendTraced is send, as a span of the change's trace until the order of that change is settled.
func (r *Reconciler) sendTraced(
	ctx context.Context,
	w *work.Work,
	m *memo,
	outcome apply.Outcome,
	status work.WorkStatus,
) error {
	if m.settled == outcome.Sequence {
		return r.send(ctx, w, m, outcome, status)
	}
	ctx, end := r.Tracer.Start(ctx, w, "report")
	err := r.send(ctx, w, m, outcome, status)
	end(err)
	return err
}
