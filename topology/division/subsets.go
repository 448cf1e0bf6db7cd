package division

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// Subsets is stage 1 alone: n over the subsets, in their order; current[i] is what subset i has now (missing ones count
// as 0) and decides ties only. The sum is n, or less if every subset has a max. Placed equals Replicas. The errors are
// those of [Divide].
func Subsets(n int32, subsets []Subset, current []int32) ([]SubsetShare, error) {
	if err := validateSubsets(n, subsets); err != nil {
		return nil, err
	}
	now := make([]int64, len(subsets))
	for i := range min(len(current), len(now)) {
		now[i] = int64(current[i])
	}
	shares, err := divideSubsets(n, subsets, now, func(int) bool { return true })
	for i := range shares {
		shares[i].Placed = shares[i].Replicas
	}
	return shares, err
}

// bounds are the numbers of a subset, resolved for one n. fixed: the user gave replicas, then min = max = replicas.
type bounds struct {
	min, max int64
	fixed    bool
	open     bool // neither replicas, min nor max
}

// divideSubsets is stage 1 for checked input. hasCell tells whether any cell belongs to subset i.
func divideSubsets(n int32, subsets []Subset, current []int64, hasCell func(int) bool) ([]SubsetShare, error) {
	all := make([]bounds, len(subsets))
	ranges := false
	for i, s := range subsets {
		b, err := resolveBounds(int64(n), s)
		if err != nil {
			return nil, err
		}
		all[i] = b
		ranges = ranges || !b.fixed && !b.open
	}
	shares := make([]SubsetShare, len(subsets))
	for i, s := range subsets {
		shares[i].Name = s.Name
	}
	if ranges {
		fillInOrder(int64(n), all, subsets, shares, hasCell)
	} else {
		fillSpecified(int64(n), all, subsets, shares, current, hasCell)
	}
	return shares, nil
}

// fillInOrder gives every subset its floor in order, then what is left up to the ceilings, in order again.
func fillInOrder(n int64, all []bounds, subsets []Subset, shares []SubsetShare, hasCell func(int) bool) {
	for i := range all {
		give := min(all[i].min, n)
		shares[i].Replicas = int32(give)
		shares[i].Reason = rangeReason(subsets[i])
		n -= give
		if !hasCell(i) {
			all[i].max = all[i].min
			if all[i].min == 0 {
				shares[i].Reason = Reason{Code: SubsetNoCell}
			}
		}
	}
	for i := range all {
		give := min(all[i].max-all[i].min, n)
		shares[i].Replicas += int32(give)
		n -= give
	}
}

// fillSpecified gives the specified subsets their numbers and shares the rest evenly among the open ones.
func fillSpecified(
	n int64,
	all []bounds,
	subsets []Subset,
	shares []SubsetShare,
	current []int64,
	hasCell func(int) bool,
) {
	var specified, open []int
	var sum int64
	for i := range all {
		if all[i].open {
			open = append(open, i)
		} else {
			specified = append(specified, i)
			sum += all[i].min
		}
	}
	if sum > n || len(open) == 0 && sum < n {
		for _, i := range open {
			shares[i].Reason = Reason{Code: SubsetEven}
		}
		splitByNumbers(n, specified, subsets, shares, current)
		return
	}
	for _, i := range specified {
		shares[i].Replicas = int32(all[i].min)
		shares[i].Reason = Reason{SubsetReplicas, map[string]string{"replicas": subsets[i].Replicas.String()}}
	}
	takers := slices.DeleteFunc(slices.Clone(open), func(i int) bool { return !hasCell(i) })
	if len(takers) == 0 {
		takers = open
	}
	for _, i := range open {
		shares[i].Reason = Reason{Code: SubsetNoCell}
	}
	// The odd replicas go to the end of this order: to the largest current number, then to the greatest name.
	slices.SortFunc(takers, func(a, b int) int {
		return cmp.Or(cmp.Compare(current[a], current[b]), strings.Compare(subsets[a].Name, subsets[b].Name))
	})
	for place, i := range takers {
		rest, k := n-sum, int64(len(takers))
		shares[i].Replicas = int32(rest / k)
		if int64(place) >= k-rest%k {
			shares[i].Replicas++
		}
		shares[i].Reason = Reason{Code: SubsetEven}
	}
}

// splitByNumbers takes the given numbers as weights, because they do not sum to n. An integer r weighs as much as r/n
// of a hundred percent would.
func splitByNumbers(n int64, specified []int, subsets []Subset, shares []SubsetShare, current []int64) {
	entries := make([]Entry, len(specified))
	for place, i := range specified {
		value := subsets[i].Replicas
		weight := int64(value.IntVal) * 100
		if value.Type == intstr.String {
			percent, _ := parsePercent(value.StrVal) // checked by resolveBounds
			weight = percent * max(n, 1)
		}
		entries[place] = Entry{Weight: weight, Max: Unbounded, Current: current[i], Key: subsets[i].Name}
		shares[i].Reason = Reason{SubsetSumMismatch, map[string]string{"replicas": value.String()}}
	}
	// Current decides ties only: the numbers are what the user asked for, so they win over what runs.
	split, _ := Proportional(n, entries)
	for place, i := range specified {
		shares[i].Replicas = int32(split[place])
	}
}

func rangeReason(s Subset) Reason {
	if s.Replicas != nil {
		return Reason{SubsetReplicas, map[string]string{"replicas": s.Replicas.String()}}
	}
	params := map[string]string{}
	if s.Min != nil {
		params["min"] = s.Min.String()
	}
	if s.Max != nil {
		params["max"] = s.Max.String()
	}
	return Reason{SubsetRange, params}
}

// resolveBounds turns the numbers of one subset into integers for n.
func resolveBounds(n int64, s Subset) (bounds, error) {
	b := bounds{max: math.MaxInt32}
	var err error
	owner := "subset " + strconv.Quote(s.Name)
	if s.Replicas != nil {
		if b.min, err = resolve(n, owner, "replicas", s.Replicas); err != nil {
			return bounds{}, err
		}
		b.max, b.fixed = b.min, true
		return b, nil
	}
	b.open = s.Min == nil && s.Max == nil
	if s.Min != nil {
		if b.min, err = resolve(n, owner, "min", s.Min); err != nil {
			return bounds{}, err
		}
	}
	if s.Max != nil {
		if b.max, err = resolve(n, owner, "max", s.Max); err != nil {
			return bounds{}, err
		}
	}
	// An integer against a percentage crosses for some n only: then the ceiling holds, and no n is left without an answer.
	b.min = min(b.min, b.max)
	return b, nil
}

// resolve returns value for n, half rounding up; owner and field name it in an error.
func resolve(n int64, owner, field string, value *intstr.IntOrString) (int64, error) {
	if value.Type == intstr.Int {
		if value.IntVal < 0 {
			return 0, fmt.Errorf("%s: %s %d is negative: use 0 or more", owner, field, value.IntVal)
		}
		return int64(value.IntVal), nil
	}
	percent, ok := parsePercent(value.StrVal)
	if !ok {
		return 0, fmt.Errorf(
			"%s: %s %q is no percentage: use an integer, or an integer from 0 to 100 with a %% sign",
			owner,
			field,
			value.StrVal,
		)
	}
	return (n*percent + 50) / 100, nil
}

// parsePercent reads "0%" to "100%".
func parsePercent(s string) (int64, bool) {
	digits, ok := strings.CutSuffix(s, "%")
	if !ok || digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	percent, err := strconv.ParseInt(digits, 10, 64)
	return percent, err == nil && percent <= 100
}
