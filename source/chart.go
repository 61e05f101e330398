package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
)

// scheme is that of addresses in OCI registries.
const scheme = "oci://"

// Chart is a chart from afar.
type Chart struct {
	// Name is oci://HOST/PATH, the name of a chart in Repo, or REPOSITORY/CHART.
	Name string
	// Repo is the address of a repository, or its name in the plan or in Helm's
	// repositories.yaml.
	Repo string
	// Version is the version, or a constraint on it; "" is the newest that is no
	// pre-release.
	Version string
	// PlainHTTP talks to the registry without TLS.
	PlainHTTP bool
	// Keyring and CosignKey are files of keys, one of which must have signed the chart;
	// "" when it need not be signed. See CheckProvenance for the one, and for the other
	// cosign verify --key, which is for registries only.
	Keyring, CosignKey string
}

// ChartOf returns the chart of a helm step whose chart is not local.
func ChartOf(step plan.Step) Chart {
	spec := step.Helm
	c := Chart{Name: spec.Chart, Repo: spec.Repo, Version: spec.Version, PlainHTTP: spec.PlainHTTP}
	if v := spec.Verify; v != nil && v.Keyring != "" {
		c.Keyring = step.Path(v.Keyring)
	}
	if v := spec.Verify; v != nil && v.Cosign != nil {
		c.CosignKey = step.Path(v.Cosign.Key)
	}
	return c
}

// Reference returns what lock files and bundles know the chart by.
func (c Chart) Reference() Reference {
	return Reference{Kind: KindChart, Repo: c.Repo, Name: c.Name, Version: c.Version}
}

// IsOCI reports whether the chart is in an OCI registry.
func (c Chart) IsOCI() bool { return strings.HasPrefix(c.Name, scheme) }

// Chart returns a chart's archive. It fails with an *UnreachableError when another
// attempt may do, and with a *MismatchError when the chart is not the one that is
// locked.
func (s *Store) Chart(ctx context.Context, c Chart) (*Archive, error) {
	a, err := s.once(ctx, c, c.Reference(), func(ctx context.Context, pin *Pin) (*Archive, error) {
		return s.chart(ctx, c, pin)
	})
	if err != nil {
		return nil, explain(ctx, fmt.Errorf("fetching chart %s: %w", c.Name, err), fetchHint(c), c.Name, c.Repo)
	}
	return a, nil
}

// chart gets a chart from where its repository is.
func (s *Store) chart(ctx context.Context, c Chart, pin *Pin) (*Archive, error) {
	if c.IsOCI() {
		how, err := s.logins.to(c.Name, nil)
		if err != nil {
			return nil, err
		}
		return s.fromRegistry(ctx, how, c, pin)
	}
	if alias, name, ok := strings.Cut(c.Name, "/"); ok && c.Repo == "" {
		c.Repo, c.Name = alias, name
	}
	base, home, err := s.home(c.Repo)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(base, scheme) {
		c.Name = strings.TrimSuffix(base, "/") + "/" + c.Name
		return s.fromRegistry(ctx, home, c, pin)
	}
	return s.fromRepository(ctx, base, home, c, pin)
}

// home returns the address of a repository that is given by it or by its name, and who
// logs in there.
func (s *Store) home(repo string) (base string, how *access, err error) {
	if !strings.Contains(repo, "://") {
		if how, err = s.logins.named(repo); err != nil {
			return "", nil, err
		}
		return how.URL, how, nil
	}
	u, err := url.Parse(repo)
	if err != nil {
		return "", nil, runner.Permanent(errors.New("the repository's address is none"))
	}
	how, err = s.logins.home(repo)
	u.User = nil
	return u.String(), how, err
}

func fetchHint(c Chart) string {
	switch {
	case c.IsOCI():
		return "check the address and the version with: helm show chart " + c.Name + "; log in to a private registry with: helm registry login"
	case strings.Contains(c.Repo, "://"):
		return "check the repository with: helm show chart " + c.Name + " --repo " + c.Repo
	}
	return "check the address and the login of the repository " + cmp.Or(c.Repo, strings.Split(c.Name, "/")[0])
}

// isExact reports whether a version means one version only.
func isExact(version string) bool {
	_, err := semver.NewVersion(version)
	return err == nil
}

// match returns which of some versions, newest first, is asked for: the very same
// text first, else the newest that a constraint allows; -1 for none.
func match(versions []*semver.Version, asked string) (int, error) {
	if asked != "" {
		for i, v := range versions {
			if v.Original() == asked {
				return i, nil
			}
		}
	} else {
		asked = "*"
	}
	c, err := semver.NewConstraint(asked)
	if err != nil {
		return -1, runner.Permanent(fmt.Errorf("version %q: %w", asked, err))
	}
	for i, v := range versions {
		if c.Check(v) {
			return i, nil
		}
	}
	return -1, nil
}

// absentVersion says which versions there are, newest first.
func absentVersion(version string, there []*semver.Version) error {
	const most = 5
	var names []string
	for _, v := range there[:min(len(there), most)] {
		names = append(names, v.Original())
	}
	hint := "there are: " + strings.Join(names, ", ")
	if more := len(there) - most; more > 0 {
		hint += fmt.Sprintf(" and %d more", more)
	}
	err := fmt.Errorf("there is no version %s", version)
	if version == "" {
		err = errors.New("there is no version that is not a pre-release")
	}
	return runner.WithHint(runner.Permanent(err), hint)
}
