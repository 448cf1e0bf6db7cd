package main

import (
	"bytes"
	"math"
	"strings"
	"testing"
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
