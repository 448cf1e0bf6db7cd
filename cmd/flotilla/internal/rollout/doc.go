// Package rollout is the verb `flotilla rollout`: it tells how far a rollout is, and stops it, lets it go on or starts
// it. It works on the user's object, so on a hub it means all clusters together; on one cluster it works alike.
package rollout
