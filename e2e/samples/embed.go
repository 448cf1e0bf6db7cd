// Package samples holds the manifests that `flotilla try up` applies to the hub, and that the docs show.
package samples

import "embed"

// FS holds the manifests, to be applied in the order of their names.
//
//go:embed *.yaml
var FS embed.FS
