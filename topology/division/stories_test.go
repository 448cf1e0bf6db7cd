package division

import (
	"fmt"
	"strings"
	"testing"
)

// tale is a world whose decisions are written down as they change.
type tale struct {
	*world
	text strings.Builder
	last string
}

func newTale(t *testing.T, n int32, rooms []int, subsets ...string) *tale {
	return &tale{world: newWorld(t, n, rooms, subsets...)}
}

// then writes a title, changes the world and lets it run; every decision that is new is written.
func (s *tale) then(title string, seconds int, change func()) *tale {
	s.t.Helper()
	fmt.Fprintf(&s.text, "# %s\n", title)
	if change != nil {
		change()
	}
	for end := s.now + seconds; s.now < end; {
		s.pass()
		var line strings.Builder
		for i, share := range s.shares {
			site := s.sites[i]
			fmt.Fprintf(&line, " | %s: %d (%d ready", share.Name, share.Replicas, min(site.ready(), share.Replicas))
			if site.closed {
				line.WriteString(", closed")
			}
			fmt.Fprintf(&line, ") %s", share.Reason)
		}
		if got := line.String(); got != s.last {
			fmt.Fprintf(&s.text, "%4d s N=%d%s\n", s.now, s.n, got)
			s.last = got
		}
	}
	s.text.WriteString("\n")
	return s
}

func TestAdaptiveStories(t *testing.T) {
	const room, none = 100, 0
	elastic := []string{"a{,2}", "b{,2}", "c"}
	stories := map[string]func(t *testing.T) *tale{
		"adaptive-recovers": func(t *testing.T) *tale {
			s := newTale(t, 4, []int{room, none, room}, elastic...)
			return s.then("b has no room", 100, nil).
				then("b has room: two pods come back, one by one", 400, func() { s.sites[1].room = room })
		},
		"adaptive-attempt-fails": func(t *testing.T) *tale {
			s := newTale(t, 8, []int{room, none, room}, "a{,2}", "b{,4}", "c")
			return s.then("b has no room", 100, nil).then("b has no room at the next attempt either", 300, nil).
				then("b has room for one", 700, func() { s.sites[1].room = 1 })
		},
		"adaptive-scaled-while-pods-return": func(t *testing.T) *tale {
			s := newTale(t, 12, []int{room, none, room}, "a{,2}", "b{,8}", "c")
			return s.then("b has no room", 100, nil).
				then("b has room, and opens", 250, func() { s.sites[1].room, s.sites[1].start = room, 20 }).
				then("scaled down in the middle", 15, func() { s.n = 7 }).
				then("scaled up in the middle", 200, func() { s.n = 14 })
		},
		"adaptive-two-recover": func(t *testing.T) *tale {
			s := newTale(t, 9, []int{none, 1, room}, "a{,3}", "b{,3}", "c")
			return s.then("a has no room, b for one", 100, nil).
				then("both have room", 500, func() { s.sites[0].room, s.sites[1].room = room, room })
		},
		"adaptive-slow-start": func(t *testing.T) *tale {
			s := newTale(t, 4, []int{none, room}, "a{,2}", "b")
			s.sites[1].start = 500 // longer than a stays closed
			return s.then("a has no room, pods start for 500 s in b", 1100, nil)
		},
		"adaptive-part-fits": func(t *testing.T) *tale {
			s := newTale(t, 10, []int{4, room}, "a{,8}", "b")
			s.sites[0].start, s.sites[1].start = 60, 60 // longer than a pod may be unschedulable
			return s.then("a has room for 4 of 8, pods start for 60 s", 450, nil)
		},
		"adaptive-min": func(t *testing.T) *tale {
			s := newTale(t, 4, []int{none, room}, "a{1,2}", "b")
			return s.then("a has no room; its min keeps a pod there", 400, nil).
				then("a has room", 400, func() { s.sites[0].room = room })
		},
		"adaptive-nowhere": func(t *testing.T) *tale {
			s := newTale(t, 4, []int{1, 1}, "a{,2}", "b")
			return s.then("room for one in each", 800, nil).
				then("room in b", 400, func() { s.sites[1].room = room })
		},
		"adaptive-bounds-change": func(t *testing.T) *tale {
			s := newTale(t, 4, []int{room, room}, "a", "b")
			return s.then("all in a", 50, nil).
				then("b gets a min of 2: it grows first", 100, func() { s.subsets = parse("a", "b{2,}") }).
				then("a gets a max of 1, which holds at once", 100, func() { s.subsets = parse("a{,1}", "b{2,}") })
		},
		"reserve": func(t *testing.T) *tale {
			s := newTale(t, 2, []int{none, none, room}, "0", "1", "2")
			s.reserve, s.critical = true, 20
			return s.then("0 and 1 have no room", 100, nil).
				then("scaled to 4", 50, func() { s.n = 4 }).
				then("0 has room", 450, func() { s.sites[0].room = room })
		},
	}
	for name, tell := range stories {
		t.Run(name, func(t *testing.T) { golden(t, name, tell(t).text.String()) })
	}
}
