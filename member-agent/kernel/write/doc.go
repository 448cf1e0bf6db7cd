// Package write is the workload controllers' one exit to the API server. It carries out items with a slow start,
// records each write for package freshness, and tells one event per kind of item and pass.
//
// The rule: a slow start runs 1, then 2, 4, 8 … items side by side, up to a limit, and stops after the first that
// fails; so a quota or a webhook that refuses everything is asked once, not 500 times. Example: 500 pods to create: 1,
// 2, 4, 8 … run in steps, the rest 128 at a time. The first is refused: 1 request.
package write
