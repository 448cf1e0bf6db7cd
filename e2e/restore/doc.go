// Package restore follows docs/tasks/back-up-the-hub.md on a hub with a member, while all of Flotilla runs on, and what
// docs/tasks/survive-a-hub-outage.md says of a hub that was installed anew (tag e2e).
package restore
