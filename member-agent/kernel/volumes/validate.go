package volumes

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/conditions"
)

// ReasonInvalid is why a workload with unusable claim templates stands still.
const ReasonInvalid = "InvalidVolumeClaimTemplates"

// InstanceIDLength is published: names and labels of others rely on five characters.
const InstanceIDLength = 5

// Validate returns what is wrong with the claim templates of the set with this name, or nil. What a claim's name or a
// pod's volume cannot be, and what the API server refuses of every claim, is said before the first one is made.
func Validate(set string, templates []corev1.PersistentVolumeClaim) *conditions.Cause {
	seen := map[string]bool{}
	for i := range templates {
		t := &templates[i]
		at := fmt.Sprintf("volumeClaimTemplates[%d]", i)
		storage := t.Spec.Resources.Requests[corev1.ResourceStorage]
		switch {
		case t.Name == "":
			return invalid("%s has no name: set metadata.name to the name of the volume that containers mount", at)
		case seen[t.Name]:
			return invalid("%s is named %q like one before it: give each claim template its own name", at, t.Name)
		case len(validation.IsDNS1123Label(t.Name)) > 0:
			return invalid(
				"%s is named %q, which cannot be the name of a volume: use at most %d lower-case letters, digits and '-'",
				at,
				t.Name,
				validation.DNS1123LabelMaxLength,
			)
		case len(Name(t.Name, set, strings.Repeat("x", InstanceIDLength))) > validation.DNS1123SubdomainMaxLength:
			return invalid(
				"claims \"<claim template>-<name>-<instance id>\" of %s would have names of %d characters, and %d are allowed: "+
					"shorten the name %q, or that of the claim template, %q",
				at,
				len(t.Name)+len(set)+InstanceIDLength+2,
				validation.DNS1123SubdomainMaxLength,
				set,
				t.Name,
			)
		case len(t.Spec.AccessModes) == 0:
			return invalid("%s (%s) has no access mode: set spec.accessModes, for example to [ReadWriteOnce]", at, t.Name)
		case storage.Sign() <= 0:
			return invalid("%s (%s) asks for no storage: set spec.resources.requests.storage, for example to 1Gi", at, t.Name)
		}
		seen[t.Name] = true
	}
	return nil
}

func invalid(format string, args ...any) *conditions.Cause {
	return &conditions.Cause{Reason: ReasonInvalid, Message: fmt.Sprintf(format, args...)}
}

// Conflict is a claim that has the name of one of the set's and belongs to somebody else. As an error it is a sentence.
type Conflict struct {
	Claim *corev1.PersistentVolumeClaim
	// Set is the kind and the name of the workload that wanted the name.
	Set string
}

// Error says whose the claim is and what to do.
func (c *Conflict) Error() string {
	owner := "nobody"
	if ref := metav1.GetControllerOfNoCopy(c.Claim); ref != nil {
		owner = ref.Kind + " " + ref.Name
	} else if refs := c.Claim.OwnerReferences; len(refs) > 0 {
		owner = refs[0].Kind + " " + refs[0].Name
	}
	return fmt.Sprintf(
		"claim %s/%s belongs to %s and not to %s, and is left alone: delete it if nobody needs it, or rename the claim "+
			"template",
		c.Claim.Namespace,
		c.Claim.Name,
		owner,
		c.Set,
	)
}
