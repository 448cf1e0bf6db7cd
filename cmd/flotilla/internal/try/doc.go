// Package try is `flotilla try`: a hub and three members on this machine, with samples, to look at and to play with.
package try
