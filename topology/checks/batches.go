package checks

import (
	"fmt"

	apps "github.com/flotilla-dev/flotilla/apis/apps/v1beta1"
)

// CorrectCheck is the remedy of an expression in a check of batches that cannot be used.
const CorrectCheck = "correct the check"

// InvalidInBatches returns what is wrong with the expressions of checks after batches, "" if nothing is.
func InvalidInBatches(batches *apps.BroadcastJobBatches) string {
	if batches == nil {
		return ""
	}
	for i := range batches.Checks {
		check := &batches.Checks[i]
		var why string
		switch {
		case check.Expression != "":
			why = Invalid(check.Expression, CorrectCheck, "node", "pods")
		case check.HTTP != nil && check.HTTP.Expression != "":
			why = Invalid(check.HTTP.Expression, CorrectCheck, "json", "status", "text")
		}
		if why != "" {
			return fmt.Sprintf("check %s: %s", check.Name, why)
		}
	}
	return ""
}
