package volumes

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/dump"
)

// AnnotationHash is on every revision, as published: Hash of the claim templates that it was made with.
const AnnotationHash = "kruise.io/cloneset-volumeclaimtemplate-hash"

// hashed is what the published hash sees of a claim template: name and spec, in the bytes that an API of that time had.
type hashed struct {
	Metadata struct {
		Name              string  `json:"name"`
		CreationTimestamp *string `json:"creationTimestamp"`
	} `json:"metadata"`
	Spec   corev1.PersistentVolumeClaimSpec `json:"spec"`
	Status struct{}                         `json:"status"`
}

// Hash returns the published hash of claim templates: a decimal number, the same in any order of the templates, and ""
// for none. Of a template only name and spec count.
func Hash(templates []corev1.PersistentVolumeClaim) string {
	if len(templates) == 0 {
		return ""
	}
	list := make([]hashed, len(templates))
	for i := range templates {
		list[i].Metadata.Name, list[i].Spec = templates[i].Name, templates[i].Spec
	}
	slices.SortStableFunc(list, func(a, b hashed) int { return cmp.Compare(a.Metadata.Name, b.Metadata.Name) })
	// Neither encoding these types nor writing to a hash can fail.
	text, _ := json.Marshal(list)
	sum := fnv.New32a()
	_, _ = fmt.Fprint(sum, dump.ForHash(text))
	return strconv.FormatUint(uint64(sum.Sum32()), 10)
}
