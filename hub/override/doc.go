// Package override changes the manifest of a member by the overrides of a policy. It is pure.
//
// [For] says which entries hold for a member, [Hash] names them in a placement, and [Apply] carries them out on the
// member's manifest after the hub has put its numbers in. What an entry may not touch is compared before and after, so
// that no way of writing a patch gets around it: a [Misfit] says which entry it was.
package override
