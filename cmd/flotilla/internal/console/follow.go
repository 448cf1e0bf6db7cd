package console

import (
	"context"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
	work "github.com/flotilla-dev/flotilla/apis/work/v1alpha1"
)

// settle is how long a change waits for others, so that a burst is drawn once.
const settle = 200 * time.Millisecond

// View is a text to show.
type View struct {
	Text string
	// Facts is the text without ages, which differ in every text. A view with the facts that are shown is not shown
	// again.
	Facts string
}

// Watched is what a text is made from.
type Watched struct {
	Objects []client.Object
	// Namespace is the namespace of the workloads and their placements, empty for all.
	Namespace string
	// Unscoped: placements of workloads without a namespace are read too.
	Unscoped bool
}

// options returns what the cache holds: nothing that no text shows, and no other namespace.
func (w *Watched) options(scheme *runtime.Scheme) cache.Options {
	options := cache.Options{
		Scheme:           scheme,
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject:         map[client.Object]cache.ByObject{},
	}
	if w.Namespace != "" {
		options.DefaultNamespaces = map[string]cache.Config{w.Namespace: {}}
	}
	for _, object := range w.Objects {
		switch object.(type) {
		case *work.Work: // they are in the namespaces of the members
			by := cache.ByObject{Transform: StripManifests}
			if w.Namespace != "" {
				by.Namespaces = map[string]cache.Config{cache.AllNamespaces: {}}
			}
			options.ByObject[object] = by
		case *topology.WorkloadPlacement:
			if w.Namespace != "" && w.Unscoped {
				options.ByObject[object] = cache.ByObject{
					Namespaces: map[string]cache.Config{w.Namespace: {}, topology.SystemNamespace: {}},
				}
			}
		}
	}
	return options
}

// StripManifests is a transformation for a cache: it removes the manifests of a Work, which are most of its size.
func StripManifests(object any) (any, error) {
	if w, ok := object.(*work.Work); ok {
		w.ManagedFields, w.Spec.Workload.Manifests = nil, nil
	}
	return object, nil
}

// Follow shows a text again whenever one of the kinds of objects changed and the facts of the text with it, until the
// context ends: on a terminal in place, else one after the other. view makes it from a reader of the hub. What it
// fails with at first is returned.
func (h *Hub) Follow(
	ctx context.Context,
	out io.Writer,
	output Output,
	watched Watched,
	view func(context.Context, client.Reader) (View, error),
) error {
	cfg, scheme, err := h.Config()
	if err != nil {
		return err
	}
	direct, err := h.Client()
	if err != nil {
		return err
	}
	if _, err := view(ctx, direct); err != nil {
		return err // a cache would try for ever
	}
	hub, err := cache.New(cfg, watched.options(scheme))
	if err != nil {
		return fmt.Errorf("connect to the hub: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- hub.Start(ctx) }()
	defer stop()
	changed := make(chan struct{}, 1)
	if err := Notify(ctx, hub, watched.Objects, changed); err != nil {
		return endOf(ctx, err)
	}
	hub.WaitForCacheSync(ctx) // a cache that has not started yet refuses to be read
	s := screen{out: out, terminal: output == "text" && IsTerminal(out), stream: output != "text"}
	return s.follow(ctx, func(ctx context.Context) (View, error) { return view(ctx, hub) }, changed, ended)
}

// Redraw shows a text again whenever something is sent to changed and the facts of the text changed with it, until the
// context ends: on a terminal in place, else one after the other. table is false for documents, which no empty line
// parts. It fails where the text cannot be made or shown.
func Redraw(
	ctx context.Context, out io.Writer, table bool, view func(context.Context) (View, error), changed <-chan struct{},
) error {
	s := screen{out: out, terminal: table && IsTerminal(out), stream: !table}
	return s.follow(ctx, view, changed, nil)
}

// screen is where a text is shown that changes.
type screen struct {
	out io.Writer
	// terminal: each text takes the place of the one before.
	terminal bool
	// stream: the texts are documents, which no empty line parts.
	stream bool
	// shown is the view that was shown last.
	shown View
}

// follow shows the text now and after each change, where it is another one. It returns nil when the context ends, and
// an error where the text cannot be made or shown, or the connection ended.
func (s *screen) follow(
	ctx context.Context,
	view func(context.Context) (View, error),
	changed <-chan struct{},
	ended <-chan error,
) error {
	for {
		next, err := view(ctx)
		if ctx.Err() != nil {
			return nil // the user ended it
		}
		if err != nil {
			return err
		}
		if err := s.draw(next); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			return endOf(ctx, err)
		case <-changed:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(settle):
		}
	}
}

// endOf is what the end of the connection means: nothing where the user wanted it.
func endOf(ctx context.Context, err error) error {
	if ctx.Err() != nil || err == nil {
		return nil
	}
	return fmt.Errorf("watch the hub: %w", err)
}

// draw shows a view whose facts are not shown yet: on a terminal in place of the last one, else below it.
func (s *screen) draw(view View) error {
	if s.shown.Text != "" && view.Facts == s.shown.Facts {
		return nil
	}
	// What the terminal showed before the verb began can still be scrolled to.
	const home = "\x1b[H\x1b[2J"
	lead := ""
	switch {
	case s.terminal:
		lead = home
	case s.shown.Text != "" && !s.stream:
		lead = "\n"
	}
	if _, err := io.WriteString(s.out, lead+view.Text); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	s.shown = view
	return nil
}
