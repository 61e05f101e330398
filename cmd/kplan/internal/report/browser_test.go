package report

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var screenshots = flag.String("screenshots", "", "a folder for pictures of the pages, to look at")

// browser is a headless Chromium, driven by its DevTools protocol over two
// pipes: messages of JSON that end with a zero byte.
type browser struct {
	t       testing.TB
	in      io.Writer
	inbox   chan answer
	next    int
	session string
}

type answer struct {
	ID     int
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  *struct{ Message string }
}

// browse starts Chromium and opens a page in it; it ends with the test. Without
// Chromium the test is skipped, but in CI.
func browse(t testing.TB) *browser {
	t.Helper()
	if testing.Short() {
		t.Skip("needs Chromium; left out by -short")
	}
	path, err := "", error(nil)
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err = exec.LookPath(name); err == nil {
			break
		}
	}
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("the page's test needs Chromium: make browser installs it: %v", err)
		}
		t.Skipf("skipped for want of Chromium, which make browser installs: %v", err)
	}
	// Children of Chromium may write to it for a moment after it has ended.
	profile, err := os.MkdirTemp("", "kplan-browser-") //nolint:usetesting // it need not be gone at the end of the test
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(profile) })
	theirIn, in, err := os.Pipe()
	require.NoError(t, err)
	out, theirOut, err := os.Pipe()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
		"--no-first-run", "--disable-extensions", "--disable-background-networking", "--remote-debugging-pipe", "--no-startup-window", "--user-data-dir="+profile)
	cmd.ExtraFiles = []*os.File{theirIn, theirOut} // 3 and 4, as Chromium expects
	var said bytes.Buffer
	cmd.Stderr = &said
	require.NoError(t, cmd.Start())
	theirIn.Close()
	theirOut.Close()
	b := &browser{t: t, in: in, inbox: make(chan answer)}
	gone, stop := make(chan struct{}), make(chan struct{})
	go func() { // ends with Chromium's output, or when stop is closed
		defer close(gone)
		b.read(out, stop)
	}()
	t.Cleanup(func() {
		close(stop)
		in.Close() // it ends then
		if waitFor(cmd, 10*time.Second) != nil {
			_ = cmd.Process.Kill()
			t.Logf("Chromium said: %s", said.Bytes())
		}
		out.Close()
		<-gone
	})
	var page struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &page)
	var session struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": page.TargetID, "flatten": true}, &session)
	b.session = session.SessionID
	b.call("Page.enable", nil, nil)
	return b
}

// waitFor waits for cmd to end, which it does soon.
func waitFor(cmd *exec.Cmd, most time.Duration) error {
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case <-done:
		return nil
	case <-time.After(most):
		return os.ErrDeadlineExceeded
	}
}

// read gives what Chromium sends to inbox. It owns inbox and closes it.
func (b *browser) read(out io.Reader, stop <-chan struct{}) {
	defer close(b.inbox)
	for r := bufio.NewReader(out); ; {
		message, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var a answer
		if json.Unmarshal(message[:len(message)-1], &a) != nil {
			return
		}
		select {
		case b.inbox <- a:
		case <-stop:
			return
		}
	}
}

// until takes what Chromium says until done is true of a message.
func (b *browser) until(what string, done func(answer) bool) answer {
	b.t.Helper()
	late := time.After(time.Minute)
	for {
		select {
		case a, ok := <-b.inbox:
			require.True(b.t, ok, "Chromium is gone before %s", what)
			if done(a) {
				return a
			}
		case <-late:
			b.t.Fatalf("Chromium did not come to %s", what)
		}
	}
}

// call sends a command and decodes its result.
func (b *browser) call(method string, params map[string]any, result any) {
	b.t.Helper()
	b.next++
	id := b.next
	m := map[string]any{"id": id, "method": method}
	if params != nil {
		m["params"] = params
	}
	if b.session != "" {
		m["sessionId"] = b.session
	}
	message, err := json.Marshal(m)
	require.NoError(b.t, err)
	_, err = b.in.Write(append(message, 0))
	require.NoError(b.t, err)
	a := b.until(method, func(a answer) bool { return a.ID == id })
	require.Nil(b.t, a.Error, method)
	if result != nil {
		require.NoError(b.t, json.Unmarshal(a.Result, result))
	}
}

// eval runs a script in the page and decodes its value, once that is there.
func (b *browser) eval(script string, value any) {
	b.t.Helper()
	var r struct {
		Result struct {
			Value       json.RawMessage
			Description string
		}
		ExceptionDetails json.RawMessage
	}
	b.call("Runtime.evaluate", map[string]any{"expression": script, "awaitPromise": true, "returnByValue": true}, &r)
	require.Empty(b.t, string(r.ExceptionDetails), script)
	if value != nil {
		require.NoError(b.t, json.Unmarshal(r.Result.Value, value), script)
	}
}

// open loads a file and waits until it is drawn. It gives how long that took by
// the clock, and how much work it was: CPU time of the page's main thread, which
// other programs do not lengthen.
func (b *browser) open(file string) (took, work time.Duration) {
	b.t.Helper()
	b.call("Performance.enable", map[string]any{"timeDomain": "threadTicks"}, nil)
	b.call("Page.navigate", map[string]any{"url": "file://" + file}, nil)
	b.until("the page to load", func(a answer) bool { return a.Method == "Page.loadEventFired" })
	var ms float64
	b.eval("new Promise(done => requestAnimationFrame(() => setTimeout(() => done(performance.now()))))", &ms)
	var r struct {
		Metrics []struct {
			Name  string
			Value float64
		}
	}
	b.call("Performance.getMetrics", nil, &r)
	metrics := map[string]float64{}
	for _, m := range r.Metrics {
		metrics[m.Name] = m.Value
	}
	b.call("Performance.disable", nil, nil)
	return time.Duration(ms * float64(time.Millisecond)), time.Duration(metrics["TaskDuration"] * float64(time.Second))
}

// size sets the size of the window, in pixels.
func (b *browser) size(width, height int) {
	b.t.Helper()
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
}

// scheme sets the colours that the user likes: light or dark.
func (b *browser) scheme(name string) {
	b.t.Helper()
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]any{{"name": "prefers-color-scheme", "value": name}}}, nil)
}

// print says whether the page is drawn as on paper.
func (b *browser) print(on bool) {
	b.t.Helper()
	media := ""
	if on {
		media = "print"
	}
	b.call("Emulation.setEmulatedMedia", map[string]any{"media": media}, nil)
}

// shoot writes a picture of the whole page, if pictures are wanted.
func (b *browser) shoot(name string) {
	b.t.Helper()
	if *screenshots == "" {
		return
	}
	var r struct{ Data string }
	var width, height int
	b.eval("innerWidth", &width)
	b.eval("document.documentElement.scrollHeight", &height)
	b.size(width, min(height, 5000)) // what is out of sight is not drawn
	b.eval("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))", nil)
	b.call("Page.captureScreenshot", map[string]any{"format": "png"}, &r)
	png, err := base64.StdEncoding.DecodeString(r.Data)
	require.NoError(b.t, err)
	require.NoError(b.t, os.MkdirAll(*screenshots, 0o755))
	require.NoError(b.t, os.WriteFile(filepath.Join(*screenshots, name+".png"), png, 0o644))
}

// key presses a key, which types text.
func (b *browser) key(key, text string) {
	b.t.Helper()
	for _, typ := range []string{"keyDown", "keyUp"} {
		e := map[string]any{"type": typ, "key": key}
		if text != "" && typ == "keyDown" {
			e["text"] = text
		}
		b.call("Input.dispatchKeyEvent", e, nil)
	}
}
