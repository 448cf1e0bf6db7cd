package dashboard

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/tree"
	"github.com/flotilla-dev/flotilla/hub/explain"
)

// How much one view has at most, so that a page stays small whatever the fleet is.
const (
	pageOfWorkloads = 20
	pageOfNeeds     = 6
	pageOfParts     = 20
	// mostSquares is the number of members up to which each has a square; more are counted by region and zones.
	mostSquares = 200
	mostGroups  = 60
	// mostUnread and mostNamespaces are how many of each are named; mostText is how many characters a text has.
	mostUnread     = 8
	mostNamespaces = 50
	mostText       = 400
)

// query is what a page asks for.
type query struct {
	// Namespace and Text filter the workloads and the needs; NotWell leaves out workloads that need nothing.
	Namespace, Text string
	NotWell         bool
	// Group is the group of members whose squares are shown, Open the key of the workload that is shown in full.
	Group, Open string
	// The pages of the three lists, from 0.
	Page, NeedsPage, OpenPage int
}

// readQuery reads a query from the parameters of a request. Values that make no sense count as absent.
func readQuery(from url.Values) query {
	page := func(name string) int {
		n, err := strconv.Atoi(from.Get(name))
		if err != nil {
			return 0
		}
		return max(n, 0)
	}
	text := func(name string) string { return clip(from.Get(name)) }
	return query{
		Namespace: text("ns"), Text: strings.ToLower(text("q")), NotWell: from.Get("only") == "notwell",
		Group: text("group"), Open: text("open"),
		Page: page("page"), NeedsPage: page("needs"), OpenPage: page("part"),
	}
}

// parts are a view: its parts by name, each as JSON. A list is a part with the names of its rows, and each row is a
// part, so that a change of one row is small.
type parts map[string]json.RawMessage

func (p parts) set(name string, value any) {
	data, err := json.Marshal(value)
	if err != nil {
		data = []byte("null") // no value of this package fails
	}
	p[name] = data
}

// head is what a page shows at its top.
type head struct {
	Hub        string   `json:"hub"`
	Loading    bool     `json:"loading,omitempty"`
	Failing    string   `json:"failing,omitempty"`
	Members    int      `json:"members"`
	Ready      int      `json:"ready"`
	Workloads  int      `json:"workloads"`
	Well       int      `json:"well"`
	Needs      int      `json:"needs"`
	Desired    int64    `json:"desired"`
	PodsReady  int64    `json:"podsReady"`
	Unknown    bool     `json:"unknown,omitempty"`
	Unread     []Unread `json:"unread,omitempty"`
	MoreUnread int      `json:"moreUnread,omitempty"`
	Namespaces []string `json:"namespaces"`
}

// list is a page of rows.
type list struct {
	Total int      `json:"total"`
	Page  int      `json:"page"`
	Pages int      `json:"pages"`
	Rows  []string `json:"rows"`
}

// paged returns a page of rows and its place in them: the last page if there are fewer.
func paged[T any](all []T, page, size int) ([]T, list) {
	l := list{Total: len(all), Pages: max(1, (len(all)+size-1)/size), Rows: []string{}}
	l.Page = min(page, l.Pages-1)
	return all[l.Page*size : min(len(all), (l.Page+1)*size)], l
}

// viewOf returns what a page shows of a fleet. It is pure; its size has a bound that no fleet exceeds.
func viewOf(f *Fleet, q query) parts {
	p := parts{}
	p.set("head", headOf(f))
	p.strip(f, q)
	p.needs(f, q)
	p.workloads(f, q)
	p.open(f, q)
	return p
}

