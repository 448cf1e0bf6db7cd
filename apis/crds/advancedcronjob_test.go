package crds_test

import (
	"strings"
	"testing"
)

const advancedCronJob = `
apiVersion: apps.kruise.io/v1beta1
kind: AdvancedCronJob
metadata:
  name: nightly
  namespace: default
spec:
  schedule: 30 2 * * *
  template:
    broadcastJobTemplate:
      spec:
        template:
          spec:
            restartPolicy: Never
            containers:
            - name: clean
              image: registry.example/clean:1
`

const (
	jobOfBatch = `{jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}}}}`
	// imageListTemplate has what an imageListPullJobTemplate needs.
	imageListTemplate = `{imageListPullJobTemplate: {spec: {images: [registry.example/web:1]}}}`
)

func testAdvancedCronJobRules(t *testing.T, s *server) {
	const (
		template  = "spec.template"
		broadcast = template + ".broadcastJobTemplate"
	)
	rows := []rule{
		{name: "as it is", edit: named("nightly")},
		{name: "name of 52", edit: named(strings.Repeat("a", 52))},
		{name: "name of 53", edit: named(strings.Repeat("a", 53)),
			says: []string{"has 53 characters", "at most 52", "choose a shorter name"}},
		{name: "a time zone", edit: set("spec.timeZone", "Europe/Berlin")},
		{name: "a time zone with digits", edit: set("spec.timeZone", "Etc/GMT+8")},
		{name: "the time zone of the machine", edit: set("spec.timeZone", "Local"),
			says: []string{"spec.timeZone", "timeZone Local is no IANA name", "write for example Europe/Berlin"}},
		{name: "an empty time zone", edit: set("spec.timeZone", `""`), says: []string{"spec.timeZone", "no IANA name"}},
		{name: "a time zone outside of its folder", edit: set("spec.timeZone", "../etc/passwd"),
			says: []string{"timeZone ../etc/passwd is no IANA name"}},
		{name: "two time zones",
			edit: all(set("spec.timeZone", "Europe/Berlin"), set("spec.schedule", "TZ=Asia/Tokyo 0 0 * * *")),
			says: []string{"spec.timeZone", "timeZone is Europe/Berlin and schedule TZ=Asia/Tokyo 0 0 * * *",
				"begins with a time zone too"}},
		{name: "two time zones with CRON_TZ",
			edit: all(set("spec.timeZone", "Europe/Berlin"), set("spec.schedule", "CRON_TZ=Asia/Tokyo 0 0 * * *")),
			says: []string{"begins with a time zone too"}},
		{name: "negative deadline", edit: set("spec.startingDeadlineSeconds", "-1"),
			says: []string{"spec.startingDeadlineSeconds", "-1"}},
		{name: "negative limits",
			edit: all(set("spec.successfulJobsHistoryLimit", "-1"), set("spec.failedJobsHistoryLimit", "-1")),
			says: []string{"spec.successfulJobsHistoryLimit", "spec.failedJobsHistoryLimit"}},
		{name: "Forbid", edit: set("spec.concurrencyPolicy", "Forbid")},
		{name: "unknown concurrencyPolicy", edit: set("spec.concurrencyPolicy", "Queue"),
			says: []string{"spec.concurrencyPolicy", `"Queue"`, "Replace"}},

		{name: "no template", edit: set(template, "{}"), says: []string{template, "give one of them"}},
		{name: "two templates",
			edit: set(template+".jobTemplate", "{spec: {template: {spec: {containers: [{name: a, image: b}]}}}}"),
			says: []string{template, "has 2 of jobTemplate, broadcastJobTemplate and imageListPullJobTemplate"}},
		{name: "a Job", edit: set(template, jobOfBatch)},
		{name: "a Job that never ends", edit: set(template, strings.ReplaceAll(jobOfBatch, "Never", "Always")),
			says: []string{template + ".jobTemplate.spec.template.spec.restartPolicy", "must be Never or OnFailure"}},
		{name: "a Job without restartPolicy",
			edit: set(template, strings.ReplaceAll(jobOfBatch, "restartPolicy: Never, ", "")),
			says: []string{template + ".jobTemplate.spec.template.spec.restartPolicy", "restartPolicy is missing",
				"a Job needs Never or OnFailure: give one"}},
		{name: "a BroadcastJob with rules", edit: set(broadcast+".spec.parallelism", "-1"),
			says: []string{broadcast + ".spec.parallelism", "parallelism is -1"}},
		{name: "a BroadcastJob with batches", edit: set(broadcast+".spec.flotilla", "{batches: {size: 10%, soak: 10m}}")},
		{name: "the schedule may change", first: named("may-change"), edit: all(set("spec.schedule", `"@hourly"`),
			set("spec.paused", "true"), set("spec.concurrencyPolicy", "Replace"), set("spec.timeZone", "Etc/UTC"))},
		{name: "the BroadcastJob changes", first: named("broadcast-changes"), edit: set(broadcast+".spec.parallelism", "2"),
			says: []string{broadcast, "broadcastJobTemplate cannot change", "create an AdvancedCronJob of another name"}},
		{name: "an image of the BroadcastJob changes", first: named("image-changes"),
			edit: set(broadcast+".spec.template.spec.containers", "[{name: clean, image: other}]"),
			says: []string{"broadcastJobTemplate cannot change"}},
		{name: "the Job changes", first: all(named("job-changes"), set(template, jobOfBatch)),
			edit: set(template+".jobTemplate.spec.backoffLimit", "3"),
			says: []string{template + ".jobTemplate", "jobTemplate cannot change"}},
		{name: "another template", first: named("other-template"), edit: set(template, jobOfBatch),
			says: []string{"broadcastJobTemplate cannot change"}},
	}
	for schedule, taken := range map[string]bool{
		"* * * * *": true, "*/5 0-23/2 1,15 jan-dec MON-fri": true, "0  12\\t? * 0": true, "05 07 01 01 6": true,
		"@hourly": true, "@every 1h30m": true, "TZ=Asia/Tokyo 0 0 * * *": true, "CRON_TZ=Etc/GMT-3 @daily": true,
		"": false, "* * * *": false, "* * * * * *": false, "60 * * * *": false, "* 24 * * *": false, "* * 0 * *": false,
		"* * 32 * *": false, "* * * 13 *": false, "* * * * 7": false, "@fortnightly": false, "@every day": false,
		"*/0 * * * *": false, "at noon": false, "1- * * * *": false, "TZ= * * * * *": false,
	} {
		row := rule{name: "schedule " + schedule, edit: set("spec.schedule", `"`+schedule+`"`)}
		if !taken {
			row.says = []string{"spec.schedule", "schedule " + schedule + " is no schedule of cron", "such as 30 2 * * 1-5"}
		}
		rows = append(rows, row)
	}
	s.check(t, advancedCronJob, rows)
}

