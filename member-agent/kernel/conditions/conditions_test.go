package conditions_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
)

func TestSummarise(t *testing.T) {
	done := conditions.Facts{Desired: 3, ExpectedUpdated: 3, Replicas: 3, Updated: 3, Available: 3, UpdatedAvailable: 3}
	with := func(change func(*conditions.Facts)) conditions.Facts { f := done; change(&f); return f }
	// The letters are Ready, Reconciling, Stalled, Progressing: T, F or U.
	tests := []struct {
		name        string
		facts       conditions.Facts
		want        string
		progressing string
		ready       string
	}{
		{"complete", done, "TFFT", "CloneSetAvailable", "AllAvailable"},
		{"nothing wanted, nothing there", conditions.Facts{}, "TFFT", "CloneSetAvailable", "AllAvailable"},
		{"partition reached", with(func(f *conditions.Facts) { f.ExpectedUpdated, f.Updated, f.UpdatedAvailable = 1, 1, 1 }),
			"TFFT", "ProgressPartitionAvailable", "AllAvailable"},
		{"a pod is missing", with(func(f *conditions.Facts) { f.Replicas, f.Available = 2, 2 }), "FTFT", "CloneSetUpdated",
			"Scaling"},
		{"a pod too many", with(func(f *conditions.Facts) { f.Replicas = 4 }), "FTFT", "CloneSetUpdated", "Scaling"},
		{"a pod too many, of the surge", with(func(f *conditions.Facts) {
			f.Replicas, f.Updated, f.UpdatedAvailable = 4, 1,
				0
		}), "FTFT", "CloneSetUpdated", "Updating"},
		{"a pod is not available", with(func(f *conditions.Facts) { f.Available, f.UpdatedAvailable = 2, 2 }), "FTFT",
			"CloneSetUpdated", "PodsNotAvailable"},
		{"a pod is old", with(func(f *conditions.Facts) { f.Updated, f.UpdatedAvailable = 2, 2 }), "FTFT", "CloneSetUpdated",
			"Updating"},
		{"pods go back", with(func(f *conditions.Facts) { f.ExpectedUpdated, f.GoingBack = 1, 2 }), "FTFT", "CloneSetUpdated",
			"Updating"},
		{"pods cannot go back", with(func(f *conditions.Facts) { f.ExpectedUpdated, f.Kept = 1, 2 }), "TFFT",
			"CloneSetAvailable", "AllAvailable"},
		{"paused while pods go back", with(func(f *conditions.Facts) {
			f.ExpectedUpdated, f.GoingBack, f.Paused = 1, 2,
				true
		}), "FFFT", "CloneSetPaused", "Paused"},
		{"paused in the middle", with(func(f *conditions.Facts) { f.Updated, f.UpdatedAvailable, f.Paused = 2, 2, true }),
			"FFFT", "CloneSetPaused", "Paused"},
		{"paused at rest is at rest", with(func(f *conditions.Facts) { f.Paused = true }), "TFFT", "CloneSetAvailable",
			"AllAvailable"},
		{"paused and broken is still being repaired", with(func(f *conditions.Facts) {
			f.Replicas, f.Available, f.Paused = 2,
				2, true
		}), "FTFT", "CloneSetPaused", "Scaling"},
		{"an error", with(func(f *conditions.Facts) {
			f.Replicas, f.Available, f.Failed = 2, 2, &conditions.Cause{Reason: "QuotaExceeded"}
		}), "FTFT", "CloneSetUpdated", "QuotaExceeded"},
		{"only a person helps", with(func(f *conditions.Facts) { f.Stalled = &conditions.Cause{Reason: "InvalidTemplate"}; f.Replicas = 0 }), "FFTT", "CloneSetUpdated", "InvalidTemplate"},
		{"past the deadline", with(func(f *conditions.Facts) { f.Updated, f.DeadlineExceeded = 1, true }), "FTFF",
			"ProgressDeadlineExceeded", "Updating"},
	}
	letter := map[corev1.ConditionStatus]string{corev1.ConditionTrue: "T", corev1.ConditionFalse: "F",
		corev1.ConditionUnknown: "U"}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, reasons := "", map[string]string{}
			for _, c := range conditions.Summarise(tt.facts, conditions.NamesOf("CloneSet")) {
				got += letter[c.Status]
				reasons[c.Type] = c.Reason
				if c.Reason == "" {
					t.Errorf("%s has no reason", c.Type)
				}
			}
			if got != tt.want || reasons["Progressing"] != tt.progressing || reasons["Ready"] != tt.ready {
				t.Errorf("conditions %s, reasons %v; want %s, %s, %s", got, reasons, tt.want, tt.progressing, tt.ready)
			}
		})
	}
}

