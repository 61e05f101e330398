package main

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Kinds of answer.
const (
	answerOK      = "ok"
	answerDeny    = "deny"      // a well-formed denial of everything
	answerHang    = "hang"      // no answer until the caller gives up
	answerClose   = "close"     // the connection is closed instead of an answer
	answerBadJSON = "badjson"   // 200, but no AdmissionReview
	answerPlain   = "plainhttp" // HTTP where HTTPS is expected
	answerStatus  = "status"    // an HTTP error
)

// answer is how calls are answered; status is set for answerStatus.
type answer struct {
	kind   string
	status int
}

func (a *answer) String() string {
	if a.kind == answerStatus {
		return strconv.Itoa(a.status)
	}
	return a.kind
}

// Set parses the flag's value.
func (a *answer) Set(s string) error {
	switch s {
	case answerOK, answerDeny, answerHang, answerClose, answerBadJSON, answerPlain:
		*a = answer{kind: s}
		return nil
	}
	code, err := strconv.Atoi(s)
	if err != nil || code < 400 || code > 599 {
		return fmt.Errorf("%q is neither ok, deny, hang, close, badjson, plainhttp nor an HTTP status from 400 to 599", s)
	}
	*a = answer{kind: answerStatus, status: code}
	return nil
}

// fault is the wrong answer and its end, so that a fault can heal.
type fault struct {
	answer  answer
	lasting time.Duration // since begin; 0: for ever

	mu    sync.Mutex
	start time.Time
}

// begin starts the clock: the listener is open.
func (f *fault) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.start = time.Now()
}

func (f *fault) current() answer {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lasting > 0 && !f.start.IsZero() && time.Since(f.start) >= f.lasting {
		return answer{kind: answerOK}
	}
	return f.answer
}

// answerWrongly answers r wrongly and reports true, or leaves it alone.
func (a answer) answerWrongly(w http.ResponseWriter, r *http.Request) bool {
	switch a.kind {
	case answerStatus:
		http.Error(w, "the lab's operator was told to answer "+a.String(), a.status)
	case answerHang:
		<-r.Context().Done()
		panic(http.ErrAbortHandler) // or net/http would answer 200 to a caller that is just leaving
	case answerClose:
		panic(http.ErrAbortHandler) // net/http closes the connection silently
	case answerBadJSON:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`"this is no review"`))
	default:
		return false
	}
	return true
}

// faultyListener speaks TLS on each connection, or not while the fault is
// plainhttp. Owned by http.Server, which closes it.
type faultyListener struct {
	net.Listener
	fault *fault
	tls   *tls.Config
}

// Accept implements net.Listener.
func (l *faultyListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil || l.fault.current().kind == answerPlain {
		return c, err
	}
	return tls.Server(c, l.tls), nil
}
