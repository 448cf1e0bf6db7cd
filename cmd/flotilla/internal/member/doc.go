// Package member is how clusters become members and cease to be: the verbs token, join, accept and leave.
package member
