package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-dev/flotilla/apis/crds"
	"github.com/flotilla-dev/flotilla/e2e/fleet"
)

const (
	// readRate is how many reads begin in a second, whether or not the ones before have ended.
	readRate = 200
	readFor  = 30 * time.Second
	// convertCalls is the agent's own count of calls of its conversion webhook.
	convertCalls = `controller_runtime_webhook_requests_total{code="200",webhook="/convert"}`
)

// conversionSection reads one CloneSet as v1beta1, which is stored, and as v1alpha1, which the agent's webhook makes of
// it, each 200 times a second for half a minute. The reads of v1beta1 are the floor: they call nobody.
func conversionSection(ctx context.Context, b *bench) (err error) {
	const section = "conversion"
	f, err := fleet.Start(
		ctx,
		fleet.Config{
			Bin:      b.bin,
			NoHub:    true,
			Members:  []fleet.ClusterSpec{{Name: "east", NoKubelets: true}},
			Progress: b.step,
		},
	)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Destroy()) }()
	east := f.Member("east")
	if err := east.InstallCRDs(ctx, crds.FS); err != nil {
		return err
	}
	if _, err := b.startAgent(ctx, f, east); err != nil {
		return err
	}
	c, err := connect(east)
	if err != nil {
		return err
	}
	read := cloneSetKind().build(metav1.NamespaceDefault, "read", 0, image(1))
	if err := c.Create(ctx, read); err != nil {
		return fmt.Errorf("create the CloneSet to read: %w", err)
	}
	config := east.RESTConfig()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", east.Name, err)
	}
	metrics, err := f.MetricsURL(fleet.AgentName(east.Name))
	if err != nil {
		return err
	}
	type reads struct{ p50, p99, calls float64 }
	measured := map[string]reads{}
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		url := fmt.Sprintf(
			"%s/apis/%s/%s/namespaces/default/clonesets/read",
			config.Host,
			v1beta1.GroupVersion.Group,
			version,
		)
		if err := awaitRead(ctx, client, url); err != nil {
			return err
		}
		before, err := settledCounter(ctx, metrics, convertCalls)
		if err != nil {
			return err
		}
		b.say("reading a CloneSet as %s, %d times a second for %s", version, readRate, readFor)
		took, err := readAtRate(ctx, client, url)
		if err != nil {
			return fmt.Errorf("read as %s: %w", version, err)
		}
		after, err := counter(ctx, metrics, convertCalls)
		if err != nil {
			return err
		}
		measured[version] = reads{percentile(took, 50), percentile(took, 99), after - before}
	}
	floor, converted := measured["v1beta1"], measured["v1alpha1"]
	const beside = "read as v1beta1"
	b.report.addWithFloor(section, "read as v1alpha1, 200/s for 30 s, P50", "ms", converted.p50, beside, floor.p50)
	b.report.addWithFloor(section, "read as v1alpha1, 200/s for 30 s, P99", "ms", converted.p99, beside, floor.p99)
	b.report.add(section, "webhook calls of 6000 reads as v1alpha1", "", converted.calls)
	b.report.add(section, "webhook calls of 6000 reads as v1beta1", "", floor.calls)
	if floor.calls != 0 {
		return fmt.Errorf("%v reads of the stored version called the webhook", floor.calls)
	}
	return nil
}

// awaitRead returns when a read works: the agent tells the API server where it converts a moment after it is ready.
func awaitRead(ctx context.Context, client *http.Client, url string) error {
	deadline := time.Now().Add(time.Minute)
	for {
		err := readOnce(ctx, client, url)
		if err == nil || time.Now().After(deadline) || ctx.Err() != nil {
			return err
		}
	}
}

func readOnce(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var text strings.Builder
	if _, err := bufio.NewReader(response.Body).WriteTo(&text); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s: %s", url, response.Status, text.String())
	}
	return nil
}

// readAtRate begins a read at each tick, whether or not the ones before have ended, and returns how long each took from
// its tick, in ms.
func readAtRate(ctx context.Context, client *http.Client, url string) ([]float64, error) {
	count := readRate * int(readFor/time.Second)
	took, errs := make([]float64, count), make([]error, count)
	var reading sync.WaitGroup
	begin := time.Now()
	for i := range count {
		at := begin.Add(time.Duration(i) * time.Second / readRate)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Until(at)):
		}
		reading.Go(func() {
			errs[i] = readOnce(ctx, client, url)
			took[i] = float64(time.Since(at).Microseconds()) / 1000
		})
	}
	reading.Wait()
	return took, errors.Join(errs...)
}

// settledCounter reads a counter when it has stood still for a second. An API server keeps a cache of each version that
// it serves, so that it has every change of an object converted once, a moment after the change.
func settledCounter(ctx context.Context, url, name string) (float64, error) {
	const looks = 10
	last, same := -1.0, 0
	for same < looks {
		now, err := counter(ctx, url, name)
		if err != nil {
			return 0, err
		}
		if now != last {
			last, same = now, 0
		}
		same++
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(time.Second / looks):
		}
	}
	return last, nil
}

// counter reads one counter of a program's metrics; one that is not there is 0.
func counter(ctx context.Context, url, name string) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, fmt.Errorf("read metrics: %w", err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, lines.Err()
}
