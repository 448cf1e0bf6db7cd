package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// Key is what requests are counted by.
type Key struct {
	User, Program, Verb string
	// Resource is Event.FullResource.
	Resource string
	Code     int
}

// Counts is a number of requests for each key.
type Counts map[Key]int

// Count counts events.
func Count(events []Event) Counts {
	counts := Counts{}
	for i := range events {
		e := &events[i]
		counts[Key{User: e.User, Program: e.Program, Verb: e.Verb, Resource: e.FullResource(), Code: e.Code}]++
	}
	return counts
}

// Total returns the number of requests with a key for which want returns true; nil wants all.
func (c Counts) Total(want func(Key) bool) int {
	total := 0
	for key, count := range c {
		if want == nil || want(key) {
			total += count
		}
	}
	return total
}

// Conflicts returns the number of requests that were answered with 409.
func (c Counts) Conflicts() int {
	return c.Total(func(k Key) bool { return k.Code == 409 })
}

// Keys returns the keys, the largest count first, then by program, verb, resource, code and user.
func (c Counts) Keys() []Key {
	return slices.SortedFunc(maps.Keys(c), func(a, b Key) int {
		return cmp.Or(
			cmp.Compare(c[b], c[a]), strings.Compare(a.Program, b.Program), strings.Compare(a.Verb, b.Verb),
			strings.Compare(a.Resource, b.Resource), cmp.Compare(a.Code, b.Code), strings.Compare(a.User, b.User),
		)
	})
}

// String returns a table with one line per key, for the message of a failed test.
func (c Counts) String() string {
	var out strings.Builder
	table := tabwriter.NewWriter(&out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "COUNT\tPROGRAM\tVERB\tRESOURCE\tCODE\tUSER")
	for _, k := range c.Keys() {
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%d\t%s\n", c[k], k.Program, k.Verb, k.Resource, k.Code, k.User)
	}
	_ = table.Flush() // writes to memory
	return out.String()
}
