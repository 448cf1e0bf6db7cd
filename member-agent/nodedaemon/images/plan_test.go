package images

import (
	"fmt"
	"math/rand"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

var (
	now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	web = Key{Image: "web", Tag: "1"}
)

// asked returns facts of a node that is asked for web:1, with these changes.
func asked(change func(f *Facts, tag *v1beta1.ImageTagSpec)) Facts {
	f := Facts{Workers: 2, Now: now, Present: map[string]string{}, Running: map[Key]Running{}, Records: map[Key]Record{}}
	tag := v1beta1.ImageTagSpec{Tag: "1", CreatedAt: new(metav1.NewTime(now.Add(-time.Minute))),
		PullPolicy: &v1beta1.ImageTagPullPolicy{TimeoutSeconds: new(int32(60)), BackoffLimit: new(int32(1)),
			TTLSecondsAfterFinished: new(int32(3600))}}
	change(&f, &tag)
	f.Spec.Images = map[string]v1beta1.ImageSpec{"web": {Tags: []v1beta1.ImageTagSpec{tag}}}
	return f
}

// known gives the node a status of web:1.
func known(f *Facts, status v1beta1.ImageTagStatus) {
	status.Tag = "1"
	f.Status.ImageStatuses = map[string]v1beta1.ImageStatus{"web": {Tags: []v1beta1.ImageTagStatus{status}}}
}

func at(ago time.Duration) *metav1.Time { return new(metav1.NewTime(now.Add(-ago))) }

func TestPlan(t *testing.T) {
	type tag = v1beta1.ImageTagSpec
	for _, row := range []struct {
		name   string
		change func(*Facts, *tag)
		phase  v1beta1.ImagePullPhase
		starts bool
		stops  string
		says   string
		next   time.Duration // from now; 0: none
	}{
		{name: "a new tag", change: func(*Facts, *tag) {}, phase: v1beta1.ImagePhasePulling, starts: true,
			next: time.Minute},
		{name: "no worker is free", change: func(f *Facts, _ *tag) {
			f.Workers = 0
		}, phase: v1beta1.ImagePhaseWaiting},
		{name: "the image is there", change: func(f *Facts, _ *tag) { f.Present["web:1"] = "sha256:a" },
			phase: v1beta1.ImagePhaseSucceeded},
		{name: "the image is there, and Always", change: func(f *Facts, tag *tag) {
			f.Present["web:1"], tag.ImagePullPolicy = "sha256:a", v1beta1.PullAlways
		}, phase: v1beta1.ImagePhasePulling, starts: true, next: time.Minute},
		{name: "pulled, and Always", change: func(f *Facts, tag *tag) {
			f.Present["web:1"], tag.ImagePullPolicy = "sha256:a", v1beta1.PullAlways
			f.Records[web] = Record{Pulls: 1, Pulled: true, EndedAt: now}
		}, phase: v1beta1.ImagePhaseSucceeded},
		{name: "being pulled",
			change: func(f *Facts, _ *tag) { f.Running[web] = Running{Since: now.Add(-20 * time.Second)} },
			phase:  v1beta1.ImagePhasePulling, next: 40 * time.Second},
		{name: "a pull that takes too long",
			change: func(f *Facts, _ *tag) { f.Running[web] = Running{Since: now.Add(-time.Minute)} },
			phase:  v1beta1.ImagePhasePulling, stops: "timeoutSeconds, which is 60"},
		{name: "the wait after a failure", change: func(f *Facts, tag *tag) {
			tag.PullPolicy.BackoffLimit = new(int32(9))
			f.Records[web] = Record{Attempts: 3, EndedAt: now.Add(-3 * time.Second), Message: "no such host"}
		}, phase: v1beta1.ImagePhaseWaiting, says: "no such host", next: time.Second},
		{name: "the wait is over", change: func(f *Facts, tag *tag) {
			tag.PullPolicy.BackoffLimit = new(int32(9))
			f.Records[web] = Record{Attempts: 3, EndedAt: now.Add(-4 * time.Second)}
		}, phase: v1beta1.ImagePhasePulling, starts: true, next: time.Minute},
		{name: "the clock was set back", change: func(f *Facts, _ *tag) {
			f.Records[web] = Record{Attempts: 1, EndedAt: now.Add(time.Hour)}
		}, phase: v1beta1.ImagePhasePulling, starts: true, next: time.Minute},
		{name: "the attempts are used up", change: func(f *Facts, _ *tag) {
			f.Records[web] = Record{Attempts: 2, EndedAt: now, Message: "unauthorized"}
		}, phase: v1beta1.ImagePhaseFailed, says: "2 attempts failed: unauthorized"},
		{name: "another version after a failure", change: func(f *Facts, tag *tag) {
			tag.Version = 1
			f.Records[web] = Record{Attempts: 2, EndedAt: now}
			known(f, v1beta1.ImageTagStatus{Phase: v1beta1.ImagePhaseFailed, CompletionTime: at(0)})
		}, phase: v1beta1.ImagePhasePulling, starts: true, next: time.Minute},
		{name: "another version during a pull", change: func(f *Facts, tag *tag) {
			tag.Version = 1
			f.Running[web] = Running{Since: now}
		}, phase: v1beta1.ImagePhaseWaiting, stops: "another version"},
		{name: "failed before the daemon restarted", change: func(f *Facts, _ *tag) {
			known(f, v1beta1.ImageTagStatus{Phase: v1beta1.ImagePhaseFailed, CompletionTime: at(0), Message: "m"})
		}, phase: v1beta1.ImagePhaseFailed, says: "m"},
		{name: "killed during a pull", change: func(f *Facts, tag *tag) {
			tag.PullPolicy.ActiveDeadlineSeconds = new(int64(600))
			known(f, v1beta1.ImageTagStatus{Phase: v1beta1.ImagePhasePulling, StartTime: at(time.Minute)})
		}, phase: v1beta1.ImagePhasePulling, starts: true, next: time.Minute},
		{name: "the deadline is over", change: func(f *Facts, tag *tag) {
			tag.PullPolicy.ActiveDeadlineSeconds = new(int64(60))
			f.Running[web] = Running{Since: now}
			known(f, v1beta1.ImageTagStatus{Phase: v1beta1.ImagePhasePulling, StartTime: at(time.Minute)})
		}, phase: v1beta1.ImagePhaseFailed, stops: "activeDeadlineSeconds is over",
			says: "not pulled within activeDeadlineSeconds, which is 60"},
		{name: "the image is there, though the deadline is over", change: func(f *Facts, tag *tag) {
			tag.PullPolicy.ActiveDeadlineSeconds = new(int64(60))
			f.Present["web:1"] = "sha256:a"
			known(f, v1beta1.ImageTagStatus{Phase: v1beta1.ImagePhasePulling, StartTime: at(time.Minute)})
		}, phase: v1beta1.ImagePhaseSucceeded},
		{name: "a deadline whose nanoseconds do not fit", change: func(f *Facts, tag *tag) {
			tag.PullPolicy.ActiveDeadlineSeconds = new(int64(9999999999))
			f.Running[web] = Running{Since: now}
			known(f, v1beta1.ImageTagStatus{Phase: v1beta1.ImagePhasePulling, StartTime: at(time.Minute)})
		}, phase: v1beta1.ImagePhasePulling, next: time.Minute},
		{name: "pulled, and removed by the kubelet", change: func(f *Facts, _ *tag) {
			known(f, v1beta1.ImageTagStatus{Phase: v1beta1.ImagePhaseSucceeded, CompletionTime: at(time.Minute)})
		}, phase: v1beta1.ImagePhasePulling, starts: true, next: time.Minute},
		{name: "removed by the kubelet after its time to live", change: func(f *Facts, _ *tag) {
			known(f, v1beta1.ImageTagStatus{Phase: v1beta1.ImagePhaseSucceeded, CompletionTime: at(time.Hour)})
		}, phase: v1beta1.ImagePhaseSucceeded},
		{name: "removed by the kubelet again and again", change: func(f *Facts, _ *tag) {
			f.Records[web] = Record{Pulls: 20, EndedAt: now, Pulled: true}
		}, phase: v1beta1.ImagePhaseWaiting, says: "free space on its disk", next: 5 * time.Minute},
		{name: "pulled, and the runtime does not say so", change: func(f *Facts, _ *tag) {
			f.Records[web] = Record{Pulls: 1, EndedAt: now.Add(-time.Hour), Pulled: true}
			f.Unknown = map[Key]bool{web: true}
			known(f, v1beta1.ImageTagStatus{Phase: v1beta1.ImagePhasePulling, StartTime: at(time.Hour)})
		}, phase: v1beta1.ImagePhasePulling},
		{name: "there, and the runtime does not say so", change: func(f *Facts, _ *tag) {
			f.Unknown = map[Key]bool{web: true}
			known(f, v1beta1.ImageTagStatus{Phase: v1beta1.ImagePhaseSucceeded, CompletionTime: at(time.Minute)})
		}, phase: v1beta1.ImagePhaseSucceeded},
		{name: "new, and the runtime says nothing", change: func(f *Facts, _ *tag) {
			f.Unknown = map[Key]bool{web: true}
		}, phase: v1beta1.ImagePhaseWaiting},
		{name: "the deadline is over, and the runtime says nothing", change: func(f *Facts, tag *tag) {
			f.Unknown = map[Key]bool{web: true}
			tag.PullPolicy.ActiveDeadlineSeconds = new(int64(60))
			known(f, v1beta1.ImageTagStatus{Phase: v1beta1.ImagePhaseWaiting, StartTime: at(time.Minute)})
		}, phase: v1beta1.ImagePhaseFailed, says: "not pulled within activeDeadlineSeconds"},
	} {
		t.Run(row.name, func(t *testing.T) {
			plan := Make(asked(row.change))
			status := plan.Status.ImageStatuses["web"].Tags[0]
			if status.Phase != row.phase || !strings.Contains(status.Message, row.says) {
				t.Errorf("%s %q, want %s and %q", status.Phase, status.Message, row.phase, row.says)
			}
			if row.starts != (len(plan.Start) == 1) {
				t.Errorf("starts %v, want a start: %t", plan.Start, row.starts)
			}
			if stops := fmt.Sprint(plan.Stop); row.stops == "" && len(plan.Stop) > 0 || !strings.Contains(stops, row.stops) {
				t.Errorf("stops %s, want %q", stops, row.stops)
			}
			if next := plan.Next.Sub(now); !plan.Next.IsZero() && next != row.next || plan.Next.IsZero() && row.next != 0 {
				t.Errorf("next in %s, want %s", next, row.next)
			}
		})
	}
}

func TestOldestRequestIsPulledFirst(t *testing.T) {
	f := asked(func(f *Facts, _ *v1beta1.ImageTagSpec) { f.Workers = 1 })
	f.Spec.Images["a"] = v1beta1.ImageSpec{Tags: []v1beta1.ImageTagSpec{{Tag: "1", CreatedAt: at(time.Second)}}}
	f.Running[Key{Image: "gone", Tag: "1"}] = Running{}
	plan := Make(f)
	if len(plan.Start) != 0 || len(plan.Stop) != 1 || plan.Stop[0].Image != "gone" {
		t.Errorf("starts %v and stops %v, want a stop alone: a stopped pull occupies its worker", plan.Start, plan.Stop)
	}
	delete(f.Running, plan.Stop[0].Key)
	if plan = Make(f); len(plan.Start) != 1 || plan.Start[0].Key != web {
		t.Errorf("starts %v, want web", plan.Start)
	}
}

func TestReference(t *testing.T) {
	for want, key := range map[string]Key{
		"web:1": web, "r.example:5000/web:1": {Image: "r.example:5000/web", Tag: "1"},
		"web@sha256:ab": {Image: "web", Tag: "sha256:ab"},
	} {
		if got := key.Reference(); got != want {
			t.Errorf("%v is %s, want %s", key, got, want)
		}
	}
}

// TestSimulated runs a daemon with random images, registries and restarts: limits hold, and everything ends.
func TestSimulated(t *testing.T) {
	for seed := range int64(300) {
		w := newWorld(seed)
		for step := 0; ; step++ {
			if step > 5000 {
				t.Fatalf("seed %d: it does not end: %+v", seed, w.Status)
			}
			plan := Make(w.Facts)
			w.Status = plan.Status
			if again := Make(w.Facts); len(plan.Start) == 0 && !reflect.DeepEqual(again.Status, plan.Status) {
				t.Fatalf("seed %d: at rest the status changes from\n%+v to\n%+v", seed, plan.Status, again.Status)
			}
			if wrong := w.step(plan); wrong != "" {
				t.Fatalf("seed %d: %s", seed, wrong)
			}
			if s := plan.Status; s.Succeeded+s.Failed == s.Desired && len(w.Running) == 0 {
				break
			}
		}
		if s := w.Status.FirstSyncStatus; s == nil || (s.Status == v1beta1.SyncStatusFailed) != (w.Status.Failed > 0) {
			t.Fatalf("seed %d: first sync %v with %d failed", seed, s, w.Status.Failed)
		}
	}
}

// world is a node with its daemon.
type world struct {
	Facts
	*rand.Rand
	attempts map[Key]int // that failed
	restarts int
}

func newWorld(seed int64) *world {
	w := &world{Rand: rand.New(rand.NewSource(seed)), attempts: map[Key]int{}, restarts: 3,
		Facts: asked(func(f *Facts, _ *v1beta1.ImageTagSpec) { f.Workers = 1 + int(seed)%4 })}
	for i := range w.Intn(8) {
		image := v1beta1.ImageSpec{}
		for tag := range 1 + w.Intn(3) {
			policy := &v1beta1.ImageTagPullPolicy{BackoffLimit: new(int32(w.Intn(5))),
				TTLSecondsAfterFinished: new(int32(1 << 30))}
			if w.Intn(3) == 0 {
				policy.ActiveDeadlineSeconds = new(int64(w.Intn(100)))
			}
			image.Tags = append(image.Tags, v1beta1.ImageTagSpec{Tag: fmt.Sprint(tag), PullPolicy: policy})
		}
		w.Spec.Images[fmt.Sprint("i", i)] = image
	}
	return w
}

// step carries a plan out, lets time go by, and says what is wrong.
func (w *world) step(plan Plan) string {
	for _, stop := range plan.Stop {
		w.end(stop.Key, "stopped")
	}
	for _, pull := range plan.Start {
		if _, runs := w.Running[pull.Key]; runs {
			return fmt.Sprintf("%v is pulled twice at a time", pull.Key)
		}
		w.Running[pull.Key] = Running{Version: pull.Version, Since: w.Now}
	}
	if len(w.Running) > w.Workers {
		return fmt.Sprintf("%d pulls at a time, %d are allowed", len(w.Running), w.Workers)
	}
	for key, n := range w.attempts {
		for _, tag := range w.Spec.Images[key.Image].Tags {
			if most := int(*tag.PullPolicy.BackoffLimit) + 1; tag.Tag == key.Tag && n > most*4 {
				return fmt.Sprintf("%d attempts for %v, whose backoffLimit is %d", n, key, most-1)
			}
		}
	}
	w.Now = w.Now.Add(time.Duration(w.Intn(20)) * time.Second)
	for key := range w.Running {
		switch w.Intn(10) {
		case 0:
			w.end(key, "refused")
		case 1:
			w.end(key, "")
		}
	}
	if w.restarts > 0 && w.Intn(30) == 0 { // each allows all attempts again
		w.restarts--
		w.Running, w.Records = map[Key]Running{}, map[Key]Record{}
	}
	return ""
}

// end ends an attempt with a message, or with success.
func (w *world) end(key Key, message string) {
	delete(w.Running, key)
	record := w.Records[key]
	record.EndedAt, record.Message, record.Pulled = w.Now, message, message == ""
	if record.Pulled {
		record.Pulls++
	} else {
		record.Attempts++
		w.attempts[key]++
	}
	w.Records[key] = record
	if message == "" && w.Intn(4) > 0 { // else the kubelet removed it at once
		w.Present[key.Reference()] = "sha256:a"
	}
}
