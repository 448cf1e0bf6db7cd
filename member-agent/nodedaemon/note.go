package nodedaemon

import "strings"

// mostNote bounds the text of an event, in bytes: the API server refuses events with more than 1024.
const mostNote = 1000

// Note returns the text as an event may have it, cut between characters where it is too long.
func Note(text string) string {
	text = strings.ToValidUTF8(text, "?")
	if len(text) <= mostNote {
		return text
	}
	return strings.ToValidUTF8(text[:mostNote], "") + "…"
}
