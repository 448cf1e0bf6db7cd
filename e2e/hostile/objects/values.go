package objects

import (
	"math"
	"strings"
)

// junk returns a value of any type.
func (g *Generator) junk() any {
	switch g.draw.IntN(9) {
	case 0:
		return nil
	case 1:
		return g.one(2)
	case 2, 3:
		return g.number()
	case 4:
		return g.text()
	case 5:
		return g.percent()
	case 6:
		return []any{g.text(), g.number(), nil, map[string]any{}}
	case 7:
		return g.nested()
	default:
		return map[string]any{g.text(): g.text(), "name": g.text(), "replicas": g.number()}
	}
}

// number returns a number that is at some edge.
func (g *Generator) number() any {
	all := []any{
		int64(0), int64(1), int64(2), int64(3), int64(7), int64(100), int64(1000), int64(-1), int64(-100),
		int64(math.MaxInt32), int64(math.MaxInt32) + 1,
		int64(math.MinInt32), int64(math.MinInt32) - 1, int64(math.MaxInt64), int64(math.MinInt64), 0.5, -0.5, 1e18, 1e308,
		-1e308,
	}
	return all[g.draw.IntN(len(all))]
}

// percent returns what stands where a number or a percentage may.
func (g *Generator) percent() string {
	all := []string{
		"0%",
		"1%",
		"25%",
		"50%",
		"100%",
		"101%",
		"2147483647%",
		"99999999999999999999%",
		"-1%",
		"%",
		"1.5%",
		"1e3%",
		" 5%",
		"5 %",
		"٣%",
		"+5%",
		"10",
		"",
	}
	return all[g.draw.IntN(len(all))]
}

// long is the length of long texts: more than any name, and less than an object may have.
const long = 5000

// text returns a text that some reader may stumble over.
func (g *Generator) text() string {
	all := []string{
		"", "a", "api", "shop", "east", "web", "zone-a", "app", "topology.kubernetes.io/zone",
		"topology.flotilla.dev/cluster", "..", "../../etc/passwd", "/", "a/b/c", "CloneSet/shop/api",
		"CloneSet", "UnitedDeployment", "Node", "apps.kruise.io/v1beta1", "v1", "In", "NotIn", "Exists", "Gt", "Even",
		"Weighted", "Available", "Compact", "Replace", "Fence", "OnDelete", "InPlaceOnly",
		"{{.}}", "%s%n%d", "\x00", "\u202e", "\U0001F600", "\xff\xfe", "Robert'); DROP TABLE", "null", "true", "-1", "1h",
		"99999h", "-5s", "2026-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z",
		"10Gi", "1e30", "-1Mi", "1n", "999999999999999999999E", "~0~1", "$(POD_NAME)", "*", "kube-system", "flotilla-system",
		strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a.", 127),
	}
	if g.one(50) {
		return strings.Repeat("x", long)
	}
	return all[g.draw.IntN(len(all))]
}

// nested returns lists in lists.
func (g *Generator) nested() any {
	var value any = g.text()
	for range 1 + g.draw.IntN(60) {
		if g.one(2) {
			value = []any{value}
		} else {
			value = map[string]any{"a": value}
		}
	}
	return value
}
