// Package clocks is where our programs get their clock from: that of the machine. Programs that tests build with the
// tag flotilla_clocks have one that goes wrong as a test wants it; no other program has that code.
package clocks
