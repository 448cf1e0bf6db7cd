// Package imagelistpulljob is the controller of ImageListPullJobs: an ImagePullJob for each image.
//
// plan.go decides, and is pure. reconcile.go reads, writes and reports.
package imagelistpulljob