func headOf(f *Fleet) head {
	h := head{
		Hub: clip(f.Hub), Loading: f.Loading, Failing: clip(f.Failing), Members: len(f.Members),
		Workloads: len(f.Workloads), Needs: len(f.needs), Unknown: f.unknown, Namespaces: []string{},
	}
	for i := range f.Members {
		if state := f.Members[i].State; state == "Ready" || state == Late {
			h.Ready++
		}
	}
	for i := range f.Workloads {
		w := &f.Workloads[i]
		if w.well() {
			h.Well++
		}
		if !w.noPods {
			h.Desired += int64(w.Pods.Desired)
			h.PodsReady += w.ready(f.unknown)
		}
		if n := len(h.Namespaces); n < mostNamespaces && (n == 0 || h.Namespaces[n-1] != w.Namespace) {
			h.Namespaces = append(h.Namespaces, clip(w.Namespace))
		}
	}
	for _, u := range f.Unread[:min(len(f.Unread), mostUnread)] {
		h.Unread = append(h.Unread, Unread{clip(u.What), clip(u.Why), strings.Join(whole(u.Command), "")})
	}
	h.MoreUnread = len(f.Unread) - len(h.Unread)
	return h
}

// strip is the part with the members: a square for each, or for each group of them.
type strip struct {
	Grouped bool   `json:"grouped,omitempty"`
	Group   string `json:"group,omitempty"`
	// More is how many have no square here.
	More int      `json:"more,omitempty"`
	Rows []string `json:"rows"`
}

// square is one member.
type square struct {
	Name  string `json:"name"`
	State string `json:"state"`
	Text  string `json:"text"`
}

// group are the members of one region and its zones.
type group struct {
	Name  string `json:"name"`
	Total int    `json:"total"`
	Bad   int    `json:"bad"`
}

func (p parts) strip(f *Fleet, q query) {
	s := strip{Rows: []string{}, Group: q.Group}
	if len(f.Members) > mostSquares && q.Group == "" {
		p.groups(f)
		return
	}
	for i := range f.Members {
		m := &f.Members[i]
		if q.Group != "" && groupOf(m) != q.Group {
			continue
		}
		if len(s.Rows) == mostSquares {
			s.More++
			continue
		}
		s.Rows = append(s.Rows, "m/"+m.Name)
		p.set("m/"+m.Name, square{Name: clip(m.Name), State: m.State, Text: clip(m.sentence())})
	}
	p.set("strip", s)
}

// groups adds the groups of members, those with the most members that are not Ready first.
func (p parts) groups(f *Fleet) {
	var all []group
	for i := range f.Members {
		m := &f.Members[i]
		if n := len(all); n == 0 || all[n-1].Name != groupOf(m) {
			all = append(all, group{Name: groupOf(m)})
		}
		last := &all[len(all)-1]
		last.Total++
		if m.State != "Ready" {
			last.Bad++
		}
	}
	slices.SortStableFunc(all, func(a, b group) int { return cmp.Compare(b.Bad, a.Bad) })
	s := strip{Grouped: true, Rows: []string{}, More: max(0, len(all)-mostGroups)}
	for _, g := range all[:min(len(all), mostGroups)] {
		s.Rows = append(s.Rows, "g/"+g.Name)
		p.set("g/"+g.Name, g)
	}
	p.set("strip", s)
}

// needRow is a row of what needs a person.
type needRow struct {
	Subject  string   `json:"subject"`
	Of       string   `json:"of,omitempty"`
	Kind     string   `json:"kind"`
	Urgent   bool     `json:"urgent,omitempty"`
	Sentence string   `json:"sentence"`
	Commands []string `json:"commands"`
	Who      string   `json:"who,omitempty"`
}

func (p parts) needs(f *Fleet, q query) {
	shown := f.needs
	if q.Namespace != "" || q.Text != "" {
		shown = nil
		keep := map[string]bool{}
		for i := range f.Workloads {
			keep[f.Workloads[i].key] = q.shows(&f.Workloads[i])
		}
		for _, need := range f.needs {
			if keep[need.Of] || need.Of == "" && strings.Contains(strings.ToLower(need.Subject+need.Sentence), q.Text) {
				shown = append(shown, need)
			}
		}
	}
	page, l := paged(shown, q.NeedsPage, pageOfNeeds)
	for _, need := range page {
		l.Rows = append(l.Rows, "n/"+need.Key)
		p.set("n/"+need.Key, rowOfNeed(&need))
	}
	p.set("needs", l)
}

func rowOfNeed(need *Need) needRow {
	row := needRow{
		Subject: clip(need.Subject), Of: need.Of, Kind: clip(need.Kind), Urgent: need.rank < rankPaused,
		Sentence: clip(need.Sentence), Commands: whole(need.Commands...), Who: clip(need.Who),
	}
	return row
}

