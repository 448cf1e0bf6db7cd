// Package wording holds the sentences that users read to a length, and to words that they know.
package wording

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Longest is how many characters a sentence to a user has at most. Names that a message lists come on top of that.
const Longest = 300

// Wrong returns what is wrong with a sentence, "" for nothing: words that readers of other languages do not find in the
// documentation of Kubernetes, or too many characters.
func Wrong(sentence string) string {
	if word := Dialect(sentence); word != "" {
		return fmt.Sprintf("%q is no word of Kubernetes' documentation: say which object is in which state", word)
	}
	if n := utf8.RuneCountInString(sentence); n > Longest {
		return fmt.Sprintf("%d characters: at most %d", n, Longest)
	}
	return ""
}

// Dialect returns the first word of a text that is not used, "" for none.
func Dialect(text string) string {
	words := regexp.MustCompile(`(?i)\b(told|news|promised?|heard of|of before|somebody|nobody|stands? in for|` +
		`where that is not so|what stands|is to go|let go of|rivals?|sightings?)\b`)
	return strings.ToLower(words.FindString(text))
}
