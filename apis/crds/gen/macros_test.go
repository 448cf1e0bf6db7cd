package main

import (
	"strings"
	"testing"
)

func TestExpand(t *testing.T) {
	for _, row := range []struct {
		name, expression string
		want, wrong      string
	}{
		{name: "nothing to expand", expression: "self.a == 1", want: "self.a == 1"},
		{name: "an argument", expression: "@numberOrPercent{self.a} && b", want: "(type(self.a) == int ? self.a >= 0 : "},
		{name: "what follows stays", expression: "@percent{a} <= @percent{b}", want: ".sum()) <= (b == "},
		{name: "two arguments", expression: "@selectorMatches{self.selector}{self.template}",
			want: "k in self.template.metadata.labels && self.template.metadata.labels[k] == self.selector.matchLabels[k]"},
		{name: "no arguments", expression: "@firstSeven.all(i, i < size(self))", want: "[0,1,2,3,4,5,6].all(i, "},
		{name: "a misspelt word", expression: "@numberOrPercents{a}", wrong: "unknown word @numberOrPercents"},
		{name: "an argument too few", expression: "@selectorMatches{a}", wrong: "@selectorMatches takes 2 arguments"},
		{name: "an open brace", expression: "@percent{a", wrong: "@percent takes 1 arguments"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, err := expand(row.expression)
			switch {
			case row.wrong != "":
				if err == nil || !strings.Contains(err.Error(), row.wrong) {
					t.Errorf("error %v, want one that says %q", err, row.wrong)
				}
			case err != nil:
				t.Error(err)
			case !strings.Contains(got, row.want) || strings.Contains(got, "@") || strings.Contains(got, "$1"):
				t.Errorf("got %q, want it to hold %q and no word any more", got, row.want)
			}
		})
	}
}
