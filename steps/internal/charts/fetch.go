package charts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/cli"
	"helm.sh/helm/v3/pkg/downloader"
	"helm.sh/helm/v3/pkg/getter"
	"helm.sh/helm/v3/pkg/registry"
	"helm.sh/helm/v3/pkg/repo"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/transport"
)

const (
	// download bounds one request for a chart.
	download = time.Minute
	// largest is how many bytes an index or an archive may have.
	largest = 100 << 20
)

// fetch downloads a chart by way of a folder of its own, which it removes; it
// writes to no other. It ends with ctx.
func fetch(ctx context.Context, spec plan.Helm) (archive []byte, err error) {
	dir, err := os.MkdirTemp("", "kplan-chart-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	web := http.DefaultTransport.(*http.Transport).Clone()
	defer web.CloseIdleConnections()
	client := &http.Client{Timeout: download, Transport: &transport.Bound{Next: web, Context: ctx}}

	get := fromRepository
	if spec.IsOCI() {
		get = fromRegistry
	}
	archive, err = get(client, spec, dir)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return archive, err
}

// fromRegistry gets a chart from an OCI registry.
func fromRegistry(web *http.Client, spec plan.Helm, dir string) ([]byte, error) {
	settings := cli.New()
	options := []registry.ClientOption{
		registry.ClientOptWriter(io.Discard), registry.ClientOptEnableCache(true),
		registry.ClientOptCredentialsFile(settings.RegistryConfig), registry.ClientOptHTTPClient(web),
	}
	if spec.PlainHTTP {
		options = append(options, registry.ClientOptPlainHTTP())
	}
	client, err := registry.NewClient(options...)
	if err != nil {
		return nil, err
	}
	d := downloader.ChartDownloader{
		Out: io.Discard, RegistryClient: client, RepositoryCache: dir,
		// Helm's own list would add downloaders that are plugins, which run programs.
		Getters: getter.Providers{{Schemes: []string{registry.OCIScheme}, New: getter.NewOCIGetter}},
		Options: []getter.Option{getter.WithRegistryClient(client)},
	}
	file, _, err := d.DownloadTo(spec.Chart, spec.Version, dir)
	if err == nil {
		return os.ReadFile(file)
	}
	tags, unknown := client.Tags(strings.TrimPrefix(spec.Chart, registry.OCIScheme+"://"))
	if unknown == nil && len(tags) > 0 {
		if _, none := registry.GetTagMatchingVersionOrConstraint(tags, spec.Version); none != nil {
			return nil, absentVersion(spec.Version, tags)
		}
	}
	return nil, err
}

// fromRepository gets a chart from a classic repository, by its index.
func fromRepository(web *http.Client, spec plan.Helm, dir string) ([]byte, error) {
	from := &page{client: web, base: spec.Repo}
	r, err := repo.NewChartRepository(&repo.Entry{Name: "repo", URL: spec.Repo}, getter.Providers{
		{Schemes: []string{"http", "https"}, New: func(...getter.Option) (getter.Getter, error) { return from, nil }},
	})
	if err != nil {
		return nil, runner.Permanent(err)
	}
	r.CachePath = dir
	file, err := r.DownloadIndexFile()
	if err != nil {
		return nil, fmt.Errorf("reading the repository's index: %w", err)
	}
	index, err := repo.LoadIndexFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the repository's index: %w", err)
	}
	versions := index.Entries[spec.Chart]
	if len(versions) == 0 {
		return nil, runner.Permanent(errors.New("the repository has no such chart"))
	}
	found, err := index.Get(spec.Chart, spec.Version)
	if err != nil {
		var names []string
		for _, v := range versions {
			names = append(names, v.Version)
		}
		return nil, absentVersion(spec.Version, names)
	}
	if len(found.URLs) == 0 {
		return nil, runner.Permanent(fmt.Errorf("the repository's index has no address for version %s", found.Version))
	}
	address, err := repo.ResolveReferenceURL(spec.Repo, found.URLs[0])
	if err != nil {
		return nil, runner.Permanent(err)
	}
	if registry.IsOCI(address) {
		return fromRegistry(web, plan.Helm{Chart: address, Version: found.Version, PlainHTTP: spec.PlainHTTP}, dir)
	}
	b, err := from.Get(address)
	if err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// absentVersion says which versions there are, newest first.
func absentVersion(version string, there []string) error {
	const most = 5
	hint := "there are: " + strings.Join(there[:min(len(there), most)], ", ")
	if more := len(there) - most; more > 0 {
		hint += fmt.Sprintf(" and %d more", more)
	}
	err := fmt.Errorf("there is no version %s", version)
	if version == "" {
		err = errors.New("there is no version that is not a pre-release")
	}
	return runner.WithHint(runner.Permanent(err), hint)
}

// UnreachableError says that a registry or repository could not be reached, or
// that it asked for time.
type UnreachableError struct{ error }

func (e *UnreachableError) Unwrap() error { return e.error }

// answerError is a repository's answer that is no success.
type answerError struct {
	address string
	answer  *http.Response
}

func (e *answerError) Error() string { return e.address + " answered " + e.answer.Status }

// isUnreachable reports whether the same request may do later.
func isUnreachable(err error) bool {
	if e := (*answerError)(nil); errors.As(err, &e) {
		return passes(e.answer.StatusCode)
	}
	if e := (*errcode.ErrorResponse)(nil); errors.As(err, &e) {
		return passes(e.StatusCode)
	}
	return errors.As(err, new(*url.Error)) || errors.As(err, new(*net.OpError)) || errors.Is(err, io.ErrUnexpectedEOF)
}

// passes reports whether an HTTP status is of a server that has trouble of its own.
func passes(code int) bool {
	return code >= http.StatusInternalServerError || code == http.StatusTooManyRequests || code == http.StatusRequestTimeout
}

// page reads pages of a repository. User and password of its address are sent
// to no other host.
type page struct {
	client *http.Client
	base   string
}

var _ getter.Getter = (*page)(nil)

// Get implements getter.Getter; it takes no options.
func (p *page) Get(address string, _ ...getter.Option) (*bytes.Buffer, error) {
	// The client's transport ends the request.
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	base, err := url.Parse(p.base)
	if err != nil {
		return nil, err
	}
	if base.User != nil && req.URL.User == nil && base.Scheme == req.URL.Scheme && base.Host == req.URL.Host {
		req.URL.User = base.User
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, &answerError{req.URL.Redacted(), resp}
	}
	var b bytes.Buffer
	n, err := io.Copy(&b, io.LimitReader(resp.Body, largest+1))
	if err != nil {
		return nil, err
	}
	if n > largest {
		return nil, runner.Permanent(fmt.Errorf("%s is larger than %d MiB", req.URL.Redacted(), largest>>20))
	}
	return &b, nil
}

// userinfo is the password in an address, however that is quoted.
var userinfo = regexp.MustCompile(`(://[^/\s:@"]*):[^/\s"]*@`)

// Public is text without the passwords of addresses: those that it holds
// itself, and those of the addresses given, wherever they stand.
func Public(text string, addresses ...string) string {
	for _, a := range addresses {
		u, err := url.Parse(a)
		if err != nil || u.User == nil {
			continue
		}
		password, _ := u.User.Password()
		_, escaped, _ := strings.Cut(u.User.String(), ":")
		for _, p := range []string{password, escaped} {
			if len(p) > 3 { // shorter ones would garble the text, and are no secret
				text = strings.ReplaceAll(text, p, "xxxxx")
			}
		}
	}
	return userinfo.ReplaceAllString(text, "${1}:xxxxx@")
}

// withoutPasswords takes the passwords of addresses out of an error, whose
// chain is given up for it; permanence and hint stay.
func withoutPasswords(err error, addresses ...string) error {
	hint := runner.HintOf(err)
	text := Public(err.Error(), addresses...)
	if text == err.Error() && Public(hint, addresses...) == hint {
		return err
	}
	out := errors.New(text)
	if runner.IsPermanent(err) {
		out = runner.Permanent(out)
	}
	return runner.WithHint(out, Public(hint, addresses...))
}
