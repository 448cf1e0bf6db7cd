// Package objects makes malformed and hostile objects of all our kinds, from a seed: valid objects into which values
// are put that nobody means well with, at every field that the definitions have and at some that they have not.
package objects
