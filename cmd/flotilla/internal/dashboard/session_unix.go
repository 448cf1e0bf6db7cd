//go:build unix

package dashboard

import "syscall"

// ownSession starts a program in a session of its own, so that Ctrl-C does not end it.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
