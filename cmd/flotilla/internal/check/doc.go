// Package check is the verb `flotilla check`: it says in one line each what holds of an installation and what does not.
package check
