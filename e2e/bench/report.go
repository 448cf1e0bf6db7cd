package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// figure is one measured quantity; with several runs it has several values.
type figure struct {
	Section string `json:"section"`
	Name    string `json:"name"`
	// Column makes a section a matrix: one line per name, one column per value of this.
	Column string    `json:"column,omitempty"`
	Unit   string    `json:"unit"`
	Values []float64 `json:"values"`
	// Floors holds, per run, what the same took without Flotilla; Floor says how.
	Floor  string    `json:"floor,omitempty"`
	Floors []float64 `json:"floors,omitempty"`
}

// report collects figures in the order in which they came first.
type report struct {
	figures []*figure
	// tables are texts by title, the newest run wins: request counts.
	titles []string
	tables map[string]string
}

func newReport() *report { return &report{tables: map[string]string{}} }

// add records one value of a figure.
func (r *report) add(section, name, unit string, value float64) {
	f := r.figure(section, name, unit, "")
	f.Values = append(f.Values, value)
}

// addWithFloor records one value together with what floor took in the same run.
func (r *report) addWithFloor(section, name, unit string, value float64, floor string, floorValue float64) {
	f := r.figure(section, name, unit, floor)
	f.Values, f.Floors = append(f.Values, value), append(f.Floors, floorValue)
}

// addCell records one value of a section that is a matrix.
func (r *report) addCell(section, row, column, unit string, value float64) {
	i := slices.IndexFunc(r.figures, func(f *figure) bool {
		return f.Section == section && f.Name == row && f.Column == column && f.Unit == unit
	})
	if i < 0 {
		r.figures = append(r.figures, &figure{Section: section, Name: row, Column: column, Unit: unit})
		i = len(r.figures) - 1
	}
	r.figures[i].Values = append(r.figures[i].Values, value)
}

// table records a text to print below the figures.
func (r *report) table(title, text string) {
	if _, known := r.tables[title]; !known {
		r.titles = append(r.titles, title)
	}
	r.tables[title] = text
}

func (r *report) figure(section, name, unit, floor string) *figure {
	i := slices.IndexFunc(r.figures, func(f *figure) bool {
		return f.Section == section && f.Name == name && f.Floor == floor
	})
	if i < 0 {
		r.figures = append(r.figures, &figure{Section: section, Name: name, Unit: unit, Floor: floor})
		i = len(r.figures) - 1
	}
	return r.figures[i]
}

// write prints the report as a table for people or as JSON.
func (r *report) write(out io.Writer, format string) error {
	if format == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(map[string]any{
			"cpus": runtime.NumCPU(), "go": runtime.Version(), "figures": r.figures, "tables": r.tables,
		})
	}
	fmt.Fprintf(out, "%d CPUs, %s\n", runtime.NumCPU(), runtime.Version())
	// One table for each section, so that a long name widens its own section only.
	var sections []string
	bySection := map[string][]*figure{}
	for _, f := range r.figures {
		if _, known := bySection[f.Section]; !known {
			sections = append(sections, f.Section)
		}
		bySection[f.Section] = append(bySection[f.Section], f)
	}
	for _, name := range sections {
		write := writeSection
		if bySection[name][0].Column != "" {
			write = writeMatrix
		}
		if err := write(out, name, bySection[name]); err != nil {
			return err
		}
	}
	for _, title := range r.titles {
		fmt.Fprintf(out, "\n%s\n%s", title, r.tables[title])
	}
	return nil
}

func writeSection(out io.Writer, section string, figures []*figure) error {
	fmt.Fprintf(out, "\n%s\n", section)
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, f := range figures {
		line := []string{"  " + f.Name, spread(f.Values) + " " + f.Unit, "", ""}
		if len(f.Floors) > 0 {
			line[2], line[3] = fmt.Sprintf("× %.2f", f.ratio()), fmt.Sprintf("of %s %s (%s)", spread(f.Floors), f.Unit, f.Floor)
		}
		fmt.Fprintln(table, strings.TrimRight(strings.Join(line, "\t"), "\t "))
	}
	return table.Flush()
}

// writeMatrix prints a section whose figures have a row and a column.
func writeMatrix(out io.Writer, section string, figures []*figure) error {
	var rows, columns []string
	cells := map[[2]string]string{}
	for _, f := range figures {
		column := f.Column
		if f.Unit != "" {
			column += " (" + f.Unit + ")"
		}
		if !slices.Contains(rows, f.Name) {
			rows = append(rows, f.Name)
		}
		if !slices.Contains(columns, column) {
			columns = append(columns, column)
		}
		cells[[2]string{f.Name, column}] = spread(f.Values)
	}
	fmt.Fprintf(out, "\n%s\n", section)
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(table, "  \t%s\n", strings.Join(columns, "\t"))
	for _, row := range rows {
		line := []string{"  " + row}
		for _, column := range columns {
			line = append(line, cells[[2]string{row, column}])
		}
		fmt.Fprintln(table, strings.Join(line, "\t"))
	}
	return table.Flush()
}

// ratio is the median of value/floor, run by run: both saw the same machine.
func (f *figure) ratio() float64 {
	ratios := make([]float64, min(len(f.Values), len(f.Floors)))
	for i := range ratios {
		ratios[i] = f.Values[i] / f.Floors[i]
	}
	return median(ratios)
}

// spread prints one value, or the median and the range of several.
func spread(values []float64) string {
	text := number(median(values))
	if len(values) > 1 {
		text += fmt.Sprintf(" [%s–%s]", number(slices.Min(values)), number(slices.Max(values)))
	}
	return text
}

// number prints three significant digits, and whole numbers from 100 on.
func number(v float64) string {
	switch size := math.Abs(v); {
	case v == math.Trunc(v) || size >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case size >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case size >= 1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	default:
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if len(sorted) == 0 {
		return math.NaN()
	}
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// percentile returns the smallest value that at least p percent of values do not exceed.
func percentile(values []float64, p float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if len(sorted) == 0 {
		return math.NaN()
	}
	return sorted[max(int(math.Ceil(p/100*float64(len(sorted)))), 1)-1]
}
