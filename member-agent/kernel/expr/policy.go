package expr

import (
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// Entry is an expression of a resourcesPolicy.
type Entry struct {
	Resource corev1.ResourceName
	// Limit: it computes a limit, else a request.
	Limit bool
	Text  string
	path  string
}

// Of returns the expressions of a policy that are not empty.
func Of(policy *v1beta1.ResourcesPolicy) []Entry {
	var out []Entry
	add := func(exprs *v1beta1.ResourceExprs, limit bool, path string) {
		if exprs == nil {
			return
		}
		for _, e := range []Entry{
			{corev1.ResourceCPU, limit, exprs.CPU, path + ".cpu"},
			{corev1.ResourceMemory, limit, exprs.Memory, path + ".memory"},
		} {
			if e.Text != "" {
				out = append(out, e)
			}
		}
	}
	add(policy.ResourcesExpr.Limits, true, "resourcesExpr.limits")
	add(policy.ResourcesExpr.Requests, false, "resourcesExpr.requests")
	return out
}

// Names returns the expression that selects the target containers of a policy by their names.
func Names(policy *v1beta1.ResourcesPolicy) (*regexp.Regexp, error) {
	names, err := regexp.Compile(policy.TargetContainersNameRegex) // "" matches all
	if err != nil {
		return nil, fmt.Errorf("targetContainersNameRegex cannot be used: %w", err)
	}
	return names, nil
}

// Check returns the first resourcesPolicy of a SidecarSet that cannot be computed, with its field, nil for none.
func Check(spec *v1beta1.SidecarSetSpec) error {
	path := field.NewPath("spec")
	if err := checkAll(path.Child("containers"), spec.Containers); err != nil {
		return err
	}
	return checkAll(path.Child("initContainers"), spec.InitContainers)
}

func checkAll(path *field.Path, list []v1beta1.SidecarContainer) error {
	for i := range list {
		policy := list[i].ResourcesPolicy
		if policy == nil {
			continue
		}
		if err := check(policy); err != nil {
			return fmt.Errorf("%s: %w", path.Index(i).Child("resourcesPolicy"), err)
		}
	}
	return nil
}

func check(policy *v1beta1.ResourcesPolicy) error {
	if _, err := Names(policy); err != nil {
		return err
	}
	for _, e := range Of(policy) {
		if _, err := Parse(e.Text, string(e.Resource)); err != nil {
			return fmt.Errorf("%s: %w", e.path, err)
		}
	}
	return nil
}
