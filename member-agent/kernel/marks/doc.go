// Package marks is what PodProbeMarkers put on pods, as an annotation of the pod records it: labels, annotations and
// conditions, by the probe that they are of, with what they replaced. It is pure.
//
// So exactly what a probe set is taken back, also by an agent that started meanwhile, and reports count pods by the
// states of their probes without reading a marker.
//
// Example: {"roles#leader":{"state":"Succeeded","labels":{"role":{"set":"leader","had":"unknown"}}}}
package marks
