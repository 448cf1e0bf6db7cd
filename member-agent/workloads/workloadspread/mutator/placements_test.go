package mutator

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

const hash = "6d4cf56db6"

// spreadPod is a pod of ReplicaSet web-<hash> with uid "rs" that has the subset; uid is the one in the annotation.
func spreadPod(name, subset, uid string, changes ...func(*corev1.Pod)) *corev1.Pod {
	mark, err := json.Marshal(v1beta1.MatchedWorkloadSpread{Name: "ws", Subset: subset, UID: uid})
	if err != nil {
		panic(err)
	}
	pod := ownedPod(kindReplicaSet, "web-"+hash)
	pod.Name = name
	pod.Annotations = map[string]string{v1beta1.AnnotationMatchedWorkloadSpread: string(mark)}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func ownedPod(kind, owner string) *corev1.Pod {
	version := "apps/v1"
	if kind == kindJob {
		version = "batch/v1"
	}
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", GenerateName: owner + "-", Labels: map[string]string{"app": "web", labelTemplateHash: hash},
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: version, Kind: kind, Name: owner, UID: "rs", Controller: new(true)},
			},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "web:1"}}},
	}
}

var start = time.Unix(1_700_000_000, 0)

func choose(subset string) func(map[string]int32) (string, bool) {
	return func(map[string]int32) (string, bool) { return subset, subset != "" }
}

