//go:build flotilla_clocks

package clocks

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestWrongClock holds that the calendar goes by the file, and differences do not.
func TestWrongClock(t *testing.T) {
	file := filepath.Join(t.TempDir(), "clock")
	t.Setenv(Variable, file)
	c := New()
	// without the readings
	by := func() time.Duration { return c.Now().Round(0).Sub(time.Now().Round(0)).Round(time.Minute) }
	before, began := c.Now(), time.Now()
	for _, offset := range []time.Duration{0, 7 * time.Minute, -3 * time.Hour} {
		if offset != 0 {
			if err := os.WriteFile(file, []byte(offset.String()+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if by() != offset {
			t.Errorf("the calendar is wrong by %s, want %s", by(), offset)
		}
		least := time.Since(began)
		passed := c.Since(before)
		if most := time.Since(began.Add(-time.Second)); passed < least-time.Second || passed > most {
			t.Errorf("with %s, %s passed; of the machine, between %s and %s", offset, passed, least, most)
		}
	}
}
