// Package advancedcronjob is the controller of AdvancedCronJobs: it starts Jobs and BroadcastJobs by a schedule.
//
// reconcile.go is the list of phases. gather.go reads the jobs. plan.go decides, and is pure: which tick is started and
// which were missed is decided in package kernel/cron. apply.go writes jobs, status.go reports.
//
// Each tick is started once or reported missed once. The job of a tick has a name that follows from the tick, so a
// second creation meets the first. It is created before the status records the tick, and it is not deleted before the
// status has: so the tick of a job that is gone is known. The status only moves forward. What remains is a job that
// another program deletes after the agent created it and before the agent, which is killed between the two, recorded
// it: its tick is started again, if no later one has come.
//
// Differs from OpenKruise, where lastScheduleTime is read from the jobs that exist, so that a tick runs again when its
// job was deleted; a schedule with more than 100 missed ticks stands still; and a time zone that does not exist is
// taken for the local one.
package advancedcronjob