// whole returns the commands that a page can show as they are: half of a command is another one.
func whole(commands ...string) []string {
	out := []string{}
	for _, command := range commands {
		if clip(command) == command {
			out = append(out, command)
		}
	}
	return out
}

// shows reports whether a workload passes the filters on names and texts.
func (q *query) shows(w *Workload) bool {
	return (q.Namespace == "" || w.Namespace == q.Namespace) && strings.Contains(w.text, q.Text)
}

// workloadRow is a row of the workloads.
type workloadRow struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Numbers   []any  `json:"numbers"`
	// Level is well, waiting or urgent; Note is the sentence beside the numbers.
	Level string `json:"level"`
	Note  string `json:"note,omitempty"`
	Stale bool   `json:"stale,omitempty"`
}

func (p parts) workloads(f *Fleet, q query) {
	var shown []*Workload
	for i := range f.Workloads {
		w := &f.Workloads[i]
		if q.shows(w) && (!q.NotWell || !w.well()) {
			shown = append(shown, w)
		}
	}
	page, l := paged(shown, q.Page, pageOfWorkloads)
	for _, w := range page {
		l.Rows = append(l.Rows, "w/"+w.key)
		p.set("w/"+w.key, rowOf(f, w))
	}
	p.set("list", l)
}

func rowOf(f *Fleet, w *Workload) workloadRow {
	row := workloadRow{
		Kind: clip(w.Kind), Namespace: clip(w.Namespace), Name: clip(w.Name), Numbers: numbersOf(&w.Pods), Level: "well",
		Stale: len(w.Stale) > 0,
	}
	if f.unknown {
		row.Numbers[2], row.Numbers[3] = w.own.ready, w.own.updated
	}
	switch {
	case len(w.needs) > 0:
		row.Level, row.Note = "waiting", clip(w.needs[0].Kind+": "+w.needs[0].Sentence)
		if w.needs[0].rank < rankPaused {
			row.Level = "urgent"
		}
	case row.Stale:
		row.Level, row.Note = "waiting", clip("unreachable: "+strings.Join(w.Stale, ", "))
	case w.Wave != nil:
		row.Note = clip(w.Wave.Message)
	}
	return row
}

// numbersOf returns the columns desired, placed, ready and updated.
func numbersOf(pods *tree.Pods) []any {
	return []any{pods.Desired, pods.Placed, pods.Ready, pods.Updated}
}

// openView is a workload in full.
type openView struct {
	list
	Key   string    `json:"key"`
	Title string    `json:"title"`
	Gone  bool      `json:"gone,omitempty"`
	Facts []string  `json:"facts"`
	Wave  *waveView `json:"wave,omitempty"`
	Needs []needRow `json:"needs"`
}

type waveView struct {
	Number  int32  `json:"number"`
	Of      int32  `json:"of"`
	Failed  bool   `json:"failed,omitempty"`
	Message string `json:"message"`
}

// partRow is a region, zone or cluster of a workload.
type partRow struct {
	Level   int    `json:"level"`
	Name    string `json:"name"`
	Numbers []any  `json:"numbers"`
	Note    string `json:"note,omitempty"`
	Stale   bool   `json:"stale,omitempty"`
}

func (p parts) open(f *Fleet, q query) {
	if q.Open == "" {
		return
	}
	o := openView{Key: q.Open, Title: clip(q.Open), Gone: true, Facts: []string{}, Needs: []needRow{}}
	o.Rows = []string{}
	i := slices.IndexFunc(f.Workloads, func(w Workload) bool { return w.key == q.Open })
	if i < 0 {
		p.set("open", o)
		return
	}
	w := &f.Workloads[i]
	o.Gone, o.Title = false, clip(subjectOf(w.Workload))
	for _, need := range w.needs {
		o.Needs = append(o.Needs, rowOfNeed(&need))
	}
	for _, image := range w.Images {
		if f.unknown {
			break // their numbers are not known
		}
		o.Facts = append(o.Facts, clip(fmt.Sprintf("%s × %d",
			cmp.Or(strings.Join(image.Images, " + "), "previous revision"), image.Pods)))
	}
	for _, state := range w.States {
		o.Facts = append(o.Facts, clip(state.String()))
	}
	o.Facts = o.Facts[:min(len(o.Facts), mostReasons+mostReasons)]
	if w.Wave != nil {
		o.Wave = &waveView{w.Wave.Number, w.Wave.Of, w.Wave.Failed != "", clip(w.Wave.Message)}
	}
	rows := partsOf(f, w)
	var page []part
	page, o.list = paged(rows, q.OpenPage, pageOfParts)
	for _, row := range page {
		o.Rows = append(o.Rows, "o/"+row.key)
		p.set("o/"+row.key, row.row(f, w))
	}
	p.set("open", o)
}

