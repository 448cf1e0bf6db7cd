// Package store is how the stages of the hub read and write the hub's API server: the field managers, the indexes of
// the cache, lookups by key, and which of the hub's own writes the cache has seen.
package store
