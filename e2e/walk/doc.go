// Package walk does what a newcomer does: it runs the commands of README.md and of the page about a canary in a fresh
// folder, up to a canary over three clusters, and then makes five mistakes (tag e2e): `make walk`.
package walk
