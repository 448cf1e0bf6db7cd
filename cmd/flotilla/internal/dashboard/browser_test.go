//go:build e2e

package dashboard

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flotilla-dev/flotilla/cmd/flotilla/internal/tree"
	"github.com/flotilla-dev/flotilla/e2e/chromium"
)

var screenshots = flag.String("screenshots", "", "write screenshots of the page to this folder")

// metered counts the bytes that connections of a listener write.
type metered struct {
	net.Listener
	sent atomic.Int64

	mu   sync.Mutex
	open []net.Conn
}

type meteredConn struct {
	net.Conn
	sent *atomic.Int64
}

func (m *metered) Accept() (net.Conn, error) {
	conn, err := m.Listener.Accept()
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open = append(m.open, conn)
	return &meteredConn{conn, &m.sent}, nil
}

// closeAll ends all connections.
func (m *metered) closeAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, conn := range m.open {
		conn.Close()
	}
	m.open = nil
}

func (c *meteredConn) Write(data []byte) (int, error) {
	n, err := c.Conn.Write(data)
	c.sent.Add(int64(n))
	return n, err
}

// site is a server with a page of a browser.
type site struct {
	*server
	t       *testing.T
	ctx     context.Context
	browser *chromium.Browser
	page    *chromium.Page
	wire    *metered
	http    *http.Server
	address string
}

// visit starts a browser, and a server of a fleet that also has an empty page.
func visit(t *testing.T, f *Fleet) *site {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	browser, err := chromium.Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := browser.Close(); err != nil {
			t.Error(err)
		}
	})
	b := newBoard(f.Hub)
	b.publish(f)
	s := &site{t: t, ctx: ctx, browser: browser, server: newServer(ctx, b)}
	s.pace.settle = time.Millisecond
	handler, err := s.handler()
	if err != nil {
		t.Fatal(err)
	}
	on, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.wire = &metered{Listener: on}
	s.address = "http://" + on.Addr().String()
	mux := http.NewServeMux()
	mux.Handle("/", handler)
	mux.Handle("/empty", guarded(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, "<!doctype html><title>.</title><p>.</p>")
	})))
	s.http = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.http.Serve(s.wire) }()
	t.Cleanup(func() { s.http.Close() })
	s.open(1280, 900, 1)
	return s
}

// open opens the page in a window of a size, and waits for its first view.
func (s *site) open(width, height int, scale float64) {
	s.t.Helper()
	page, err := s.browser.Open(s.ctx, width, height, scale)
	s.must(err)
	s.page = page
	s.must(page.Navigate(s.ctx, s.address+"/#token="+s.token))
	s.wait(`document.documentElement.dataset.event?.startsWith("snapshot")`)
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) wait(expression string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, 15*time.Second)
	defer cancel()
	s.must(s.page.Wait(ctx, expression))
}

