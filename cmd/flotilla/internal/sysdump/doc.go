// Package sysdump is the verb `flotilla sysdump`: it writes into one file what somebody needs who is to find out what
// is wrong with an installation, and no secrets.
package sysdump