// A rollout with surge that stands still says how far it is, not only that there are pods above replicas.
func TestSentencesOfASurge(t *testing.T) {
	stuck := conditions.Facts{Desired: 5, ExpectedUpdated: 5, Replicas: 6, Updated: 2, Available: 4,
		DeadlineExceeded: true}
	const want = "2 of the 5 pods to update are updated, 0 of them available; 6 pods exist, 5 are wanted"
	for _, c := range conditions.Summarise(stuck, conditions.NamesOf("CloneSet")) {
		if c.Type != v1beta1.ConditionStalled && c.Type != v1beta1.ConditionProgressing && c.Message != want {
			t.Errorf("%s says %q", c.Type, c.Message)
		}
	}
	over := conditions.Facts{Desired: 5, ExpectedUpdated: 5, Replicas: 6, Updated: 5, Available: 6, UpdatedAvailable: 5}
	if c := conditions.Summarise(over, conditions.NamesOf("CloneSet"))[0]; c.Reason != conditions.ReasonScaling ||
		c.Message != "6 pods exist, 5 are wanted" {
		t.Errorf("%s says %q", c.Reason, c.Message)
	}
}

// The sentences are true whether Updated counts all updated pods or, in each part, no more than are to be updated.
func TestSentencesOfAPartition(t *testing.T) {
	const partitionReady = "CloneSet has been paused due to partition ready"
	atRest := conditions.Facts{Desired: 9, ExpectedUpdated: 4, Replicas: 9, Updated: 4, Available: 9, UpdatedAvailable: 4}
	with := func(change func(*conditions.Facts)) conditions.Facts { f := atRest; change(&f); return f }
	tests := []struct {
		name               string
		facts              conditions.Facts
		ready, progressing string
	}{
		{"as asked", atRest, "9 of 9 pods are available; the partition asks for 4 to be updated, and they are",
			partitionReady},
		{"all were updated before it was raised", with(func(f *conditions.Facts) { f.Kept = 5 }),
			"9 of 9 pods are available; the partition asks for 4 to be updated, and they are; 5 more are updated, and have no " +
				"old revision to go back to", "CloneSet is available"},
		{"most have the template that an undo brought back", with(func(f *conditions.Facts) { f.Kept = 3 }),
			"9 of 9 pods are available; 7 are updated, and the partition keeps the other 2 as they are", partitionReady},
		{"some go back", with(func(f *conditions.Facts) { f.GoingBack = 2 }),
			"2 updated pods are to go back to the old revision", "CloneSet is progressing"},
		{"one subset goes back, another one on", with(func(f *conditions.Facts) { f.Updated, f.GoingBack = 0, 2 }),
			"0 of the 4 pods to update are updated, 2 updated ones are to go back to the old revision",
			"CloneSet is progressing"},
		{"paused", with(func(f *conditions.Facts) { f.GoingBack, f.Paused = 2, true }),
			"2 updated pods are to go back to the old revision; the update is paused", "CloneSet is paused"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, c := range conditions.Summarise(tt.facts, conditions.NamesOf("CloneSet")) {
				if c.Type == v1beta1.ConditionReady && c.Message != tt.ready || c.Type == v1beta1.ConditionProgressing &&
					c.Message != tt.progressing {
					t.Errorf("%s says %q", c.Type, c.Message)
				}
			}
		})
	}
}

func TestMergeKeepsTransitionTimes(t *testing.T) {
	one, two := time.Unix(100, 0), time.Unix(200, 0)
	ready := conditions.Condition{Type: "Ready", Status: corev1.ConditionFalse, Reason: "Scaling", Message: "1 of 2"}
	have := conditions.Merge[v1beta1.CloneSetCondition](nil, one, ready,
		conditions.Condition{Type: "FailedScale", Status: corev1.ConditionTrue})
	have = append(have, v1beta1.CloneSetCondition{Type: "Foreign", Status: corev1.ConditionTrue})

	ready.Message = "2 of 2"
	same := conditions.Merge(have, two, ready, conditions.Remove("FailedScale"))
	if len(same) != 2 || !same[0].LastTransitionTime.Time.Equal(one) || same[0].Message != "2 of 2" ||
		same[1].Type != "Foreign" {
		t.Errorf("after a new message: %+v", same)
	}
	if have[0].Message != "1 of 2" || len(have) != 3 {
		t.Errorf("the input was changed: %+v", have)
	}
	ready.Status = corev1.ConditionTrue
	if got := conditions.Merge(same, two, ready); !got[0].LastTransitionTime.Time.Equal(two) {
		t.Errorf("after a new status: %+v", got)
	}
	ud := conditions.Merge[v1beta1.UnitedDeploymentCondition](nil, one, ready)
	if again := conditions.Merge(ud, two, ready); len(again) != 1 || again[0] != ud[0] {
		t.Errorf("the same condition again changed %+v to %+v", ud, again)
	}
}

