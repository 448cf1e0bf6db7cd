// Package budget turns what a user wrote (a number or a percentage) into numbers, with a stated rounding, and combines
// them into the limits of one workload. It is pure.
//
// The rule of the partition: a percentage rounds up, and less than 100 % leaves at least one pod to update when there
// is more than one. Example: 95 % of 10 rounds up to 10, so 9 pods are kept on the old revision, and one moves.
package budget
