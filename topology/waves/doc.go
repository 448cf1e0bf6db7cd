// Package waves says which part of a workload may get a new template now, where the policy lists waves. It is pure.
//
// A place is a subset in a cluster. A wave selects places, and of their pods a number (its size). The wave under way
// and the waves before it give each place a ceiling: the most pods of it that may run the new template. The partition,
// maxUnavailable and maxSurge of the workload hold below it (package lending): a ceiling permits nothing by itself.
//
// # The rules
//
//   - A new template begins at wave one. The first template of a workload has no waves: there is nothing to compare it
//     with. Nor has the one that the newest update leaves, if it comes back, also after the waves are over: what waves
//     keep from most pods is what is not proven, and in a change back that is what runs. It is taken back wherever it
//     is, within the limits of the workload. Going forth again goes in waves.
//   - A wave is settled when each of its places whose member is heard has as many updated and available pods as its
//     ceiling says. When that ceases to be, before the next wave begins, it is not settled any more, and its soak
//     begins anew. Time in which nobody watched does not count for the soak: in which the hub was away, or a member of
//     the wave was not heard of. A soak ends with news of each of the wave's members that are later than its end: it
//     takes 40 s until a member that is cut off is found so, and a shorter soak would be over before.
//   - The next wave begins when the wave was settled for as long as its soak, its checks hold, and a person has
//     approved it where it asks for that. After the last wave all that is left may be updated.
//   - A check is an expression, an answer by HTTP or a Job. Questions are asked, and Jobs run, from when the wave is
//     settled; where it ceases to be settled, they begin anew. An answer of before does not count.
//   - A wave fails when it is not settled within its timeout, an expression does not hold for longer than its patience,
//     answers do not hold more often in a row than their limit, or a Job fails in one of its members that is not lost.
//     Then nothing is updated any more until a person approves it (the next wave begins), or has it tried again.
//   - With onFailure Rollback a failed update is taken back: members get the template that it leaves, until the
//     workload gets another one or a person has this one tried again, which begins at wave one.
//   - An approval stands for soak, checks and members that are lost, and for a wave that has failed. It names update
//     and wave, so that it holds for no other, nor for a later update to the same template.
//   - While the workload is paused, or its partition does not let the wave be updated whole, the wave is held: its
//     times do not run, and begin anew afterwards.
//   - A ceiling follows replicas: scaling, and a member that joins or returns, never lead to an earlier wave. The new
//     pods of a wave that is over may be updated. Where replicas move between the places of a wave, its number is not
//     given twice.
//   - A lost member is not waited for: the wave goes on without it, and its pods are updated when it returns. A wave
//     all of whose members are lost proves nothing: it waits for one of them, or for a person.
//   - A wave that selects no place waits for a person, since a slip of the pen would skip a canary. One whose places
//     have no replicas is over at once.
//   - The policy's waves may change meanwhile. The wave under way is found again by its name, or else by its number.
//     What a place was given it keeps.
//
// # Batches of a job
//
// A job touches each node once. A batch is a number of nodes of all places together, on top of those of the batches
// before it, and is settled when their pods have ended and the checks in the members hold. How many nodes a batch may
// touch is settled when it begins: nodes that come later are in a later batch, and nodes that go make room for no
// others. The last batch soaks too, and nodes that come after it make another one.
//
// # Worked example
//
// Clusters east, south and west have 10 pods each. Wave "canary" is east with size 20% and soak 10m, wave "east" is
// east, and nothing names the rest. A new template: the ceilings are 2/0/0. At 15:04 both pods are updated and
// available: the wave is settled, and the next time to look is 15:14. Then "east" begins: 10/0/0. It has no soak, so
// once its ten pods are updated and available the waves are over, and south and west are updated alongside each other.
package waves
