// Package charts tests the charts of this repository. Without helm: what their roles let programs do, asked of a real
// API server. With it (make charts, tag e2e): they are linted, what they render is compared, and docs/install.md is
// followed from install to uninstall.
package charts
