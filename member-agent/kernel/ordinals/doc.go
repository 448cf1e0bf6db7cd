// Package ordinals owns the question "which ordinals does this workload have, and which pod has which". It is pure.
//
// The rule: a workload has the first replicas integers from start on that are not reserved. A reservation is a
// number, or a range "a-b" with both ends in it. A reservation outside of these ordinals has no effect. Example:
// start 2, 3 replicas, 3 and "5-7" reserved: ordinals 2, 4 and 8. With 1 replica only 2: then neither reservation has
// an effect.
//
// Pod "<workload>-<ordinal>" has the ordinal. A number with leading zeros is no ordinal, since no workload makes it.
package ordinals
