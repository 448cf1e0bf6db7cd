package expr_test

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/flotilla-dev/flotilla/member-agent/kernel/expr"
)

func TestValue(t *testing.T) {
	for _, tt := range []struct{ text, variable, value, want string }{
		{"cpu", "cpu", "200m", "200m"},
		{"cpu*50%", "cpu", "600m", "300m"},
		{"max(cpu*50%, 50m)", "cpu", "20m", "50m"},
		{"max(cpu*50%, 50m)", "cpu", "200m", "100m"},
		{"min(memory, 200Mi) / 2", "memory", "1Gi", "100Mi"},
		{" ( cpu + 100m ) * 2 ", "cpu", "50m", "300m"},
		{"cpu / 3", "cpu", "1", "333m"},
		{"200Mi", "memory", "0", "200Mi"},
		{"2", "cpu", "5", "2"},
		{"max(1, cpu)", "cpu", "500m", "1"},
		{"cpu - 100m - 50m", "cpu", "1", "850m"},
		{"-cpu + 2", "cpu", "500m", "1500m"},
		{"2 + 3 * 4", "cpu", "0", "14"},
		{"cpu * 1e3", "cpu", "1m", ""}, // 1e3 is a quantity
		{"memory*1.5", "memory", "100Mi", "150Mi"},
		{"max(min(cpu, 4), 100m)", "cpu", "8", "4"},
		{"12.5% * cpu", "cpu", "8", "1"},
		{"memory*10%", "memory", "1Ki", "102400m"},
	} {
		t.Run(tt.text, func(t *testing.T) {
			e, err := expr.Parse(tt.text, tt.variable)
			if tt.want == "" {
				if err == nil {
					t.Error("it was parsed")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got, err := e.Value(resource.MustParse(tt.value))
			if want := resource.MustParse(tt.want); err != nil || got.Cmp(want) != 0 {
				t.Errorf("%s, %v, want %s", got.String(), err, tt.want)
			}
		})
	}
}

func TestMistakesHavePositions(t *testing.T) {
	for _, tt := range []struct {
		text     string
		position int
		says     string
	}{
		{"", 1, "ends too early"},
		{"cpu +", 6, "ends too early"},
		{"cpu cpu", 5, `"cpu" does not continue`},
		{"memory", 1, "memory is not known: use cpu"},
		{"cpu*cpu", 4, "multiplied by a quantity"},
		{"2 / 50m", 3, "divided by a quantity"},
		{"cpu / (1 - 1)", 5, "divided by 0"},
		{"max(cpu)", 8, "two arguments"},
		{"max(1, 2, 3)", 9, "closing parenthesis"},
		{"max", 1, "no arguments"},
		{"(cpu", 5, "closing parenthesis is missing"},
		{"1.2.3", 1, `"1.2.3" is neither`},
		{"5Q", 1, `"5Q" is neither`},
		{"cpu $ 2", 5, `"$ 2" does not continue`},
		{strings.Repeat("(", 1000), 101, "too many parentheses"},
		{strings.Repeat("max(1,", 400) + "1", 599, "too many parentheses"},
	} {
		_, err := expr.Parse(tt.text, "cpu")
		var mistake *expr.Mistake
		if !errors.As(err, &mistake) || mistake.Position != tt.position || !strings.Contains(mistake.Reason, tt.says) {
			t.Errorf("%.20q: %v, want one at %d that says %q", tt.text, err, tt.position, tt.says)
		}
	}
}

func TestNegativeResultsAreErrors(t *testing.T) {
	e, err := expr.Parse("cpu - 1", "cpu")
	if err != nil {
		t.Fatal(err)
	}
	_, err = e.Value(resource.MustParse("500m"))
	if err == nil || !strings.Contains(err.Error(), "use max(cpu - 1, 0)") {
		t.Errorf("error %v", err)
	}
}

// TestHugeExponents: a few characters stand for more digits than the memory has.
func TestHugeExponents(t *testing.T) {
	for text, want := range map[string]bool{"1": true, "250m": true, "64Ei": true, "1e18": true, "1e999999999": false,
		"1e31": false} {
		if got := expr.Bounded(resource.MustParse(text)); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
	for _, text := range []string{"max(cpu, 1e999999999)", "1e-999999999", "1E+000100", "1e31"} {
		if _, err := expr.Parse(text, "cpu"); err == nil || !strings.Contains(err.Error(), "too large") {
			t.Errorf("%s: error %v", text, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"max(cpu*50%, 50m)", "1e9-2", "((", "-+-5%"} {
		f.Add(text)
	}
	f.Fuzz(func(_ *testing.T, text string) {
		if len(text) > 1024 {
			return
		}
		if e, err := expr.Parse(text, "cpu"); err == nil {
			_, _ = e.Value(resource.MustParse("1500m"))
		}
	})
}
