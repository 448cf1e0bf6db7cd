package main

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/flotilla-dev/flotilla/member-agent/admission"
)

// answers are what an agent says of its answers about new pods.
type answers struct {
	// buckets are how many took at most so many seconds.
	buckets           map[float64]float64
	count, sum, waits float64
}

// readAnswers reads the metrics of an agent.
func readAnswers(ctx context.Context, url string) (answers, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return answers{}, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return answers{}, fmt.Errorf("read metrics: %w", err)
	}
	defer response.Body.Close()
	out := answers{buckets: map[float64]float64{}}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if err := out.add(lines.Text()); err != nil {
			return answers{}, fmt.Errorf("read metrics: line %q: %w", lines.Text(), err)
		}
	}
	return out, lines.Err()
}

// add reads a line, if it is one of these metrics.
func (a *answers) add(line string) error {
	name, text, ok := strings.Cut(line, " ")
	if !ok || strings.HasPrefix(line, "#") {
		return nil
	}
	var to *float64
	switch name {
	case admission.SecondsMetric + "_count":
		to = &a.count
	case admission.SecondsMetric + "_sum":
		to = &a.sum
	case admission.WaitsMetric:
		to = &a.waits
	}
	bound, isBucket := strings.CutPrefix(name, admission.SecondsMetric+`_bucket{le="`)
	if to == nil && !isBucket {
		return nil
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return err
	}
	if to != nil {
		*to = value
		return nil
	}
	at, err := strconv.ParseFloat(strings.TrimSuffix(bound, `"}`), 64)
	a.buckets[at] = value
	return err
}

// since returns the answers after those before.
func (a answers) since(before answers) answers {
	out := answers{buckets: map[float64]float64{}, count: a.count - before.count, sum: a.sum - before.sum,
		waits: a.waits - before.waits}
	for at, n := range a.buckets {
		out.buckets[at] = n - before.buckets[at]
	}
	return out
}

// quantile returns the smallest bound, in seconds, that at least this part of the answers did not exceed.
func (a answers) quantile(q float64) float64 {
	for _, at := range slices.Sorted(maps.Keys(a.buckets)) {
		if a.buckets[at] >= q*a.count {
			return at
		}
	}
	return math.Inf(1)
}
