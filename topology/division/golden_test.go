package division

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden stories anew")

// story is a fleet that changes step by step; every step divides from the last decision, as the hub does.
type story struct {
	t    *testing.T
	in   Input
	text strings.Builder
}

func newStory(t *testing.T, n int32, subsets ...string) *story {
	return &story{t: t, in: Input{Replicas: n, Subsets: parse(subsets...), Salt: "default/web"}}
}

// join adds equal cells, given as "subset/cluster".
func (s *story) join(cells ...string) *story {
	for _, c := range cells {
		subset, cluster, _ := strings.Cut(c, "/")
		s.in.Cells = append(s.in.Cells, Cell{Subset: subset, Cluster: cluster, Weight: 1})
	}
	return s
}

// each changes the cells of one cluster; keep false removes them.
func (s *story) each(cluster string, change func(*Cell) (keep bool)) *story {
	var cells []Cell
	for _, c := range s.in.Cells {
		if c.Cluster != cluster || change(&c) {
			cells = append(cells, c)
		}
	}
	s.in.Cells = cells
	return s
}

// step divides, writes the plan under a title, and takes it as the last decision.
func (s *story) step(title string) *story {
	s.t.Helper()
	plan, err := Divide(s.in)
	if err != nil {
		s.t.Fatalf("%s: %v", title, err)
	}
	fmt.Fprintf(&s.text, "# %s\n%s\n", title, plan)
	s.in.Cells = sortedCells(s.in)
	for i, c := range plan.Cells {
		s.in.Cells[i].Current = c.Replicas
	}
	return s
}

func (s *story) scale(n int32) *story {
	s.in.Replicas = n
	return s.step(fmt.Sprintf("scale to %d", n))
}

func TestStories(t *testing.T) {
	// Zones a+b in east, b+c in west, c+d in south, as in the try-out.
	zones := []string{"a/east", "b/east", "b/west", "c/west", "c/south", "d/south"}
	stories := map[string]func(t *testing.T) *story{
		"scale": func(t *testing.T) *story {
			return newStory(t, 12, "a", "b", "c", "d").join(zones...).step("12 over four open zones").scale(30).scale(7).scale(12)
		},
		"scale-percent": func(t *testing.T) *story {
			return newStory(t, 12, "a=25%", "b=25%", "c", "d=1").join(zones...).step("12 with percentages").scale(30).scale(7).scale(1)
		},
		"scale-ranges": func(t *testing.T) *story {
			return newStory(t, 12, "a{2,4}", "b{30%,50%}", "c").join(zones[:5]...).step("12 with ranges").scale(30).scale(7).scale(1)
		},
		"percent-mismatch": func(t *testing.T) *story {
			return newStory(t, 10, "a=33%", "b=33%", "c=34%").join(zones[:5]...).step("10 of 33/33/34 %").scale(100).scale(5)
		},
		"member-joins": func(t *testing.T) *story {
			return newStory(t, 12, "").join("/east", "/west").step("two members").
				join("/south").step("south joins: nothing moves").scale(15).scale(20).scale(9)
		},
		"member-lost": func(t *testing.T) *story {
			return newStory(t, 12, "").join("/east", "/west", "/south").step("three members").
				each("west", func(c *Cell) bool { c.Frozen = true; return true }).step("west is cut off: nothing moves").scale(15).scale(6).
				each("west", func(c *Cell) bool { return false }).step("west is gone").
				join("/west").step("west is back, empty").scale(12)
		},
		"member-full": func(t *testing.T) *story {
			full := func(c *Cell) bool { c.Capacity = new(int32); return true }
			roomy := func(c *Cell) bool { c.Capacity = nil; return true }
			return newStory(t, 12, "").join("/east", "/west").step("two members").
				each("west", full).scale(16).each("east", full).scale(20).
				each("west", roomy).step("west has room again").each("east", roomy).scale(30)
		},
		"subset-added": func(t *testing.T) *story {
			s := newStory(t, 12, "a", "b").join(zones[:3]...).step("two subsets")
			s.in.Subsets = parse("a", "b", "c")
			s.step("c is added, no member matches yet").join("c/west", "c/south").step("members for c").scale(13)
			s.in.Subsets = parse("a", "b=2", "c")
			return s.step("b is fixed to 2")
		},
	}
	for name, tell := range stories {
		t.Run(name, func(t *testing.T) { golden(t, name, tell(t).text.String()) })
	}
}

// golden compares a story with the file of its name.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("the story changed; if that is meant, run with -update (-want +got):\n%s", diff)
	}
}