func (s *site) text(selector string) (text string) {
	s.t.Helper()
	s.must(s.page.Eval(s.ctx, fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", selector), &text))
	return text
}

func (s *site) number(expression string) (n float64) {
	s.t.Helper()
	s.must(s.page.Eval(s.ctx, expression, &n))
	return n
}

func (s *site) contains(selector string, texts ...string) {
	s.t.Helper()
	all := s.text(selector)
	for _, text := range texts {
		if !strings.Contains(all, text) {
			s.t.Errorf("%s lacks %q: %.600q", selector, text, all)
		}
	}
}

// quiet fails the test if the page logged an error, such as an exception or something that its policy refused.
func (s *site) quiet() {
	s.t.Helper()
	for _, complaint := range s.page.Complaints() {
		s.t.Errorf("the page complains: %s", complaint)
	}
}

// nodes counts all nodes of the page: elements, texts and comments.
const nodes = `(() => { let n = 0; const all = document.createTreeWalker(document, NodeFilter.SHOW_ALL);
	while (all.nextNode()) n++; return n; })()`

// TestPage: the page shows members, what needs a person, an approval with its reason and its command, and workloads in
// full; names and messages are text only.
func TestPage(t *testing.T) {
	in := example()
	in.tree.Workloads[3].Problem = `<img src=x onerror="document.title='hacked'"> <b>bold</b>`
	s := visit(t, fleetOf(in))
	s.contains("#sums", "5 of 6", "14 of 21", "7")
	s.contains("#needs", "flotilla rollout approve cloneset/api -n shop --context hub", "waits for a person to approve it",
		"You may not patch a StatefulSet in namespace data: ask a person who may.", "<b>bold</b>", "ImagePullBackOff")
	s.contains("#rows", "batch/job-00")
	if n := s.number(`document.querySelectorAll("img, b").length`); n != 0 {
		t.Errorf("a message became %v nodes", n)
	}
	if n := s.number(`document.querySelectorAll(".square[data-state=NotReady]").length`); n != 1 {
		t.Errorf("%v squares are of lost members", n)
	}

	// The token is in the address no more, and a reload keeps the page.
	var hash string
	s.must(s.page.Eval(s.ctx, "location.hash", &hash))
	if strings.Contains(hash, s.token) {
		t.Errorf("the address has the token: %s", hash)
	}

	// The keyboard alone: search, move, open, copy, close.
	s.must(s.page.Press(s.ctx, "/"))
	s.wait(`document.activeElement.id === "q"`)
	for _, key := range []string{"a", "p", "i"} {
		s.must(s.page.Press(s.ctx, key))
	}
	s.wait(`document.querySelectorAll("#rows tr").length === 1`)
	s.must(s.page.Eval(s.ctx, `document.querySelector("#rows .name").focus()`, nil))
	s.must(s.page.Press(s.ctx, "Enter"))
	s.wait(`document.activeElement.id === "h-open"`)
	s.contains("#open", "CloneSet shop/api", "wave 1 of 3", "region us", "tokyo", "api:1.26 × 60",
		"You may do it: you may patch a CloneSet in namespace shop.")
	s.must(s.page.Eval(s.ctx, `navigator.clipboard.writeText = (words) => { globalThis.copied = words; }`, nil))
	s.must(s.page.Press(s.ctx, "c"))
	s.wait(`globalThis.copied === "flotilla rollout approve cloneset/api -n shop --context hub"`)
	s.contains("#live", "Copied")
	s.must(s.page.Press(s.ctx, "Escape"))
	s.wait(`document.activeElement.dataset.open === "CloneSet/shop/api" && document.querySelector("#open").hidden`)
	s.contains("#s-needs", "7") // whatever the filters are

	// What is closed is not copied, and the link to what needs a person keeps the page.
	s.must(s.page.Eval(s.ctx, `globalThis.copied = ""; document.querySelector("#rows .name").focus()`, nil))
	s.must(s.page.Press(s.ctx, "c"))
	s.wait(`document.querySelector("#openneeds").children.length === 0 && globalThis.copied === ""`)
	s.must(s.page.Eval(s.ctx, `document.querySelector(".skip").click()`, nil))
	s.wait(`location.hash.includes("q=api") && document.activeElement.id === "needs" && globalThis.copied === ""`)
	s.must(s.page.Eval(s.ctx, `document.querySelector(".square").focus()`, nil))
	s.must(s.page.Press(s.ctx, "ArrowRight"))
	s.wait(`document.querySelector("#about").innerText.includes("region eu")`)
	s.quiet()
}

// TestPageFollows: a change is shown and said, a lost connection is named, and after a gap the page gets a snapshot.
func TestPageFollows(t *testing.T) {
	in := example()
	s := visit(t, fleetOf(in))
	change := func(ready int32) {
		in.tree.Workloads[2].Pods.Ready = ready // of shop/cart, whose row is on the second page
		in.tree.Workloads[7].Pods.Ready = ready // of batch/job-00
		s.board.publish(fleetOf(in))
	}
	const shown = `document.querySelector("[data-key='w/CloneSet/batch/job-00'] td:nth-child(4)").innerText === "%d"`
	change(5)
	s.wait(fmt.Sprintf(shown, 5))
	s.wait(`document.documentElement.dataset.event.startsWith("change")`)

	// The view is remembered: what differs is enough.
	s.must(s.page.Eval(s.ctx, `globalThis.row = document.querySelector("#rows tr")`, nil))
	s.drop()
	change(4)
	s.wait(fmt.Sprintf(shown, 4))
	s.wait(`document.documentElement.dataset.event.startsWith("change") && globalThis.row.isConnected`)

	// It is not: the whole view comes.
	s.sent.mu.Lock()
	clear(s.sent.views)
	s.sent.mu.Unlock()
	s.drop()
	change(3)
	s.wait(fmt.Sprintf(shown, 3))
	s.wait(`document.documentElement.dataset.event.startsWith("snapshot") && globalThis.row.isConnected`)

	// What needs a person is said.
	in.tree.Workloads[8].Waiting = "5 of 6 pods are Ready"
	s.board.publish(fleetOf(in))
	s.wait(`document.querySelector("#live").innerText.includes("8 things need you")`)

	// The end of the server is named.
	s.http.Close()
	s.wait(`document.querySelector("#link").dataset.state === "off"`)
	s.contains("#link", "not connected")
}

// drop ends all connections.
func (s *site) drop() {
	s.t.Helper()
	ended := s.number(`fetch("events", { headers: { Authorization: "Bearer x" } }).then((answer) => answer.status)`)
	if ended != http.StatusUnauthorized {
		s.t.Errorf("a wrong token is answered with %v", ended)
	}
	s.wire.closeAll()
}

// TestPageWithoutRights: what the user may not read is named, with the command that asks about it.
func TestPageWithoutRights(t *testing.T) {
	in := example()
	in.noWorks, in.members, in.tree = true, nil, &tree.Tree{}
	in.unread = []Unread{
		{What: "works.work.karmada.io", Why: "You may not list and watch them: numbers of pods are those of the workloads.",
			Command: "kubectl auth can-i list works.work.karmada.io"},
		{What: "namespace secret", Why: "You may not list and watch its workloads.",
			Command: "kubectl auth can-i list clonesets.apps.kruise.io -n secret"},
	}
	s := visit(t, fleetOf(in))
	s.contains("#unread", "namespace secret", "You may not list and watch its workloads.",
		"kubectl auth can-i list clonesets.apps.kruise.io -n secret", "works.work.karmada.io")
	s.contains("#workloads", "No workload is found")
	s.contains("#needs", "all that you may read is placed and Ready")
	s.must(s.page.Navigate(s.ctx, s.address+"/empty"))
	s.must(s.page.Navigate(s.ctx, s.address+"/#token=wrong"))
	s.wait(`document.querySelector("#link")?.innerText.includes("no valid token")`)
}

// TestLargePage: for 1 000 members and 1 000 workloads in each, the page has at most 1 500 nodes and takes at most
// 60 KiB, and its first paint is printed beside that of an empty page.
func TestLargePage(t *testing.T) {
	const mostNodes, mostBytes, runs = 1500, 60 << 10, 9
	f := fleetOf(large(1000, 1000))
	s := visit(t, f)
	taken := s.wire.sent.Load()
	t.Logf("%d bytes over the wire, %v nodes", taken, s.number(nodes))
	if taken > mostBytes {
		t.Errorf("the page takes %d bytes", taken)
	}
	s.contains("#sums", "of 1,000")
	s.must(s.page.Eval(s.ctx, `document.querySelector("#rows .name").click()`, nil))
	s.wait(`document.querySelectorAll("#places tr").length === 20`)
	t.Logf("%v nodes with a workload of 1 000 clusters open", s.number(nodes))
	if n := s.number(nodes); n > mostNodes {
		t.Errorf("the page has %v nodes", n)
	}
	s.must(s.page.Eval(s.ctx, `document.querySelector(".group").click()`, nil))
	s.wait(`document.querySelectorAll(".square").length > 30`)
	s.quiet()

	// 200 members is the most that has a square for each.
	s.board.publish(fleetOf(large(200, 100)))
	s.must(s.page.Eval(s.ctx, `document.querySelector("#back").click()`, nil))
	s.wait(`document.querySelectorAll(".square").length === 200`)
	t.Logf("%v nodes with 200 squares", s.number(nodes))
	if n := s.number(nodes); n > mostNodes {
		t.Errorf("the page of 200 members has %v nodes", n)
	}
	before := s.wire.sent.Load()
	s.open(1280, 900, 1)
	if n := s.wire.sent.Load() - before; n > mostBytes {
		t.Errorf("the page of 200 members takes %d bytes", n)
	} else {
		t.Logf("%d bytes over the wire with 200 squares", n)
	}

	s.board.publish(f)
	var ours, empty []float64
	for range runs {
		empty = append(empty, s.paint("/empty"))
		ours = append(ours, s.paint("/#token="+s.token))
	}
	slices.Sort(ours)
	slices.Sort(empty)
	t.Logf("first paint after %.1f ms, of an empty page after %.1f ms: %.2f times (medians of %d)", ours[runs/2],
		empty[runs/2], ours[runs/2]/empty[runs/2], runs)
}

// paint opens an address in a new page and returns the time of its first paint in milliseconds.
func (s *site) paint(path string) float64 {
	s.t.Helper()
	page, err := s.browser.Open(s.ctx, 1280, 900, 1)
	s.must(err)
	s.must(page.Call(s.ctx, "Network.enable", map[string]any{}, nil))
	s.must(page.Call(s.ctx, "Network.setCacheDisabled", map[string]any{"cacheDisabled": true}, nil))
	s.must(page.Navigate(s.ctx, s.address+path))
	const first = `performance.getEntriesByName("first-contentful-paint")[0]?.startTime`
	s.must(page.Wait(s.ctx, first))
	var at float64
	s.must(page.Eval(s.ctx, first, &at))
	s.must(page.Close(s.ctx))
	return at
}

// TestNarrowPage: at a width of 360 pixels, and at 200 % zoom, nothing is cut off or scrolls sideways.
func TestNarrowPage(t *testing.T) {
	s := visit(t, fleetOf(example()))
	for _, size := range []struct {
		width int
		scale float64
	}{{360, 1}, {640, 2}, {1600, 1}} {
		s.open(size.width, 800, size.scale)
		s.must(s.page.Eval(s.ctx, `document.querySelector("#rows .name").click()`, nil))
		s.wait(`document.querySelectorAll("#places tr").length > 2`)
		if wide := s.number("document.documentElement.scrollWidth"); wide > float64(size.width) {
			t.Errorf("%d pixels: the page is %v wide", size.width, wide)
		}
	}
}

// TestScreenshots writes the pictures of docs/tasks/dashboard.md where the flag asks for them.
func TestScreenshots(t *testing.T) {
	if *screenshots == "" {
		t.Skip("-args -screenshots FOLDER writes them")
	}
	s := visit(t, fleetOf(example()))
	for _, scheme := range []string{"light", "dark"} {
		s.open(1400, 1480, 1)
		s.must(s.page.Call(s.ctx, "Emulation.setEmulatedMedia", map[string]any{"features": []map[string]any{
			{"name": "prefers-color-scheme", "value": scheme}}}, nil))
		s.must(s.page.Eval(s.ctx, `document.querySelector("[data-open='CloneSet/shop/api']").click()`, nil))
		s.wait(`document.querySelectorAll("#places tr").length > 2`)
		s.must(s.page.Eval(s.ctx, `document.activeElement.blur(); scrollTo(0, 0)`, nil))
		data, err := s.page.Screenshot(s.ctx)
		s.must(err)
		data, err = palette(data)
		s.must(err)
		const most = 150 << 10
		if len(data) > most {
			t.Errorf("%s has %d bytes", scheme, len(data))
		}
		s.must(os.WriteFile(filepath.Join(*screenshots, "dashboard-"+scheme+".png"), data, 0o600))
	}
}

// palette returns a PNG with at most 256 of the frequent colors of another one, which is much smaller.
func palette(data []byte) ([]byte, error) {
	full, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("decode a screenshot: %w", err)
	}
	counts := map[color.RGBA]int{}
	size := full.Bounds()
	for y := size.Min.Y; y < size.Max.Y; y++ {
		for x := size.Min.X; x < size.Max.X; x++ {
			counts[color.RGBAModel.Convert(full.At(x, y)).(color.RGBA)]++
		}
	}
	frequent := slices.SortedFunc(maps.Keys(counts), func(a, b color.RGBA) int { return counts[b] - counts[a] })
	var colors color.Palette
	near := map[color.RGBA]bool{}
	const most, step = 256, 20
	for _, c := range frequent {
		rough := color.RGBA{c.R / step, c.G / step, c.B / step, c.A}
		if !near[rough] && len(colors) < most {
			near[rough] = true
			colors = append(colors, c)
		}
	}
	small := image.NewPaletted(size, colors)
	draw.Draw(small, size, full, size.Min, draw.Src)
	var out bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(&out, small); err != nil {
		return nil, fmt.Errorf("encode a screenshot: %w", err)
	}
	return out.Bytes(), nil
}
