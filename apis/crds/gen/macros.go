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
			firstDigits + ".filter(t, t <= $1).map(t, $1 <= t + '9%' ? " + lastDigits +
			".filter(o, t + o < $1).size() : 10).sum())"},
		// firstSeven are the indexes of the first items of a list, for what costs too much to compare in the longest list.
		"firstSeven": {0, "[0,1,2,3,4,5,6]"},
		// cronSchedule{v}: v is a schedule as cron reads it, apart from ranges whose end is before their start.
		"cronSchedule": {1, "$1.matches('" + cronPattern() + "')"},
		// imageReference{v}: v names an image as container runtimes read it: a registry if there is one, a path, and a tag
		// or a digest or both.
		"imageReference": {1, "$1.matches('" + imagePattern + "')"},
		// storageAtLeast{claim}{old claim}: the claim template requests at least the storage of the old one.
		"storageAtLeast": {2, "(!" + hasStorage("$2") + " || " + hasStorage("$1") +
			" && " + storage("$1") + ".compareTo(" + storage("$2") + ") >= 0)"},
		// sameStorage{claim}{old claim}: the claim templates do not differ in their storage class or access modes.
		"sameStorage": {2, "(!has($1.spec) || !has($2.spec) ||" +
			" (!has($1.spec.storageClassName) || !has($2.spec.storageClassName)" +
			" || $1.spec.storageClassName == $2.spec.storageClassName)" +
			" && (has($1.spec.accessModes) ? $1.spec.accessModes : []) == (has($2.spec.accessModes) ? $2.spec.accessModes : " +
			"[]))"},
		// handOverNames{h}: the names of the labels, annotations and values of the status that a hand-over names, as the keys
		// have them. handOverVariables{h}: the ends of their environment variables.
		"handOverNames": {1, handOverNames},
		"handOverVariables": {1, handOverNames + ".map(key, key.substring(key.lastIndexOf('/') + 1).upperAscii()" +
			".replace('-', '_').replace('.', '_'))"},
		// qualifiedName{key}: the key can be that of a label or an annotation.
		"qualifiedName": {1, "$1.matches('^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?" +
			"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')"},
		// statusPath{path}: the JSONPath leads below .status by fields, indexes and filters that compare with a text.
		"statusPath": {1, "$1.matches('^[{][.]status([.][A-Za-z_][A-Za-z0-9_-]*|[[][0-9]{1,6}[]]" +
			`|[[][?][(]\\x40[.][A-Za-z_][A-Za-z0-9_]*=="[^"\\\\]*"[)][]])+[}]$')`},
		// selectorMatches{selector}{pod template}: the label selector matches the template's labels; none are no match.
		"selectorMatches": {2, "(has($2.metadata) && has($2.metadata.labels)" +
			" && (!has($1.matchLabels) || $1.matchLabels.all(k," +
			" k in $2.metadata.labels && $2.metadata.labels[k] == $1.matchLabels[k]))" +
			" && (!has($1.matchExpressions) || $1.matchExpressions.all(e," +
			" e.operator == 'In' ? e.key in $2.metadata.labels && has(e.values) && $2.metadata.labels[e.key] in e.values" +
			" : e.operator == 'NotIn' ? !(e.key in $2.metadata.labels && has(e.values) && $2.metadata.labels[e.key] in " +
			"e.values)" +
			" : e.operator == 'Exists' ? e.key in $2.metadata.labels : !(e.key in $2.metadata.labels))))"},
	}
}

const handOverNames = "((has($1.labels) ? $1.labels : []) + (has($1.annotations) ? $1.annotations : [])" +
	" + (has($1.status) ? $1.status.map(s, s.name) : []))"

// cronPattern is a regular expression, as it is written in a string of CEL, for schedules of cron: five fields or a
// descriptor, after a time zone if there is one.
func cronPattern() string {
	field := func(value string) string {
		term := "([*?]|" + value + "(-" + value + ")?)(/0*[1-9][0-9]*)?"
		return term + "(," + term + ")*"
	}
	fields := strings.Join([]string{
		field("[0-5]?[0-9]"), field("([01]?[0-9]|2[0-3])"), field("(0?[1-9]|[12][0-9]|3[01])"),
		field("(0?[1-9]|1[0-2]|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"),
		field("(0?[0-6]|sun|mon|tue|wed|thu|fri|sat)"),
	}, "[ \\\\t]+")
	descriptor := "\\\\x40(yearly|annually|monthly|weekly|daily|midnight|hourly|every ([0-9]+([.][0-9]+)?(h|m|s|ms))+)"
	return "^((CRON_)?TZ=[A-Za-z0-9_+/-]+ +)?((?i:" + fields + ")|" + descriptor + ")$"
}

// imagePattern is a regular expression, as it is written in a string of CEL, for references of images.
const imagePattern = "^(([a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?|[[][a-fA-F0-9:]+[]])(:[0-9]+)?/)?" +
	"[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*)*" +
	"(:[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127})?(\\x40[a-z0-9]+([+._-][a-z0-9]+)*:[0-9a-fA-F]{32,})?$"

// hasStorage tells whether a claim template requests storage, which declareStorage declares.
func hasStorage(claim string) string {
	requests := claim + ".spec.resources.requests"
	return "(has(" + claim + ".spec) && has(" + claim + ".spec.resources) && has(" + requests + ") && has(" + requests +
		".storage))"
}

// storage is the requested storage of a claim template as a quantity.
func storage(claim string) string {
	value := claim + ".spec.resources.requests.storage"
	return "(type(" + value + ") == int ? quantity(string(" + value + ")) : quantity(" + value + "))"
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
