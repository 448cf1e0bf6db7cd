package console

import (
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// TestFlagError holds that a wrong value of a flag is answered in words of the command line.
func TestFlagError(t *testing.T) {
	for arg, want := range map[string]string{
		"--number=two": `--number "two": it must be a whole number`,
		"--dry=maybe":  `--dry "maybe": it must be true or false`,
		"--time=10":    `--time "10": it must be a duration, as 90s or 10m`,
		"--more":       "unknown flag: --more",
	} {
		flags := pflag.NewFlagSet("verb", pflag.ContinueOnError)
		flags.Int64("number", 0, "")
		flags.Bool("dry", false, "")
		flags.Duration("time", time.Second, "")
		if err := FlagError(flags.Parse([]string{arg})); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", arg, err, want)
		}
	}
}
