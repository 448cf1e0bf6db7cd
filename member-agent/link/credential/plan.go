package credential

import (
	"fmt"
	"time"

	topology "github.com/flotilla-dev/flotilla/apis/topology/v1alpha1"
)

// by says with what a certificate is asked for.
type by int

const (
	// nothing is asked.
	nothing by = iota
	// token: the token for joining.
	token
	// itself: the certificate that is there.
	itself
)

// step is what is to be done about the certificate.
type step struct {
	// use: there is one that is good.
	use bool
	ask by
	// due is when it is to be asked for next, while nothing is asked.
	due time.Time
	// advice is what a person has to do, empty if nothing.
	advice string
}

const (
	// renewAt is which part of a certificate's life is over when the next one is asked for, in hundredths; renewJitter is
	// how much later it may be, so that a fleet that joined together does not renew together.
	renewAt     = 66
	renewJitter = 8
	// whole is all of it, in hundredths.
	whole = 100
)

// plan decides. have is nil if there is no certificate. spread is from 0 to 1 and stays the same for a certificate. It
// is pure.
func plan(now time.Time, join *Join, have *certificate, spread float64) step {
	user := topology.MemberUser(join.Name, join.UID)
	mayAsk := join.Token != "" && now.Before(join.Expires)
	if have == nil || have.user != user || !now.Before(have.until) {
		switch {
		case mayAsk:
			return step{ask: token}
		case have == nil:
			return step{
				advice: fmt.Sprintf(
					"the token for joining expired at %s before a person accepted this cluster; run flotilla join %s again",
					join.Expires.Format(time.RFC3339),
					join.Name,
				),
			}
		case have.user != user:
			return step{
				advice: fmt.Sprintf(
					"the %s is for %s, and this cluster joined as %s; run flotilla join %s again",
					have.kind(),
					have.user,
					user,
					join.Name,
				),
			}
		default:
			return step{
				use: true,
				advice: fmt.Sprintf(
					"the %s expired at %s; run flotilla join %s again",
					have.kind(),
					have.until.Format(time.RFC3339),
					join.Name,
				),
			}
		}
	}
	life := have.until.Sub(have.from)
	due := have.from.Add(time.Duration((renewAt + renewJitter*spread) / whole * float64(life)))
	if now.Before(due) {
		return step{use: true, due: due}
	}
	return step{use: true, ask: itself}
}
