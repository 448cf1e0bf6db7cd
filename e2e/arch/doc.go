// Package arch holds the shape of the repository as tests: which layer imports which, who names a kind, what folders
// are not called, how large they are, and how long a file may be. The function layers is the list of folders, and
// hub/doc.go shows how they work together. A rule that has to change, changes here in the same commit. What broke a
// rule before it was written is in testdata and in .golangci.yml: these lists only shrink.
package arch
