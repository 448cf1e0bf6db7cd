// Package meter is what the hub tells about itself and its fleet as metrics, by the questions that people ask of them:
// docs/tasks/look-after-it.md has the table.
//
// What stands is read from the hub's cache when somebody asks, so that a member that leaves takes its series with it.
// What happens is counted by the stages, which call a Meter. All stages may call a nil one: it measures nothing.
//
// Labels are members, kinds, reasons and the three limits. Nothing is labelled by workload or pod.
package meter
