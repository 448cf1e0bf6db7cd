package history

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Hash returns the short hash of a revision's data: up to ten characters that are safe in labels and names. It is the
// hash that Kubernetes gives ControllerRevisions, so existing names are found again. A collision count that is not nil
// is hashed too, and moves a new revision off a name that is taken.
func Hash(data []byte, collisionCount *int32) string {
	sum := fnv.New32()
	// Write of a hash never fails.
	_, _ = sum.Write(data)
	if collisionCount != nil {
		_, _ = sum.Write([]byte(strconv.FormatInt(int64(*collisionCount), 10)))
	}
	return rand.SafeEncodeString(fmt.Sprint(sum.Sum32()))
}

// maxOwnerInName is how much of the owner's name a revision's name keeps, so that with "-" and the hash it stays a
// legal label value next to prefixes. Kubernetes uses the same number.
const maxOwnerInName = 223

// Name returns the name of the revision with this hash.
func Name(owner, hash string) string {
	if len(owner) > maxOwnerInName {
		owner = owner[:maxOwnerInName]
	}
	return owner + "-" + hash
}

// Form is how a pod's label names its revision.
type Form int

// FullForm is the revision's name, as published. ShortForm is its hash alone, as installations of OpenKruise with the
// gate CloneSetShortHash write it.
const (
	FullForm Form = iota
	ShortForm
)

// FormOf returns the form of a label's value. Names have a dash between the owner and the hash; hashes have none.
func FormOf(label string) Form {
	if label != "" && !strings.Contains(label, "-") {
		return ShortForm
	}
	return FullForm
}

// Label returns the value in this form for the revision with this name and hash. A name that is too long for a label
// gives the hash whatever the form.
func (f Form) Label(name, hash string) string {
	if f == ShortForm || len(name) > validation.LabelValueMaxLength {
		return hash
	}
	return name
}