func TestPlacements(t *testing.T) {
	g := group{"rs", hash, "ws"}
	deleting := func(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.NewTime(start)) }
	tests := []struct {
		name string
		do   func(p *placements)
		want map[string]int32
	}{
		{"pods that the cache shows count", func(p *placements) {
			p.OnAdd(spreadPod("p", "a", "1"), true)
			p.OnAdd(spreadPod("q", "b", "2"), false)
			p.OnAdd(spreadPod("r", "b", ""), false)
		}, map[string]int32{"a": 1, "b": 2}},
		{"pods on their way count", func(p *placements) { p.reserve(g, "1", start, choose("a")) }, map[string]int32{"a": 1}},
		{"a pod that has come counts once", func(p *placements) {
			p.reserve(g, "1", start, choose("a"))
			p.OnAdd(spreadPod("p", "a", "1"), false)
		}, map[string]int32{"a": 1}},
		{"a pod with a name is known by it", func(p *placements) {
			p.reserve(g, podID("shop", "p", ""), start, choose("a"))
			p.OnAdd(spreadPod("p", "a", ""), false)
		}, map[string]int32{"a": 1}},
		{"a pod that somebody moved lands all the same", func(p *placements) {
			p.reserve(g, "1", start, choose("a"))
			p.OnAdd(spreadPod("p", "b", "1"), false)
		}, map[string]int32{"b": 1}},
		{"one that does not come is forgotten after 30 s", func(p *placements) {
			p.reserve(g, "1", start, choose("a"))
			p.reserve(g, "2", start.Add(29*time.Second), choose("b"))
			p.peek(g, start.Add(30*time.Second), choose(""))
		}, map[string]int32{"b": 1}},
		{"one that came late counts again", func(p *placements) {
			p.reserve(g, "1", start, choose("a"))
			p.peek(g, start.Add(time.Minute), choose(""))
			p.OnAdd(spreadPod("p", "a", "1"), false)
		}, map[string]int32{"a": 1}},
		{"asked twice for one pod", func(p *placements) {
			p.reserve(g, "1", start, choose("a"))
			p.reserve(g, "1", start.Add(time.Second), choose("b"))
			p.peek(g, start.Add(30*time.Second), choose(""))
		}, map[string]int32{"b": 1}},
		{"no subset, no place", func(p *placements) { p.reserve(g, "1", start, choose("")) }, nil},
		{"a dry run takes no place", func(p *placements) { p.peek(g, start, choose("a")) }, nil},
		{"a place that was given back", func(p *placements) {
			p.reserve(g, "1", start, choose("a"))
			p.release("1")
			p.release("1")
		}, nil},
		{"a pod that leaves", func(p *placements) {
			p.OnAdd(spreadPod("p", "a", "1"), false)
			p.OnUpdate(spreadPod("p", "a", "1"), spreadPod("p", "a", "1", deleting))
			p.OnDelete(spreadPod("p", "a", "1", deleting))
		}, nil},
		{"a pod that vanished", func(p *placements) {
			p.OnAdd(spreadPod("p", "a", "1"), false)
			p.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "shop/p", Obj: spreadPod("p", "a", "1")})
		}, nil},
		{"a pod that has ended", func(p *placements) {
			p.OnAdd(spreadPod("p", "a", "1"), false)
			p.OnUpdate(
				spreadPod("p", "a", "1"),
				spreadPod("p", "a", "1", func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded }),
			)
		}, nil},
		{"a pod that got its subset later", func(p *placements) {
			bare := spreadPod("p", "a", "")
			bare.Annotations = nil
			p.OnAdd(bare, false)
			p.OnUpdate(bare, spreadPod("p", "a", ""))
		}, map[string]int32{"a": 1}},
		{"another version, another group", func(p *placements) {
			p.OnAdd(spreadPod("p", "a", "", func(pod *corev1.Pod) { pod.OwnerReferences[0].UID = "new" }), false)
			p.OnAdd(spreadPod("q", "a", "", func(pod *corev1.Pod) { pod.Labels[labelTemplateHash] = "x" }), false)
		}, nil},
		{"pods of CloneSets and of nobody", func(p *placements) {
			p.OnAdd(spreadPod("p", "a", "", func(pod *corev1.Pod) {
				pod.OwnerReferences[0].APIVersion, pod.OwnerReferences[0].Kind = "apps.kruise.io/v1beta1", "CloneSet"
			}), false)
			p.OnAdd(spreadPod("q", "a", "", func(pod *corev1.Pod) { pod.OwnerReferences = nil }), false)
		}, nil},
		{"an annotation that nobody can read", func(p *placements) {
			p.OnAdd(
				spreadPod("p", "a", "", func(pod *corev1.Pod) { pod.Annotations[v1beta1.AnnotationMatchedWorkloadSpread] = "{" }),
				false,
			)
		}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlacements()
			tt.do(p)
			if diff := cmp.Diff(tt.want, p.in(g)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestBookProperty plays random admissions and events, and compares the placements with a count of everything that
// exists.
func TestPlacementsProperty(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		p, now := newPlacements(), start
		subsets := []string{"a", "b", "c"}
		groups := []group{{"rs", hash, "ws"}, {"other", hash, "ws"}}
		type way struct {
			group  group
			subset string
			until  time.Time
		}
		flying, living := map[string]way{}, map[string]*corev1.Pod{}
		ids := 0
		anyOf := func(n int) (string, bool) { // an id below n that is alive
			for range n {
				id := fmt.Sprint(random.IntN(n))
				if _, ok := living[id]; ok {
					return id, true
				}
			}
			return "", false
		}
		for range 300 {
			switch random.IntN(5) {
			case 0, 1:
				w := way{groups[random.IntN(2)], subsets[random.IntN(3)], now.Add(reservationTime)}
				p.reserve(w.group, fmt.Sprint(ids), now, choose(w.subset))
				flying[fmt.Sprint(ids)] = w
				ids++
			case 2:
				for id, w := range flying { // any of them comes
					pod := spreadPod("p"+id, w.subset, id, func(pod *corev1.Pod) { pod.OwnerReferences[0].UID = w.group.owner })
					p.OnAdd(pod, false)
					living[id] = pod
					delete(flying, id)
					break
				}
			case 3:
				if id, ok := anyOf(ids); ok {
					p.OnDelete(living[id])
					delete(living, id)
				}
			case 4:
				now = now.Add(time.Duration(random.IntN(8)) * time.Second)
			}
			for id, w := range flying {
				if !w.until.After(now) {
					delete(flying, id)
				}
			}
			want := map[group]map[string]int32{}
			count := func(g group, subset string) {
				if want[g] == nil {
					want[g] = map[string]int32{}
				}
				want[g][subset]++
			}
			for _, w := range flying {
				count(w.group, w.subset)
			}
			for _, pod := range living {
				e, _ := placementOf(pod)
				count(e.group, e.subset)
			}
			if n := p.reserved(now); n != len(flying) {
				t.Fatalf("seed %d: %d pods on their way, there are %d", seed, len(flying), n)
			}
			for _, g := range groups {
				if diff := cmp.Diff(want[g], p.in(g)); diff != "" {
					t.Fatalf("seed %d: -want +got:\n%s", seed, diff)
				}
			}
		}
		p.expire(now.Add(time.Hour))
		for id := range living {
			p.OnDelete(living[id])
		}
		if len(p.counts)+len(p.reservations)+len(p.queue) > 0 {
			t.Fatalf("seed %d: an empty cluster leaves %v %v %v", seed, p.counts, p.reservations, p.queue)
		}
	}
}
