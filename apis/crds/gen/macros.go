package main

import (
	"fmt"
	"strings"
)

// The markers on the Go types use these words for tests that recur; @word{a}{b} takes arguments. The API server
// counts the length of a number-or-percentage as 3 MiB (before 1.36 whatever its maxLength). A short regular
// expression is within the limit of one rule, but not for each item of a list: there the value is only compared with
// short constants, and as a field of its parent, of which the comparison is counted as short. Rules run at each write
// of the status too: these are cheap.
const (
	firstDigits = "['1','2','3','4','5','6','7','8','9']"
	lastDigits  = "['0%','1%','2%','3%','4%','5%','6%','7%','8%','9%']"
)

// macro is a word: how many arguments it takes, and the expression that it stands for, with $1, $2 … for them.
type macro struct {
	arguments  int
	expression string
}

// macros returns the words by name.
func macros() map[string]macro {
	percentages := make([]string, 101)
	for i := range percentages {
		percentages[i] = fmt.Sprintf("'%d%%'", i)
	}
	return map[string]macro{
		// numberOrPercent{v}: v is an integer of 0 or more, or a percentage from 0% to 100% without leading zeros.
		"numberOrPercent": {1, "(type($1) == int ? $1 >= 0 : $1.matches('^([1-9]?[0-9]|100)%$'))"},
		// itemNumberOrPercent{v} is the same for a value in an item of a list.
		"itemNumberOrPercent": {1, "(type($1) == int ? $1 >= 0 : $1 in [" + strings.Join(percentages, ",") + "])"},
		// percent{p}: the number in a percentage that numberOrPercent takes. Of two digits each ten below counts 10, and the
		// percentage's own ten counts its last digits below.
		"percent": {1, "($1 == '100%' ? 100 : size($1) == 2 ? " + lastDigits + ".filter(o, o < $1).size() : 10 + " +
			firstDigits + ".filter(t, t <= $1).map(t, $1 <= t + '9%' ? " + lastDigits + ".filter(o, t + o < $1).size() : 10).sum())"},
		// selectorMatches{selector}{pod template}: the label selector matches the template's labels; none are no match.
		"selectorMatches": {2, "(has($2.metadata) && has($2.metadata.labels)" +
			" && (!has($1.matchLabels) || $1.matchLabels.all(k," +
			" k in $2.metadata.labels && $2.metadata.labels[k] == $1.matchLabels[k]))" +
			" && (!has($1.matchExpressions) || $1.matchExpressions.all(e," +
			" e.operator == 'In' ? e.key in $2.metadata.labels && has(e.values) && $2.metadata.labels[e.key] in e.values" +
			" : e.operator == 'NotIn' ? !(e.key in $2.metadata.labels && has(e.values) && $2.metadata.labels[e.key] in e.values)" +
			" : e.operator == 'Exists' ? e.key in $2.metadata.labels : !(e.key in $2.metadata.labels))))"},
	}
}

// expand replaces every word of the expression.
func expand(expression string) (string, error) {
	known := macros()
	var done strings.Builder
	for {
		before, rest, found := strings.Cut(expression, "@")
		done.WriteString(before)
		if !found {
			return done.String(), nil
		}
		end := strings.IndexFunc(rest, func(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') })
		if end < 0 {
			end = len(rest)
		}
		m, ok := known[rest[:end]]
		if !ok {
			return "", fmt.Errorf("unknown word @%s", rest[:end])
		}
		word := rest[:end]
		rest = rest[end:]
		meaning := m.expression
		for i := range m.arguments {
			argument, after, closed := strings.Cut(rest, "}")
			if !closed || !strings.HasPrefix(argument, "{") {
				return "", fmt.Errorf("@%s takes %d arguments in braces", word, m.arguments)
			}
			meaning, rest = strings.ReplaceAll(meaning, fmt.Sprintf("$%d", i+1), argument[1:]), after
		}
		done.WriteString(meaning)
		expression = rest
	}
}
