// Package release checks what `make release` wrote, and runs a try-out from its archives alone, on a machine without Go
// and with an empty home (tag e2e): `make release-test`.
package release
