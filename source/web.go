package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/kplan-dev/kplan/runner"
)

// largest is how many bytes an index or an archive may have.
const largest = 100 << 20

// page gets a page. What the cache has of it is sent again only when it changed. When
// the server is away, what the cache has comes with the error that says so: the caller
// knows whether it will do.
func (s *Store) page(ctx context.Context, address string, how *access) (*Archive, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, runner.Permanent(err)
	}
	client, err := how.connect()
	if err != nil {
		return nil, err
	}
	req.URL.User = nil
	how.sign(req)
	name := shown(req.URL)
	a := &Archive{Name: name, Origin: name}
	key := "GET " + req.URL.String()
	known := s.cache.note(key)
	if known != nil {
		a.Bytes, a.Digest, a.MediaType = s.cache.blob(known.Digest), known.Digest, known.MediaType
	}
	if a.Bytes == nil {
		a.Digest = ""
	} else {
		setHeader(req, "If-None-Match", known.ETag)
		setHeader(req, "If-Modified-Since", known.LastModified)
	}
	resp, err := client.Do(req)
	if err != nil {
		return a.ifKept(), withoutQuery(err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotModified && a.Bytes != nil:
		return a, nil
	case resp.StatusCode != http.StatusOK:
		return a.ifKept(), &answerError{name, resp}
	}
	fresh, err := s.read(ctx, resp.Body, resp.ContentLength)
	switch {
	case err != nil:
		return a.ifKept(), err
	case len(fresh) > largest:
		return nil, runner.Permanent(fmt.Errorf("%s is larger than %d MiB", name, largest>>20))
	}
	a.Bytes, a.Digest, a.MediaType = fresh, digestOf(fresh), resp.Header.Get("Content-Type")
	s.cache.put(a.Bytes)
	s.cache.keep(note{Key: key, Digest: a.Digest, MediaType: a.MediaType, ETag: resp.Header.Get("ETag"), LastModified: resp.Header.Get("Last-Modified")})
	return a, nil
}

// ifKept is the archive if it has its bytes; else nil.
func (a *Archive) ifKept() *Archive {
	if a.Bytes == nil {
		return nil
	}
	return a
}

// shown is an address as people may see it: what is signed stands in the query.
func shown(u *url.URL) string {
	public := *u
	public.RawQuery, public.Fragment = "", ""
	return public.Redacted()
}

// withoutQuery takes the query out of the address in an error of http.Client.
func withoutQuery(err error) error {
	if e := (*url.Error)(nil); errors.As(err, &e) {
		if u, bad := url.Parse(e.URL); bad == nil {
			e.URL = shown(u)
		}
	}
	return err
}

func setHeader(req *http.Request, name, value string) {
	if value != "" {
		req.Header.Set(name, value)
	}
}

// read reads at most one byte more than may be, and tells how it goes on.
func (s *Store) read(ctx context.Context, r io.Reader, total int64) ([]byte, error) {
	return io.ReadAll(io.LimitReader(&counted{Reader: r, tell: func(n int64) { tell(ctx, Progress{Done: n, Total: max(total, 0)}) }}, largest+1))
}

// counted tells how many bytes were read, each time that it is much more.
type counted struct {
	io.Reader
	n, told int64
	tell    func(int64)
}

func (c *counted) Read(p []byte) (int, error) {
	const step = 256 << 10
	n, err := c.Reader.Read(p)
	if c.n += int64(n); c.n-c.told >= step {
		c.told = c.n
		c.tell(c.n)
	}
	return n, err
}

// answerError is a server's answer that is no success.
type answerError struct {
	address string
	answer  *http.Response
}

// Error implements error.
func (e *answerError) Error() string { return e.address + " answered " + e.answer.Status }

// File is one file of a web server.
type File struct {
	// URL is its address, https or http.
	URL string
}

// Reference returns what lock files and bundles know the file by.
func (f File) Reference() Reference { return Reference{Kind: KindFile, Name: f.URL} }

// File returns a file of a web server. It fails as Chart does.
func (s *Store) File(ctx context.Context, f File) (*Archive, error) {
	ref := f.Reference()
	a, err := s.once(ctx, f, ref, func(ctx context.Context, pin *Pin) (*Archive, error) {
		u, err := url.Parse(f.URL)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
			return nil, runner.Permanent(errors.New("the address is neither https nor http"))
		}
		home, err := s.logins.home(f.URL)
		if err != nil {
			return nil, err
		}
		a, err := s.page(ctx, f.URL, home)
		if err != nil && a != nil && isUnreachable(err) && pin != nil && pin.Digest == a.Digest {
			tell(ctx, Progress{Note: kept(err)})
			err = nil
		}
		return a, err
	})
	if err != nil {
		return nil, explain(ctx, fmt.Errorf("fetching %s: %w", Public(f.URL), err), "check the address with: curl -fL "+f.URL, f.URL)
	}
	return a, nil
}
