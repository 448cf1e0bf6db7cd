// Package conversion converts the kinds of apps.kruise.io from v1alpha1 to v1beta1 and back, without loss, in pure
// functions.
//
// Objects are converted as they are on the wire, not as Go types: fields of pod templates that this program does not
// know yet, and spellings such as cpu: 0.5, go through unchanged.
//
// The rule. Up makes v1beta1 of v1alpha1 and Down the reverse, field by field. What the object said beyond that, the
// remainder, travels in an annotation of ours on the result: RemainderOfV1beta1 on a v1alpha1 object,
// RemainderOfV1alpha1 on a v1beta1 object. On the way back the remainder is put in again, wherever the version that
// carried it cannot see the difference: the visible field wins, because only a change of it would make the difference
// visible. What is put in for one field of spec (updateStrategy, say) is put in whole or not at all. An object that
// needs no remainder has no annotation.
//
// Example. A v1beta1 CloneSet has updateStrategy {type: OnDelete, rollingUpdate: {podUpdatePolicy: InPlaceIfPossible,
// partition: 2}}. In v1alpha1 it is {type: OnDelete, partition: 2}, and the remainder says podUpdatePolicy: type has no
// room for it beside OnDelete. Written back with another partition it has its podUpdatePolicy again, since v1alpha1
// looks the same with it. Written back with type ReCreate it is {type: RollingUpdate, rollingUpdate: {podUpdatePolicy:
// ReCreate, partition: 2}}: with the remainder v1alpha1 would show InPlaceIfPossible, which nobody wrote, so the
// remainder is left out.
//
// Who asks. The API server asks for every request of v1alpha1, and for v1beta1 where an object is stored as v1alpha1
// (by an OpenKruise before v1beta1 was stored) or was written by v1alpha1 clients, whose managed fields it keeps up to
// date at each write. An object that is stored as v1beta1 but in the shape of v1alpha1 is not converted: what is not in
// v1beta1's schema is gone when it is read, and a policy as updateStrategy.type stays and does nothing until somebody
// corrects it.
//
// What an object cannot smuggle. Anybody who may write an object may write its annotations. A remainder reaches spec,
// status, labels and annotations only, changes nothing that the version of the writer shows, and is left out if the
// result were no object that Go clients can read. The rules of a definition do not see what a remainder carries: a
// controller must expect, for example, reserveOrdinals of a StatefulSet that are no numbers and no ranges.
package conversion
