// Package freshness decides whether the cache has caught up with the writes that a controller made for one owner. A
// controller that acts on an older cache would create or delete twice.
//
// The rule: each write is recorded under its owner; the owner is fresh when the cache shows every recorded object at
// least at the version that was written, or shows it gone. Only that owner waits. If the cache has not caught up after
// a time, the API server is asked: a record that it refutes is dropped, any other is waited for further.
// Example: pod web-abcde was created; its watch event is 40 ms late. Reconciles of web in these 40 ms do nothing, those
// of other workloads go on. If the pod was refused after all (a time-out hid it), the record is dropped after 5 s.
package freshness