// part is a region, a zone in it, or a cluster in that.
type part struct {
	key, name string
	level     int
	pods      tree.Pods
	cluster   *tree.Cluster
	zone      string
}

// partsOf returns the region, zone and cluster rows of a workload in the order in which they are shown.
func partsOf(f *Fleet, w *Workload) []part {
	regions := map[string]string{}
	for i := range f.Members {
		regions[f.Members[i].Name] = f.Members[i].Region
	}
	type cell struct {
		region, zone string
		cluster      *tree.Cluster
	}
	var cells []cell
	for i := range w.Zones {
		for j := range w.Zones[i].Clusters {
			c := &w.Zones[i].Clusters[j]
			cells = append(cells, cell{cmp.Or(regions[c.Name], "no region"), w.Zones[i].Name, c})
		}
	}
	slices.SortStableFunc(cells, func(a, b cell) int {
		return cmp.Or(strings.Compare(a.region, b.region), strings.Compare(a.zone, b.zone))
	})
	var out []part
	region, zone := -1, -1
	for i, c := range cells {
		if i == 0 || cells[i-1].region != c.region {
			region, zone = len(out), -1
			out = append(out, part{key: "r/" + c.region, name: "region " + c.region})
		}
		if zone < 0 || out[zone].zone != c.zone {
			zone = len(out)
			name := "zone " + c.zone
			if c.zone == "" {
				name = "any zone"
			}
			out = append(out, part{key: "z/" + c.region + "/" + clip(c.zone), name: name, level: 1, zone: c.zone})
		}
		out[region].pods.Add(c.cluster.Pods)
		out[zone].pods.Add(c.cluster.Pods)
		out = append(out, part{key: "c/" + c.region + "/" + clip(c.zone) + "/" + c.cluster.Name, name: c.cluster.Name,
			level: 2, pods: c.cluster.Pods, cluster: c.cluster, zone: c.zone})
	}
	return out
}

// row returns the row of a part: its numbers, and the reason of the number of a cluster.
func (r *part) row(f *Fleet, w *Workload) partRow {
	row := partRow{Level: r.level, Name: clip(r.name), Numbers: numbersOf(&r.pods)}
	if f.unknown {
		row.Numbers[2], row.Numbers[3] = nil, nil
	}
	if r.cluster == nil {
		return row
	}
	row.Stale = r.cluster.Stale
	var notes []string
	if r.cluster.Stale {
		notes = append(notes, "unreachable, these are its last numbers")
	}
	if r.cluster.Waiting != "" && !f.unknown {
		notes = append(notes, r.cluster.Waiting)
	}
	for _, reason := range w.PodReasons {
		if n := reason.Clusters[r.cluster.Name]; n > 0 && len(notes) < mostReasons {
			notes = append(notes, fmt.Sprintf("%d %s", n, reason.Reason))
		}
	}
	if why := reasonOf(w, r); why != "" {
		notes = append(notes, why)
	}
	row.Note = clip(strings.Join(notes, "; "))
	return row
}

// reasonOf returns why a cluster has its number of replicas, by the placement.
func reasonOf(w *Workload, r *part) string {
	if w.placement == nil {
		return ""
	}
	for i := range w.placement.Spec.Cells {
		c := &w.placement.Spec.Cells[i]
		if c.Cluster == r.cluster.Name && slices.Contains(strings.Split(r.zone, ","), c.Zone) {
			why, _ := explain.Cell(c.Reason)
			return why
		}
	}
	return ""
}