// testAdvancedCronJobRulesOfV1beta1 checks the template that v1alpha1 lacks.
func testAdvancedCronJobRulesOfV1beta1(t *testing.T, s *server) {
	const images = "spec.template.imageListPullJobTemplate.spec"
	template := set("spec.template", imageListTemplate)
	s.check(t, advancedCronJob, []rule{
		{name: "images", edit: template},
		{name: "images by Allow", edit: all(template, set("spec.concurrencyPolicy", "Allow")),
			says: []string{"spec.concurrencyPolicy", "Allow does not go with imageListPullJobTemplate",
				"use Replace or Forbid"}},
		{name: "images by Replace", edit: all(template, set("spec.concurrencyPolicy", "Replace"))},
		{name: "images may change", first: all(named("images-change"), template), edit: set(images+".images", "[a, b]")},
		{name: "no images", edit: all(template, set(images+".images", "[]")),
			says: []string{images + ".images", "at least 1"}},
		{name: "an image twice", edit: all(template, set(images+".images", "[a, a]")),
			says: []string{images + ".images[1]", "Duplicate"}},
		{name: "Never", edit: all(template, set(images+".completionPolicy", "{type: Never}")),
			says: []string{images + ".completionPolicy.type", "Never does not go with a schedule", "use Always"}},
		{name: "a time to live", edit: all(template, set(images+".completionPolicy", "{ttlSecondsAfterFinished: 5}")),
			says: []string{images + ".completionPolicy.ttlSecondsAfterFinished", "cannot be set in a schedule", "remove it"}},
		{name: "a deadline above the timeout",
			edit: all(template, set(images+".completionPolicy", "{activeDeadlineSeconds: 601}"))},
		{name: "a deadline of the default timeout",
			edit: all(template, set(images+".completionPolicy", "{activeDeadlineSeconds: 600}")),
			says: []string{images + ".completionPolicy.activeDeadlineSeconds", "activeDeadlineSeconds is 600",
				"greater than pullPolicy.timeoutSeconds, which is 600"}},
		{name: "a deadline of the timeout", edit: all(template, set(images+".pullPolicy", "{timeoutSeconds: 30}"),
			set(images+".completionPolicy", "{activeDeadlineSeconds: 30}")), says: []string{"which is 30"}},
		{name: "two selectors",
			edit: all(template, set(images+".selector", "{names: [a]}"), set(images+".podSelector", "{}")),
			says: []string{images + ".podSelector", "selector and podSelector are both given"}},
		{name: "unknown pull policy", edit: all(template, set(images+".imagePullPolicy", "Never")),
			says: []string{images + ".imagePullPolicy", `"Never"`}},
	})
}
