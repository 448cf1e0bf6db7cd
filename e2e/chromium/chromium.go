// Package chromium drives a headless Chromium by its DevTools protocol, for tests of pages.
package chromium

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// programs are the names that distributions give Chromium.
func programs() []string { return []string{"chromium", "chromium-browser", "google-chrome"} }

// ErrMissing is returned where no Chromium is installed.
var ErrMissing = errors.New("there is no chromium: install it with e2e/tools/chromium.sh")

// Browser is a Chromium that runs. It ends with Close.
type Browser struct {
	command *exec.Cmd
	to      *os.File
	from    *os.File

	mu      sync.Mutex
	next    int
	answers map[int]chan answer
	pages   map[string]*Page
	broken  error
}

type answer struct {
	result json.RawMessage
	err    error
}

// message is what Chromium sends: the answer to a call, or an event of a page.
type message struct {
	ID        int             `json:"id"`
	SessionID string          `json:"sessionId"`
	Method    string          `json:"method"`
	Params    json.RawMessage `json:"params"`
	Result    json.RawMessage `json:"result"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// Start starts a Chromium that keeps its files in a folder. It talks by two pipes, so that nothing else reaches it.
func Start(folder string) (*Browser, error) {
	program := ""
	for _, name := range programs() {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		return nil, ErrMissing
	}
	theirs, to, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	from, out, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	command := exec.Command(program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
		"--remote-debugging-pipe", "--user-data-dir="+folder, "about:blank")
	command.ExtraFiles = []*os.File{theirs, out}
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	theirs.Close()
	out.Close()
	b := &Browser{command: command, to: to, from: from, answers: map[int]chan answer{}, pages: map[string]*Page{}}
	go b.read()
	return b, nil
}

// Close ends the Chromium with all its processes.
func (b *Browser) Close() error {
	b.to.Close()
	if err := syscall.Kill(-b.command.Process.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("end chromium: %w", err)
	}
	_ = b.command.Wait() // it was killed
	b.from.Close()
	return nil
}

// read takes messages in until Chromium ends.
func (b *Browser) read() {
	const most = 64 << 20
	lines := bufio.NewScanner(b.from)
	lines.Buffer(nil, most)
	lines.Split(func(data []byte, end bool) (int, []byte, error) {
		for i := range data {
			if data[i] == 0 {
				return i + 1, data[:i], nil
			}
		}
		if end {
			return len(data), nil, nil
		}
		return 0, nil, nil
	})
	for lines.Scan() {
		var m message
		if json.Unmarshal(lines.Bytes(), &m) == nil {
			b.take(&m)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broken = errors.New("chromium ended")
	for id, waiting := range b.answers {
		waiting <- answer{err: b.broken}
		delete(b.answers, id)
	}
}

func (b *Browser) take(m *message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if waiting := b.answers[m.ID]; m.ID > 0 && waiting != nil {
		delete(b.answers, m.ID)
		a := answer{result: m.Result}
		if m.Error != nil {
			a.err = errors.New(m.Error.Message)
		}
		waiting <- a
		return
	}
	page := b.pages[m.SessionID]
	if page == nil {
		return
	}
	switch m.Method {
	case "Runtime.exceptionThrown", "Log.entryAdded":
		page.complaints = append(page.complaints, string(m.Params))
	}
}

// call calls a method of Chromium, or of one of its pages, and reads its result.
func (b *Browser) call(ctx context.Context, session, method string, params, result any) error {
	b.mu.Lock()
	if b.broken != nil {
		b.mu.Unlock()
		return b.broken
	}
	b.next++
	id, waiting := b.next, make(chan answer, 1)
	b.answers[id] = waiting
	b.mu.Unlock()
	request := map[string]any{"id": id, "method": method, "params": params}
	if session != "" {
		request["sessionId"] = session
	}
	data, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("encode %s: %w", method, err)
	}
	if _, err := b.to.Write(append(data, 0)); err != nil {
		return fmt.Errorf("send %s: %w", method, err)
	}
	select {
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, ctx.Err())
	case a := <-waiting:
		if a.err != nil {
			return fmt.Errorf("%s: %w", method, a.err)
		}
		if result == nil {
			return nil
		}
		if err := json.Unmarshal(a.result, result); err != nil {
			return fmt.Errorf("read the result of %s: %w", method, err)
		}
		return nil
	}
}

// Page is a page of a browser.
type Page struct {
	browser    *Browser
	target     string
	session    string
	complaints []string
}

type object = map[string]any

// Open opens an empty page of a size in pixels of the page; scale is how many pixels of the screen each has.
func (b *Browser) Open(ctx context.Context, width, height int, scale float64) (*Page, error) {
	var made struct{ TargetID, SessionID string }
	if err := b.call(ctx, "", "Target.createTarget", object{"url": "about:blank"}, &made); err != nil {
		return nil, err
	}
	p := &Page{browser: b, target: made.TargetID}
	if err := b.call(ctx, "", "Target.attachToTarget", object{"targetId": p.target, "flatten": true}, &made); err != nil {
		return nil, err
	}
	p.session = made.SessionID
	b.mu.Lock()
	b.pages[p.session] = p
	b.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		if err := p.Call(ctx, domain+".enable", object{}, nil); err != nil {
			return nil, err
		}
	}
	return p, p.Call(ctx, "Emulation.setDeviceMetricsOverride",
		object{"width": width, "height": height, "deviceScaleFactor": scale, "mobile": false}, nil)
}

// Close closes the page.
func (p *Page) Close(ctx context.Context) error {
	return p.browser.call(ctx, "", "Target.closeTarget", object{"targetId": p.target}, nil)
}

// Call calls a method of the DevTools protocol; result may be nil.
func (p *Page) Call(ctx context.Context, method string, params, result any) error {
	return p.browser.call(ctx, p.session, method, params, result)
}

// Complaints returns the errors that the page has logged: exceptions, and what its policy refused.
func (p *Page) Complaints() []string {
	p.browser.mu.Lock()
	defer p.browser.mu.Unlock()
	return append([]string(nil), p.complaints...)
}

// Navigate opens an address.
func (p *Page) Navigate(ctx context.Context, address string) error {
	var result struct{ ErrorText string }
	if err := p.Call(ctx, "Page.navigate", object{"url": address}, &result); err != nil {
		return err
	}
	if result.ErrorText != "" {
		return fmt.Errorf("open %s: %s", address, result.ErrorText)
	}
	return nil
}

// Eval evaluates an expression of JavaScript, waits for it if it is a promise, and reads its value; result may be nil.
func (p *Page) Eval(ctx context.Context, expression string, result any) error {
	var got struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	err := p.Call(ctx, "Runtime.evaluate",
		object{"expression": expression, "returnByValue": true, "awaitPromise": true, "userGesture": true}, &got)
	if err != nil {
		return err
	}
	if e := got.ExceptionDetails; e != nil {
		return fmt.Errorf("evaluate %s: %s %s", expression, e.Text, e.Exception.Description)
	}
	if result == nil || len(got.Result.Value) == 0 {
		return nil
	}
	if err := json.Unmarshal(got.Result.Value, result); err != nil {
		return fmt.Errorf("read the value of %s: %w", expression, err)
	}
	return nil
}

// Wait polls until an expression is true. It errs when the context ends before.
func (p *Page) Wait(ctx context.Context, expression string) error {
	const every = 20 * time.Millisecond
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		var holds bool
		err := p.Eval(ctx, "Boolean("+expression+")", &holds)
		if err == nil && holds {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", expression, errors.Join(ctx.Err(), err))
		case <-ticker.C:
		}
	}
}

// Press presses a key, by its name in KeyboardEvent.key.
func (p *Page) Press(ctx context.Context, key string) error {
	params := object{"type": "keyDown", "key": key}
	switch {
	case key == "Enter":
		params["text"], params["windowsVirtualKeyCode"] = "\r", '\r'
	case len(key) == 1:
		params["text"] = key
	}
	if err := p.Call(ctx, "Input.dispatchKeyEvent", params, nil); err != nil {
		return err
	}
	return p.Call(ctx, "Input.dispatchKeyEvent", object{"type": "keyUp", "key": key}, nil)
}

// Screenshot returns what the page shows, as PNG.
func (p *Page) Screenshot(ctx context.Context) ([]byte, error) {
	var shot struct{ Data string }
	format := object{"format": "png", "optimizeForSpeed": false}
	if err := p.Call(ctx, "Page.captureScreenshot", format, &shot); err != nil {
		return nil, err
	}
	data, err := base64.StdEncoding.DecodeString(shot.Data)
	if err != nil {
		return nil, fmt.Errorf("decode a screenshot: %w", err)
	}
	return data, nil
}
