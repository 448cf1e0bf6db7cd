// Package arch holds the shape of the repository as tests: which layer imports which, what folders are not called, and
// how long a file may be. DESIGN part 1 is the text; a rule that has to change, changes here in the same commit.
package arch
