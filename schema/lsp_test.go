package schema_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/internal/npmtest"
)

// server is a YAML language server, as an editor runs it.
type server struct {
	t     *testing.T
	in    io.WriteCloser
	next  int
	inbox chan message
	found map[string][]diagnostic // by URI, as last published
}

// message is what either side sends: a request, an answer or a notification.
type message struct {
	ID     *int            `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  json.RawMessage `json:"error,omitempty"`
}

type position struct {
	Line      int `json:"line"`
	Character int `json:"character"`
}

type diagnostic struct {
	Range    struct{ Start position }
	Message  string
	Severity int
}

// serve starts a server and stops it at the end of the test.
func serve(t *testing.T) *server {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "node", filepath.Join(npmtest.Install(t, "testdata/editor"), "node_modules", "yaml-language-server", "bin", "yaml-language-server"), "--stdio")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	s := &server{t: t, in: in, inbox: make(chan message), found: map[string][]diagnostic{}}
	done := make(chan struct{})
	stop := make(chan struct{})
	go func() { // ends with the server's output, or when stop is closed
		defer close(done)
		s.read(bufio.NewReader(out), stop)
	}()
	t.Cleanup(func() {
		close(stop)
		_ = cmd.Process.Kill() // there is nothing that it could lose
		<-done
		_ = cmd.Wait()
	})
	s.call("initialize", map[string]any{"processId": os.Getpid(), "rootUri": nil, "capabilities": map[string]any{
		"workspace":    map[string]any{"configuration": true},
		"textDocument": map[string]any{"completion": map[string]any{"completionItem": map[string]any{"snippetSupport": true, "documentationFormat": []string{"markdown"}}}},
	}}, nil)
	s.send(message{Method: "initialized", Params: raw(map[string]any{})})
	s.send(message{Method: "workspace/didChangeConfiguration", Params: raw(map[string]any{"settings": settings})})
	return s
}

// settings are an editor's, without the schemas of the internet.
var settings = map[string]any{"yaml": map[string]any{
	"validate": true, "hover": true, "completion": true,
	"schemaStore": map[string]any{"enable": false}, "kubernetesCRDStore": map[string]any{"enable": false},
}}

// read gives what the server sends to inbox. It owns inbox and closes it.
func (s *server) read(r *bufio.Reader, stop <-chan struct{}) {
	defer close(s.inbox)
	for {
		size := 0
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			if line = strings.TrimSpace(line); line == "" {
				break
			}
			if n, ok := strings.CutPrefix(line, "Content-Length: "); ok {
				size, _ = strconv.Atoi(n)
			}
		}
		body := make([]byte, size)
		var m message
		if _, err := io.ReadFull(r, body); err != nil || json.Unmarshal(body, &m) != nil {
			return
		}
		select {
		case s.inbox <- m:
		case <-stop:
			return
		}
	}
}

func raw(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // a fault of this test
	}
	return b
}

func (s *server) send(m message) {
	s.t.Helper()
	b := raw(struct {
		Version string `json:"jsonrpc"`
		message
	}{"2.0", m})
	_, err := fmt.Fprintf(s.in, "Content-Length: %d\r\n\r\n%s", len(b), b)
	require.NoError(s.t, err)
}

// until takes what the server says until done is true of a message.
func (s *server) until(what string, done func(message) bool) {
	s.t.Helper()
	late := time.After(2 * time.Minute)
	for {
		select {
		case m, ok := <-s.inbox:
			require.True(s.t, ok, "the server is gone before %s", what)
			s.answer(m)
			if done(m) {
				return
			}
		case <-late:
			s.t.Fatalf("the server did not come to %s", what)
		}
	}
}

// answer does what an editor does with what the server sends by itself.
func (s *server) answer(m message) {
	s.t.Helper()
	switch {
	case m.Method == "textDocument/publishDiagnostics":
		var p struct {
			URI         string
			Diagnostics []diagnostic
		}
		require.NoError(s.t, json.Unmarshal(m.Params, &p))
		s.found[p.URI] = p.Diagnostics
	case m.Method == "workspace/configuration":
		var p struct{ Items []struct{ Section string } }
		require.NoError(s.t, json.Unmarshal(m.Params, &p))
		all := []any{}
		for _, i := range p.Items {
			all = append(all, settings[i.Section])
		}
		s.send(message{ID: m.ID, Result: raw(all)})
	case m.Method != "" && m.ID != nil:
		s.send(message{ID: m.ID, Result: raw(nil)})
	}
}

// call sends a request and decodes its answer.
func (s *server) call(method string, params, result any) {
	s.t.Helper()
	s.next++
	id := s.next
	s.send(message{ID: &id, Method: method, Params: raw(params)})
	s.until(method, func(m message) bool {
		if m.Method != "" || m.ID == nil || *m.ID != id {
			return false
		}
		require.Empty(s.t, string(m.Error))
		if result != nil {
			require.NoError(s.t, json.Unmarshal(m.Result, result))
		}
		return true
	})
}

// open gives the server a text and waits for what it finds in it.
func (s *server) open(uri, text string) []diagnostic {
	s.t.Helper()
	delete(s.found, uri)
	s.send(message{Method: "textDocument/didOpen", Params: raw(map[string]any{
		"textDocument": map[string]any{"uri": uri, "languageId": "yaml", "version": 1, "text": text},
	})})
	s.until("diagnostics of "+uri, func(message) bool { _, ok := s.found[uri]; return ok })
	return s.found[uri]
}

func at(uri string, p position) map[string]any {
	return map[string]any{"textDocument": map[string]any{"uri": uri}, "position": p}
}

// complete are the labels that are offered at a position, with their words.
func (s *server) complete(uri string, p position) map[string]string {
	s.t.Helper()
	var list struct {
		Items []struct {
			Label         string
			Documentation any
		}
	}
	s.call("textDocument/completion", at(uri, p), &list)
	all := map[string]string{}
	for _, i := range list.Items {
		words := i.Documentation
		if m, ok := words.(map[string]any); ok {
			words = m["value"]
		}
		all[i.Label] = strings.TrimSpace(fmt.Sprint(words))
	}
	return all
}

// hover is the text at a position.
func (s *server) hover(uri string, p position) string {
	s.t.Helper()
	var h struct{ Contents struct{ Value string } }
	s.call("textDocument/hover", at(uri, p), &h)
	return h.Contents.Value
}
