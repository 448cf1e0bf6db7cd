// Package check is the verb `flotilla check`: it prints what it found of an installation, a line each, and what to do.
package check
