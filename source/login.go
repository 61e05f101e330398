package source

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"

	"helm.sh/helm/v3/pkg/helmpath"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
)

// logins has who logs in where: the plan's repositories first, then those of Helm's
// repositories.yaml; for registries besides Helm's registry config, then Docker's, with
// its credential helpers.
type logins struct {
	options Options
	plain   *http.Transport

	// all are read when first asked for, those of the plan first.
	read sync.Once
	all  []*access
	err  error
	// none is the access to what nobody has a login for.
	none *access

	registries sync.Once
	docker     auth.CredentialFunc
	dockerErr  error

	mu sync.Mutex
	// asked are those that were made for one address with a user in it.
	asked map[string]*access
}

func newLogins(o Options) *logins {
	plain := http.DefaultTransport.(*http.Transport).Clone()
	plain.DisableCompression = true // a server that calls an archive compressed would have it unpacked
	l := &logins{options: o, plain: plain, asked: map[string]*access{}}
	l.none = l.access("", plan.Repository{})
	return l
}

func (l *logins) access(name string, r plan.Repository) *access {
	return &access{Repository: r, name: name, dir: l.options.Dir, agent: l.options.UserAgent, plain: l.plain}
}

// close gives connections back.
func (l *logins) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.asked {
		a.close()
	}
	for _, a := range l.all {
		a.close()
	}
	l.plain.CloseIdleConnections()
}

// repositories are those of the plan and of Helm.
func (l *logins) repositories() ([]*access, error) {
	l.read.Do(func() {
		own := l.options.Repositories
		for _, name := range slices.Sorted(maps.Keys(own)) {
			l.all = append(l.all, l.access(name, own[name]))
		}
		l.err = l.readHelm()
	})
	return l.all, l.err
}

// helmEntry is a repository of Helm's repositories.yaml (helm.sh/helm/v3 pkg/repo, Entry).
type helmEntry struct {
	Name                  string `json:"name"`
	URL                   string `json:"url"`
	Username              string `json:"username"`
	Password              string `json:"password"`
	CertFile              string `json:"certFile"`
	KeyFile               string `json:"keyFile"`
	CAFile                string `json:"caFile"`
	InsecureSkipTLSVerify bool   `json:"insecure_skip_tls_verify"`
	PassCredentialsAll    bool   `json:"pass_credentials_all"`
}

// readHelm reads the repositories of helm repo add.
func (l *logins) readHelm() error {
	file := cmp.Or(os.Getenv("HELM_REPOSITORY_CONFIG"), helmpath.ConfigPath("repositories.yaml"))
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var has struct {
		Repositories []helmEntry `json:"repositories"`
	}
	if err == nil {
		err = yaml.Unmarshal(text, &has)
	}
	if err != nil {
		return runner.Permanent(fmt.Errorf("reading Helm's repositories: %w", withoutText(file, err)))
	}
	for _, e := range has.Repositories {
		a := l.access(e.Name, plan.Repository{
			URL: e.URL, Username: e.Username, Password: e.Password, CAFile: e.CAFile, CertFile: e.CertFile, KeyFile: e.KeyFile,
			InsecureSkipTLSVerify: e.InsecureSkipTLSVerify, PassCredentials: e.PassCredentialsAll,
		})
		a.dir = "." // as Helm reads them
		l.all = append(l.all, a)
	}
	return nil
}

// withoutText is an error about a file which shows nothing of what is in it.
func withoutText(file string, err error) error {
	if errors.As(err, new(*fs.PathError)) {
		return err
	}
	return fmt.Errorf("%s is not what helm repo add writes", file)
}

// named returns the repository of a name.
func (l *logins) named(name string) (*access, error) {
	all, err := l.repositories()
	if err != nil {
		return nil, err
	}
	for _, a := range all {
		if a.name == name {
			return a, nil
		}
	}
	return nil, runner.WithHint(runner.Permanent(fmt.Errorf("there is no repository %q", name)),
		"declare it in the plan under repositories, or add it with: helm repo add "+name+" URL; a folder starts with ./")
}

// to returns the access to an address. home is the repository that led to it, nil for
// none: its login is for its own host, and for others if it passes it on. Else it is the
// repository that has most of the address's path.
func (l *logins) to(address string, home *access) (*access, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, runner.Permanent(errors.New("the address is none"))
	}
	if home != nil && home.isAt(u) {
		return home, nil
	}
	all, err := l.repositories()
	if err != nil {
		return nil, err
	}
	best, most := l.none, -1
	for _, a := range all {
		if n := a.Covers(address); n > most {
			best, most = a, n
		}
	}
	if most < 0 && home != nil && home.PassCredentials {
		best = home
	}
	return best, nil
}

// home returns the access of a repository that is named by its address, with the user
// and password that stand there.
func (l *logins) home(address string) (*access, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, runner.Permanent(errors.New("the repository's address is none"))
	}
	if u.User == nil {
		return l.to(address, nil)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.asked[address]; a != nil {
		return a, nil
	}
	r := plan.Repository{Username: u.User.Username()}
	r.Password, _ = u.User.Password()
	u.User = nil
	r.URL = u.String()
	a := l.access("at "+u.Host, r)
	l.asked[address] = a
	return a, nil
}

// credentials knows the users of registries that Helm or Docker logged in to.
func (l *logins) credentials() (auth.CredentialFunc, error) {
	l.registries.Do(func() {
		options := credentials.StoreOptions{DetectDefaultNativeStore: true}
		file := cmp.Or(os.Getenv("HELM_REGISTRY_CONFIG"), helmpath.ConfigPath("registry/config.json"))
		store, err := credentials.NewStore(file, options)
		if err != nil && strings.Contains(err.Error(), "EOF") { // an empty file has no logins
			store, err = credentials.NewStore("", options)
		}
		if err != nil {
			l.dockerErr = runner.Permanent(fmt.Errorf("reading Helm's registry config %s: %w", file, err))
			return
		}
		l.docker = credentials.Credential(store)
		if docker, err := credentials.NewStoreFromDocker(options); err == nil {
			l.docker = credentials.Credential(credentials.NewStoreWithFallbacks(store, docker))
		}
	})
	return l.docker, l.dockerErr
}
