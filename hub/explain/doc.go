// Package explain answers why: why a cell has its number, why replicas have no cell, why a member has nothing.
//
// Answers come from what is recorded (the reasons of a WorkloadPlacement, the conditions of the user's object). What is
// not recorded, a member without a cell, is judged as it stands now, by the rules of package placement, and is marked
// so. The package is pure: facts in, an [Answer] out.
package explain
