package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/kplan-dev/kplan/internal/labtest"
)

// TestActionScript runs the scripts of the GitHub action, $ACTION/*.sh, beside a server
// that stands for the releases, $KPLAN_RELEASES, and for GitHub's API, $GITHUB_API_URL.
// The releases have kplan 1.2.3, which is this test binary, and 1.2.4, whose archive was
// changed after its checksum was made. comments prints those of the pull request.
func TestActionScript(t *testing.T) {
	testscript.Run(t, actionParams(t, "testdata/action"))
}

// TestActionClusterScript runs those that compare a plan with a cluster.
func TestActionClusterScript(t *testing.T) {
	lab := labtest.ControlPlane(t)
	p := actionParams(t, "testdata/action/cluster")
	setup := p.Setup
	p.Setup = func(env *testscript.Env) error {
		err := setup(env)
		env.Setenv("KUBECONFIG", lab.Kubeconfig)
		return err
	}
	testscript.Run(t, p)
}

func actionParams(t *testing.T, dir string) testscript.Params {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("its shell runs no scripts by their path")
	}
	for _, tool := range []string{"bash", "curl", "jq"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the action's scripts need %s", tool)
		}
	}
	kplan, err := exec.LookPath("kplan") // testscript.Main made it
	require.NoError(t, err)
	action, err := filepath.Abs("../../action")
	require.NoError(t, err)
	p := params(dir)
	p.Setup = func(env *testscript.Env) error {
		g := &github{archive: archiveOf(kplan)}
		server := httptest.NewServer(g.routes())
		env.Defer(server.Close)
		env.Values["github"] = g
		for name, value := range map[string]string{
			"ACTION": action, "KPLAN_RELEASES": server.URL + "/releases", "GITHUB_API_URL": server.URL + "/api",
			"GITHUB_REPOSITORY": "acme/shop", "GITHUB_EVENT_PATH": filepath.Join(env.WorkDir, "event.json"),
			"GITHUB_WORKSPACE": env.WorkDir, "GITHUB_ACTIONS": "true", "KPLAN_TOKEN": "s3cret", "KUBECONFIG": "",
			"RUNNER_OS": "Linux", "RUNNER_ARCH": "X64", "RUNNER_TOOL_CACHE": filepath.Join(env.WorkDir, "tools"),
			"GITHUB_PATH": filepath.Join(env.WorkDir, "path"), "GITHUB_OUTPUT": filepath.Join(env.WorkDir, "output"),
			"GITHUB_STEP_SUMMARY": filepath.Join(env.WorkDir, "summary"), "TMPDIR": env.Getenv("TMPDIR"),
		} {
			env.Setenv(name, value)
		}
		return nil
	}
	p.Cmds["comments"] = comments
	p.Cmds["hook"] = hook
	p.Cmds["commented"] = commented
	return p
}

// commented runs the action's step that writes the comment, with the outputs of the step
// before and the token.
func commented(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: commented")
	}
	outputs := map[string]string{}
	for line := range strings.Lines(ts.ReadFile("output")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		outputs[name] = value
	}
	ts.Setenv("KPLAN_TOKEN", "s3cret")
	ts.Check(ts.Exec(filepath.Join(ts.Getenv("ACTION"), "comment.sh"), ts.Getenv("KPLAN_PLAN"), outputs["text"], outputs["news"]))
	ts.Setenv("KPLAN_TOKEN", "")
}

// archiveOf is a release's archive, with a program that runs kplan.
func archiveOf(kplan string) []byte {
	script := "#!/bin/sh\nexec '" + kplan + "' \"$@\"\n"
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	_ = w.WriteHeader(&tar.Header{Name: "kplan", Mode: 0o755, Size: int64(len(script))}) // a buffer takes all
	_, _ = io.WriteString(w, script)
	_ = w.Close()
	_ = z.Close()
	return b.Bytes()
}

// github stands for what the action asks of GitHub: releases, and the comments of pull
// request 7 of acme/shop.
type github struct {
	archive []byte

	mu       sync.Mutex
	comments []comment
	requests []string
}

type comment struct {
	ID   int    `json:"id"`
	Body string `json:"body"`
	User struct {
		Login string `json:"login"`
		Type  string `json:"type"`
	} `json:"user"`
}

