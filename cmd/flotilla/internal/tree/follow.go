package tree

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/console"
)

// settle is how long a change waits for others, so that a burst is drawn once.
const settle = 200 * time.Millisecond

// follow shows the tree again whenever it changed, until the context ends: on a terminal in place, else one after the
// other.
func (v *verb) follow(ctx context.Context, out io.Writer) error {
	cfg, scheme, err := v.hub.Config()
	if err != nil {
		return err
	}
	direct, err := v.hub.Client()
	if err != nil {
		return err
	}
	v.stored = direct
	if _, err := v.look(ctx, direct); err != nil {
		return err // a cache would try for ever
	}
	hub, err := cache.New(cfg, cache.Options{Scheme: scheme, DefaultTransform: cache.TransformStripManagedFields()})
	if err != nil {
		return fmt.Errorf("connect to the hub: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- hub.Start(ctx) }()
	defer stop()
	changed := make(chan struct{}, 1)
	if err := notify(ctx, hub, changed); err != nil {
		return endOf(ctx, err)
	}
	s := screen{out: out, terminal: v.output == "text" && console.IsTerminal(out), stream: v.output != "text"}
	text := func(ctx context.Context) (string, error) {
		tree, err := v.look(ctx, hub)
		if err != nil {
			return "", err
		}
		var text bytes.Buffer
		err = v.print(&text, tree)
		return text.String(), err
	}
	return s.follow(ctx, text, changed, ended)
}

// screen is where a text is shown that changes.
type screen struct {
	out io.Writer
	// terminal: each text takes the place of the one before.
	terminal bool
	// stream: the texts are documents, which no empty line parts.
	stream bool
	// shown is the text that was shown last.
	shown string
}

// follow shows the text now and after each change, where it is another one. It returns nil when the context ends, and
// an error where the text cannot be made or shown, or the connection ended.
func (s *screen) follow(
	ctx context.Context,
	text func(context.Context) (string, error),
	changed <-chan struct{},
	ended <-chan error,
) error {
	for {
		next, err := text(ctx)
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

// draw shows a text that is not shown yet: on a terminal in place of the last one, else below it.
func (s *screen) draw(text string) error {
	if text == s.shown {
		return nil
	}
	// What the terminal showed before the verb began can still be scrolled to.
	const home = "\x1b[H\x1b[2J"
	lead := ""
	switch {
	case s.terminal:
		lead = home
	case s.shown != "" && !s.stream:
		lead = "\n"
	}
	if _, err := io.WriteString(s.out, lead+text); err != nil {
		return fmt.Errorf("write the tree: %w", err)
	}
	s.shown = text
	return nil
}
