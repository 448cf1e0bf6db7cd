package sidecarset

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestReasons: what refused a pod is said for a while, and remembered for as long as the pod is to change.
func TestReasons(t *testing.T) {
	now := time.Unix(1000, 0)
	all := map[types.UID]bool{"written": true, "evicted": true}
	for _, tt := range []struct {
		name         string
		due          map[types.UID]bool
		evicts       bool
		after        time.Duration
		waits, stays string
		remembered   int
	}{
		{name: "both wait", due: all, evicts: true, waits: "shop/written: a budget", stays: "shop/evicted: no",
			remembered: 2},
		{name: "in a pass that evicts nothing", due: map[types.UID]bool{"written": true}, waits: "shop/written: a budget",
			stays: "shop/evicted: no", remembered: 2},
		{name: "a while later", due: all, evicts: true, after: refusedFor, remembered: 2},
		{name: "nothing is to change", evicts: true},
	} {
		s := &scope{pass: &pass{}, held: map[types.UID]bool{}}
		s.Memory = &memory{}
		pod := func(name string) *corev1.Pod {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name),
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", UID: "web",
					Controller: new(true)}}}}
		}
		s.hold(pod("written"), "a budget", now)
		s.stay(pod("evicted"), "no", now)
		if at := s.refusedAt(); len(at) != 3 || !at["web"].Equal(now) || !s.held["written"] || !s.held["evicted"] {
			t.Errorf("%s: refused at %v, held %v", tt.name, at, s.held)
		}
		waits, stays := s.Memory.reasons(tt.due, tt.evicts, now.Add(tt.after))
		if strings.Join(waits, " ") != tt.waits || strings.Join(stays, " ") != tt.stays ||
			len(s.Memory.refused) != tt.remembered {
			t.Errorf("%s: %q, %q, %v", tt.name, waits, stays, s.Memory.refused)
		}
	}
}
