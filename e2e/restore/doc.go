// Package restore follows docs/tasks/back-up-the-hub.md on a hub with a member, while all of Flotilla runs on (tag e2e).
package restore
