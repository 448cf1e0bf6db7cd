package checks

import (
	"cmp"
	"context"
	"fmt"
	"time"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	"github.com/flotilla-dev/flotilla/member-agent/kernel/endpoint"
	"github.com/flotilla-dev/flotilla/topology/checks"
)

const (
	// The defaults hold where those of the schema were not applied.
	defaultTimeout    = 10 * time.Second
	defaultInterval   = 30 * time.Second
	defaultExpression = "status == 200"
)

// refusal says why the hub does not ask local addresses.
const refusal = "is of the hub's own machine or link, or gives credentials of a cloud; the hub asks it only with " +
	"--checks-reach-local"

// found is what one question gave.
type found struct{ unmet, says string }

// fetch asks an address once.
func fetch(ctx context.Context, q *topology.WaveHTTP, reachLocal bool) found {
	question := endpoint.Question{URL: q.URL, CABundle: q.CABundle, Timeout: durationOf(q.Timeout, defaultTimeout),
		UserAgent: "flotilla-hub", Refusal: refusal, Remedy: checks.CorrectPolicy}
	if reachLocal {
		question.Refusal = ""
	}
	answer, err := endpoint.Ask(ctx, question)
	if err != nil {
		return found{unmet: err.Error(), says: err.Error()}
	}
	says := fmt.Sprintf("%s answered %d", endpoint.Shown(q.URL), answer.Status)
	expression := cmp.Or(q.Expression, defaultExpression)
	if why := checks.OfAnswer(expression, answer.Status, answer.Body, checks.CorrectPolicy); why != "" {
		text := fmt.Sprintf("%s: %s", says, why)
		return found{unmet: text, says: text}
	}
	return found{says: says}
}

func durationOf(text string, otherwise time.Duration) time.Duration {
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return d
	}
	return otherwise
}
