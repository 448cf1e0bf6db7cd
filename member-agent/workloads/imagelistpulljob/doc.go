// Package imagelistpulljob is the controller of ImageListPullJobs: an ImagePullJob for each image.
//
// plan.go decides, and is pure. reconcile.go reads, apply.go writes, status.go reports.
package imagelistpulljob
