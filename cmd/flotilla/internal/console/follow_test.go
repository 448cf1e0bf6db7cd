package console

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

// TestFollow holds what a watching verb writes, and how it ends. Time is the test's own.
func TestFollow(t *testing.T) {
	broken := errors.New("the connection broke")
	for _, test := range []struct {
		name   string
		screen screen
		run    func(set func(string), change func(), stop func(), ended chan<- error)
		want   string
		err    error
	}{
		{"each text once, one below the other", screen{}, func(set func(string), change, stop func(), _ chan<- error) {
			change() // of something that is not shown
			time.Sleep(time.Second)
			set("two\n")
			change()
			time.Sleep(time.Second)
			stop()
		}, "one\n\ntwo\n", nil},
		{"another age is no change", screen{}, func(set func(string), change, stop func(), _ chan<- error) {
			for _, text := range []string{"two@1s", "two@2s", "three@3s"} {
				set(text)
				change()
				time.Sleep(time.Second)
			}
			stop()
		}, "one\n\ntwo@1s\nthree@3s", nil},
		{"a burst is one text", screen{}, func(set func(string), change, stop func(), _ chan<- error) {
			for _, text := range []string{"two\n", "three\n", "four\n"} {
				set(text)
				change()
				time.Sleep(settle / 4)
			}
			time.Sleep(time.Second)
			stop()
		}, "one\n\nfour\n", nil},
		{"on a terminal in place", screen{terminal: true}, func(set func(string), change, stop func(), _ chan<- error) {
			set("two\n")
			change()
			time.Sleep(time.Second)
			stop()
		}, "\x1b[H\x1b[2Jone\n\x1b[H\x1b[2Jtwo\n", nil},
		{"documents without a line between them", screen{stream: true},
			func(set func(string), change, stop func(), _ chan<- error) {
				set("two\n")
				change()
				time.Sleep(time.Second)
				stop()
			}, "one\ntwo\n", nil},
		{"ended by the user while it settles", screen{}, func(set func(string), change, stop func(), _ chan<- error) {
			set("two\n")
			change()
			stop()
		}, "one\n", nil},
		{"ended by the user, and the connection with it", screen{}, func(_ func(string), _, stop func(), ended chan<- error) {
			stop()
			ended <- broken
		}, "one\n", nil},
		{"the connection ends by itself", screen{}, func(_ func(string), _, _ func(), ended chan<- error) { ended <- broken },
			"one\n", broken},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				text, changed, ended, done := "one\n", make(chan struct{}, 1), make(chan error, 1), make(chan error, 1)
				var out bytes.Buffer
				screen := test.screen
				screen.out = &out
				go func() {
					done <- screen.follow(ctx, func(context.Context) (View, error) {
						facts, _, _ := strings.Cut(text, "@")
						return View{Text: text, Facts: facts}, nil
					}, changed, ended)
				}()
				synctest.Wait()
				test.run(func(next string) { synctest.Wait(); text = next }, func() {
					select {
					case changed <- struct{}{}:
					default:
					}
				}, stop, ended)
				if err := <-done; !errors.Is(err, test.err) || (err == nil) != (test.err == nil) {
					t.Errorf("it ended with %v, want %v", err, test.err)
				}
				if out.String() != test.want {
					t.Errorf("it wrote %q, want %q", out.String(), test.want)
				}
				if !test.screen.terminal && strings.Contains(out.String(), "\x1b") {
					t.Error("it writes escape sequences where there is no terminal")
				}
			})
		})
	}
}

// TestFollowTellsWhatFails holds that an error of a look ends the verb, unless the user ended it before.
func TestFollowTellsWhatFails(t *testing.T) {
	gone := errors.New("there is no CloneSet shop/api")
	fail := func(context.Context) (View, error) { return View{}, gone }
	if err := (&screen{out: &bytes.Buffer{}}).follow(t.Context(), fail, nil, nil); !errors.Is(err, gone) {
		t.Errorf("it ended with %v, want %v", err, gone)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := (&screen{out: &bytes.Buffer{}}).follow(ctx, fail, nil, nil); err != nil {
		t.Errorf("ended by the user it says %v", err)
	}
}

// TestWatchedOptions holds what the cache of a watching verb holds.
func TestWatchedOptions(t *testing.T) {
	placements, works := &topology.WorkloadPlacement{}, &work.Work{}
	w := Watched{Objects: []client.Object{placements, works}, Namespace: "shop", Unscoped: true}
	options := w.options(nil)
	names := func(configs map[string]cache.Config) string {
		return strings.Join(slices.Sorted(maps.Keys(configs)), ",")
	}
	if got := names(options.DefaultNamespaces); got != "shop" {
		t.Errorf("namespaces %s", got)
	}
	if got := names(options.ByObject[placements].Namespaces); got != "flotilla-system,shop" {
		t.Errorf("placements of %s", got)
	}
	if by := options.ByObject[works]; len(by.Namespaces) != 1 || names(by.Namespaces) != cache.AllNamespaces {
		t.Errorf("Works of %v", by.Namespaces)
	}
	w = Watched{Objects: w.Objects}
	if options = w.options(nil); options.DefaultNamespaces != nil || options.ByObject[works].Namespaces != nil {
		t.Errorf("of all namespaces: %+v", options)
	}
	full := &work.Work{}
	full.Spec.Workload.Manifests = make([]work.Manifest, 1)
	if got, err := StripManifests(full); err != nil || len(got.(*work.Work).Spec.Workload.Manifests) > 0 {
		t.Errorf("%v, %+v", err, got)
	}
}
