package main

import (
	"bytes"
	"context"
	"math"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestPercentile(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[len(hundred)-1-i] = float64(i + 1)
	}
	tests := []struct {
		name   string
		values []float64
		p      float64
		want   float64
	}{
		{"the 99th of a hundred is not the largest", hundred, 99, 99},
		{"half of a hundred", hundred, 50, 50},
		{"one value is every percentile", []float64{7}, 99, 7},
		{"P99 of few is the largest", []float64{3, 1, 2}, 99, 3},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := percentile(test.values, test.p); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
	if !math.IsNaN(percentile(nil, 50)) || !math.IsNaN(median(nil)) {
		t.Error("nothing measured must not look like zero")
	}
}

func TestReportComparesRunByRun(t *testing.T) {
	r := newReport()
	// The machine was half as fast in the second run; the ratio does not show it.
	r.addWithFloor("rollout", "scale-out", "s", 3, "Deployment", 2)
	r.addWithFloor("rollout", "scale-out", "s", 6, "Deployment", 4)
	r.add("division", "from nothing", "ms", 1.234)
	var out bytes.Buffer
	if err := r.write(&out, "table"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"× 1.50", "4.50 [3–6] s", "3 [2–4] s", "1.23 ms", "(Deployment)"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("table lacks %q:\n%s", want, out.String())
		}
	}
}

func TestNumbers(t *testing.T) {
	var got []int
	if err := numbers(&got)("500,5000"); err != nil || len(got) != 2 || got[0] != 500 || got[1] != 5000 {
		t.Errorf("got %v, %v", got, err)
	}
	for _, bad := range []string{"", "500,", "0", "many"} {
		if numbers(&got)(bad) == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestOpeningsAreHandedOutOnce(t *testing.T) {
	queue := newOpenings()
	for _, uid := range []types.UID{"a", "b", "a"} {
		queue.add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}})
	}
	for _, want := range []types.UID{"a", "b"} {
		if pod, ok := queue.next(t.Context()); !ok || pod.UID != want {
			t.Fatalf("got %v, want %s", pod, want)
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if pod, ok := queue.next(over); ok {
		t.Errorf("got %s again", pod.UID)
	}
}