func (g *github) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /releases/latest", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/releases/tag/v1.2.3", http.StatusFound)
	})
	mux.HandleFunc("GET /releases/tag/v1.2.3", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /releases/download/{tag}/{file}", g.release)
	mux.HandleFunc("GET /api/user", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "not with the token of a workflow", http.StatusForbidden)
	})
	mux.HandleFunc("GET /api/repos/acme/shop/issues/7/comments", g.list)
	mux.HandleFunc("POST /api/repos/acme/shop/issues/7/comments", g.write)
	mux.HandleFunc("PATCH /api/repos/acme/shop/issues/comments/{id}", g.write)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.requests = append(g.requests, r.Method+" "+r.URL.Path)
		if strings.HasPrefix(r.URL.Path, "/api/") && r.Header.Get("Authorization") != "Bearer s3cret" {
			http.Error(w, "bad credentials", http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func (g *github) release(w http.ResponseWriter, r *http.Request) {
	tag, file := r.PathValue("tag"), r.PathValue("file")
	switch {
	case tag != "v1.2.3" && tag != "v1.2.4":
		http.NotFound(w, r)
	case file == "checksums.txt":
		fmt.Fprintf(w, "%x  kplan_linux_amd64.tar.gz\n", sha256.Sum256(g.archive))
	case strings.HasPrefix(file, "kplan_linux_"):
		_, _ = w.Write(g.archive)
		if tag == "v1.2.4" {
			_, _ = w.Write([]byte{0})
		}
	default:
		http.NotFound(w, r)
	}
}

func (g *github) list(w http.ResponseWriter, r *http.Request) {
	page, _ := strconv.Atoi(r.FormValue("page"))
	per, _ := strconv.Atoi(r.FormValue("per_page"))
	from, to := min((page-1)*per, len(g.comments)), min(page*per, len(g.comments))
	_ = json.NewEncoder(w).Encode(append([]comment{}, g.comments[from:to]...))
}

// write makes a comment, or changes the one that the path names.
func (g *github) write(w http.ResponseWriter, r *http.Request) {
	var c comment
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if id := r.PathValue("id"); id != "" {
		at, _ := strconv.Atoi(id)
		g.comments[at-1].Body = c.Body
		return
	}
	c.ID = len(g.comments) + 1
	c.User.Login, c.User.Type = "github-actions[bot]", "Bot"
	g.comments = append(g.comments, c)
	w.WriteHeader(http.StatusCreated)
}

// comments writes the comments of the pull request to the file comments, and what was
// asked to the file requests; comments LOGIN FILE adds one by a person first, and
// comments COUNT adds so many.
func comments(ts *testscript.TestScript, _ bool, args []string) {
	g := ts.Value("github").(*github)
	g.mu.Lock()
	defer g.mu.Unlock()
	add := func(login, body string) {
		c := comment{ID: len(g.comments) + 1, Body: body}
		c.User.Login, c.User.Type = login, "User"
		g.comments = append(g.comments, c)
	}
	switch len(args) {
	case 1:
		n, err := strconv.Atoi(args[0])
		ts.Check(err)
		for range n {
			add("somebody", "nothing to see")
		}
	case 2:
		add(args[0], ts.ReadFile(args[1]))
	}
	var b strings.Builder
	for _, c := range g.comments {
		fmt.Fprintf(&b, "%d by %s: %s\n", c.ID, c.User.Login, c.Body)
	}
	ts.Check(os.WriteFile(ts.MkAbs("comments"), []byte(b.String()), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs("requests"), []byte(strings.Join(g.requests, "\n")+"\n"), 0o600))
}

// hook runs the entry of a hook for pre-commit, as that does: hook ID FILE…
func hook(ts *testscript.TestScript, neg bool, args []string) {
	b, err := os.ReadFile(filepath.Join(ts.Getenv("ACTION"), "..", ".pre-commit-hooks.yaml"))
	ts.Check(err)
	var hooks []struct{ ID, Entry string }
	ts.Check(yaml.Unmarshal(b, &hooks))
	for _, h := range hooks {
		if h.ID != args[0] {
			continue
		}
		err := ts.Exec("bash", append([]string{"-c", h.Entry + ` "$@"`, "pre-commit"}, args[1:]...)...)
		if (err != nil) != neg {
			ts.Fatalf("hook %s: %v", h.ID, err)
		}
		return
	}
	ts.Fatalf("there is no hook %s", args[0])
}
