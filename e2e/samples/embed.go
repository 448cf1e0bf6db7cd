// Package samples holds the manifests that `flotilla try up` applies to the hub, and that the docs show; in v1alpha1
// those of that version, which are applied by hand.
package samples

import "embed"

// FS holds the manifests, those at its top to be applied in the order of their names.
//
//go:embed *.yaml v1alpha1/*.yaml
var FS embed.FS
