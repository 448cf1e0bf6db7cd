// Package normal owns the question "what does this pod template say once its spelling is taken away". It is pure.
//
// The rule: null fields are left out, and so are fields that have the value which the API server gives them when they
// are absent; everything else stays as it is. Example:
// {"name":"main","image":"nginx:1","imagePullPolicy":"IfNotPresent","command":null} and
// {"name":"main","image":"nginx:1"} are the same container.
package normal