// TestCase11Progressing: the published condition of a CloneSet, which tools compare word by word.
func TestCase11Progressing(t *testing.T) {
	done := conditions.Facts{Desired: 5, ExpectedUpdated: 5, Replicas: 5, Updated: 5, Available: 5, UpdatedAvailable: 5,
		Revision: "web-7c9"}
	with := func(change func(*conditions.Facts)) conditions.Facts { f := done; change(&f); return f }
	canary := func(f *conditions.Facts) { f.ExpectedUpdated, f.Updated, f.UpdatedAvailable = 2, 2, 2 }
	for _, tt := range []struct {
		name, want string
		facts      conditions.Facts
	}{
		{"available", "True CloneSetAvailable: CloneSet is available", done},
		{"available and paused", "True CloneSetAvailable: CloneSet is available",
			with(func(f *conditions.Facts) { f.Paused = true })},
		{"available and past its deadline", "True CloneSetAvailable: CloneSet is available",
			with(func(f *conditions.Facts) { f.DeadlineExceeded = true })},
		{"paused", "True CloneSetPaused: CloneSet is paused",
			with(func(f *conditions.Facts) { f.Updated, f.UpdatedAvailable, f.Paused = 2, 2, true })},
		{"paused past its deadline", "True CloneSetPaused: CloneSet is paused",
			with(func(f *conditions.Facts) { f.Updated, f.Paused, f.DeadlineExceeded = 2, true, true })},
		{"paused at its partition", "True CloneSetPaused: CloneSet is paused",
			with(func(f *conditions.Facts) { canary(f); f.Paused = true })},
		{"at its partition", "True ProgressPartitionAvailable: CloneSet has been paused due to partition ready",
			with(canary)},
		{"on the way to its partition", "True CloneSetUpdated: CloneSet is progressing",
			with(func(f *conditions.Facts) { canary(f); f.UpdatedAvailable = 1 })},
		{"under way", "True CloneSetUpdated: CloneSet is progressing",
			with(func(f *conditions.Facts) { f.Updated, f.UpdatedAvailable = 2, 1 })},
		{"pods are missing", "True CloneSetUpdated: CloneSet is progressing",
			with(func(f *conditions.Facts) { f.Replicas, f.Available = 3, 3 })},
		{"only a person helps", "True CloneSetUpdated: CloneSet is progressing",
			with(func(f *conditions.Facts) { f.Updated, f.Stalled = 2, &conditions.Cause{Reason: "InvalidTemplate"} })},
		{"an error is tried again", "True CloneSetUpdated: CloneSet is progressing",
			with(func(f *conditions.Facts) { f.Updated, f.Failed = 2, &conditions.Cause{Reason: "FailedUpdate"} })},
		{"past its deadline", "False ProgressDeadlineExceeded: CloneSet revision web-7c9 has timed out progressing",
			with(func(f *conditions.Facts) { f.Updated, f.DeadlineExceeded = 2, true })},
		{"OnDelete, none is deleted", "True CloneSetUpdated: CloneSet is progressing",
			with(func(f *conditions.Facts) {
				f.OnDelete, f.ExpectedUpdated, f.Updated, f.UpdatedAvailable = true, 0, 0, 0
			})},
		{"OnDelete, some are deleted", "True CloneSetUpdated: CloneSet is progressing",
			with(func(f *conditions.Facts) {
				f.OnDelete, f.ExpectedUpdated, f.Updated, f.UpdatedAvailable = true, 3, 3, 3
			})},
		{"OnDelete, all are deleted", "True CloneSetAvailable: CloneSet is available",
			with(func(f *conditions.Facts) { f.OnDelete = true })},
		{"all were updated before the partition was raised", "True CloneSetAvailable: CloneSet is available",
			with(func(f *conditions.Facts) { canary(f); f.Kept = 3 })},
		{"no deadline", " : ", with(func(f *conditions.Facts) { f.NoDeadline = true })},
		{"no deadline, under way", " : ", with(func(f *conditions.Facts) { f.Updated, f.NoDeadline = 2, true })},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, c := range conditions.Summarise(tt.facts, conditions.NamesOf("CloneSet")) {
				if got := string(c.Status) + " " + c.Reason + ": " + c.Message; c.Type == v1beta1.ConditionProgressing &&
					got != tt.want {
					t.Errorf("%s, want %s", got, tt.want)
				}
			}
		})
	}
	for seconds, want := range map[int32]bool{1: true, 600: true, 2147483646: true, 2147483647: false} {
		if conditions.HasDeadline(&seconds) != want {
			t.Errorf("a deadline of %d s: %t, want %t", seconds, !want, want)
		}
	}
	if conditions.HasDeadline(nil) {
		t.Error("none is one")
	}
}
