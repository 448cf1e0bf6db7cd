//go:build !unix

package dashboard

import "syscall"

// ownSession returns nil: a program that is started stays in the session.
func ownSession() *syscall.SysProcAttr { return nil }
