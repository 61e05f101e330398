package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kplan-dev/kplan/internal/clean"
	"github.com/kplan-dev/kplan/internal/scrub"
)

// Bounds of sending, so that a collector that is away does not keep people from their
// shell.
const (
	// sendTries is how often one request is sent at most, and sendTime how long sending
	// takes in all.
	sendTries = 4
	sendTime  = 30 * time.Second
	// batchSpans is how many spans one request has: collectors take some megabytes.
	batchSpans = 2000
	// answerLimit is how much of an answer is read, in bytes.
	answerLimit = 64 << 10
)

// ErrTooLong is the cause of a deadline that sending has of its own.
var ErrTooLong = fmt.Errorf("the collector did not take it within %s", sendTime)

// RejectedError says that the collector took a trace but for some spans, or what it has to
// say of spans that it took.
type RejectedError struct {
	Spans   int64
	Message string // the collector's
}

func (e *RejectedError) Error() string {
	if e.Spans == 0 {
		return "the collector warns: " + e.Message
	}
	return strings.TrimSuffix(fmt.Sprintf("the collector rejected %d spans: %s", e.Spans, e.Message), ": ")
}

// Send sends a trace. Answers that ask for it, and connections that fail, are tried again,
// after the time that the collector names. It takes half a minute at most.
func (e *Endpoint) Send(ctx context.Context, d *tracepb.TracesData) error {
	ctx, cancel := context.WithTimeoutCause(ctx, sendTime, ErrTooLong)
	defer cancel()
	var rejected []error
	for _, part := range batches(d) {
		body, err := e.encode(part)
		if err != nil {
			return err
		}
		answer, err := e.deliver(ctx, body)
		if err != nil {
			return err
		}
		if err := e.partial(answer); err != nil {
			rejected = append(rejected, err)
		}
	}
	return errors.Join(rejected...)
}

// batches splits a trace into requests.
func batches(d *tracepb.TracesData) []*tracepb.TracesData {
	var all []*tracepb.TracesData
	for _, r := range d.GetResourceSpans() {
		for _, s := range r.GetScopeSpans() {
			for spans := s.GetSpans(); len(spans) > 0; {
				n := min(len(spans), batchSpans)
				all = append(all, &tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{{
					Resource: r.GetResource(), ScopeSpans: []*tracepb.ScopeSpans{{Scope: s.GetScope(), Spans: spans[:n]}},
				}}})
				spans = spans[n:]
			}
		}
	}
	return all
}

func (e *Endpoint) encode(d *tracepb.TracesData) ([]byte, error) {
	encode := Protobuf
	if e.json {
		encode = JSON
	}
	b, err := encode(d)
	if err != nil || !e.gzip {
		return b, err
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err = w.Write(b)
	err = errors.Join(err, w.Close())
	return packed.Bytes(), err
}

// deliver sends one request until it is taken or refused, and returns the answer.
func (e *Endpoint) deliver(ctx context.Context, body []byte) ([]byte, error) {
	pause := time.Second
	for try := 1; ; try++ {
		answer, after, err := e.post(ctx, body)
		switch {
		case err == nil:
			return answer, nil
		case context.Cause(ctx) != nil:
			return nil, errors.Join(context.Cause(ctx), err)
		case after < 0 || try == sendTries:
			return nil, err
		}
		wait := max(after, pause)
		if end, ok := ctx.Deadline(); ok && time.Until(end) < wait {
			return nil, fmt.Errorf("%w; it asks to wait %s, longer than kplan does", err, wait)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), err)
		}
		pause *= 2
	}
}

// post sends one request once. after says how long to wait at least before the next try;
// it is negative when there is to be none.
func (e *Endpoint) post(ctx context.Context, body []byte) (answer []byte, after time.Duration, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, e.timeout, fmt.Errorf("no answer within %s", e.timeout))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url.String(), bytes.NewReader(body))
	if err != nil {
		return nil, -1, errors.New("that is no address")
	}
	req.Header = e.header.Clone()
	req.Header.Set("User-Agent", "kplan")
	req.Header.Set("Content-Type", "application/x-protobuf")
	if e.json {
		req.Header.Set("Content-Type", "application/json")
	}
	if e.gzip {
		req.Header.Set("Content-Encoding", "gzip")
	}
	// A redirect would take headers with tokens to whoever the answer names.
	client := http.Client{Transport: e.client, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return nil, 0, cause
		}
		if e := (*url.Error)(nil); errors.As(err, &e) { // it has the query of the address
			err = e.Err
		}
		return nil, 0, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(resp.Body, answerLimit))
	switch {
	case resp.StatusCode/100 == 2 && err != nil: // it was taken; what the answer says is lost
		return nil, 0, nil
	case resp.StatusCode/100 == 2:
		return answer, 0, nil
	case resp.StatusCode/100 == 3:
		return nil, -1, fmt.Errorf("the collector answers %s: name the address that it leads to", resp.Status)
	}
	err = fmt.Errorf("the collector answers %s%s", foreign(resp.Status), said(resp, answer))
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return nil, retryAfter(resp), err
	}
	return nil, -1, err
}

// foreign is a text of the collector's as it may be shown.
func foreign(s string) string { return clean.Line(clean.Text(scrub.Text(s))) }

// said is what an answer says besides its status, if that is text.
func said(resp *http.Response, answer []byte) string {
	kind := resp.Header.Get("Content-Type")
	if !strings.HasPrefix(kind, "text/plain") && !strings.HasPrefix(kind, "application/json") {
		return ""
	}
	text := foreign(string(answer))
	if text == "" {
		return ""
	}
	return ": " + text
}

// retryAfter is how long an answer asks to wait: seconds, or until a date.
func retryAfter(resp *http.Response) time.Duration {
	s := resp.Header.Get("Retry-After")
	if seconds, err := strconv.Atoi(s); err == nil {
		return max(time.Duration(min(seconds, 3600))*time.Second, 0)
	}
	if at, err := http.ParseTime(s); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}

// partial returns what the collector says it did not take. Answers in JSON are not looked
// into: few collectors speak it.
func (e *Endpoint) partial(answer []byte) error {
	if e.json {
		return nil
	}
	success := field(answer, 1)
	spans, message := varint(success, 1), string(field(success, 2))
	if spans == 0 && message == "" {
		return nil
	}
	return &RejectedError{Spans: spans, Message: foreign(message)}
}

// field returns the bytes of a field of a message in protobuf; nil when there is none.
//
// The message is ExportTraceServiceResponse of OTLP. Its Go type is in a package that
// brings gRPC with it.
func field(b []byte, number protowire.Number) (found []byte) {
	fields(b, func(n protowire.Number, t protowire.Type, rest []byte) {
		if v, size := protowire.ConsumeBytes(rest); n == number && t == protowire.BytesType && size >= 0 {
			found = v
		}
	})
	return found
}

// varint returns a number of a message in protobuf; 0 when there is none.
func varint(b []byte, number protowire.Number) (found int64) {
	fields(b, func(n protowire.Number, t protowire.Type, rest []byte) {
		if v, size := protowire.ConsumeVarint(rest); n == number && t == protowire.VarintType && size >= 0 {
			found = int64(v)
		}
	})
	return found
}

// fields calls f with what follows each tag. It ends at what is no message.
func fields(b []byte, f func(protowire.Number, protowire.Type, []byte)) {
	for len(b) > 0 {
		n, t, size := protowire.ConsumeTag(b)
		if size < 0 {
			return
		}
		b = b[size:]
		f(n, t, b)
		size = protowire.ConsumeFieldValue(n, t, b)
		if size < 0 {
			return
		}
		b = b[size:]
	}
}
