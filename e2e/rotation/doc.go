// Package rotation lets a member's certificates live for a minute or five, and watches them being renewed under
// rollouts (make rotation).
package rotation
