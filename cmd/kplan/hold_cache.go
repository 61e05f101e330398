package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/kplan-dev/kplan/steps/holdproxy"
)

// cacheIn is where kubectl and Helm keep what they discovered of a server, below
// their folder of caches (k8s.io/cli-runtime pkg/genericclioptions/config_flags.go,
// computeDiscoverCacheDir).
func cacheIn(folder, server string) string {
	host := strings.Replace(strings.Replace(server, "https://", "", 1), "http://", "", 1)
	return filepath.Join(folder, "discovery", notInCaches.ReplaceAllString(host, "_"))
}

var notInCaches = regexp.MustCompile(`[^(\w/.)]`)

// linkCaches lets clients of the proxy, whose address is another one each time, keep
// what they discover where they keep it of the API servers themselves.
func linkCaches(folder string, entrances []holdproxy.Entrance) error {
	own := os.Getenv("KUBECACHEDIR")
	if own == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return err
		}
		own = filepath.Join(home, ".kube", "cache")
	}
	var all []error
	for _, e := range entrances {
		if e.Server == "" {
			continue
		}
		link, to := cacheIn(folder, e.URL), cacheIn(own, e.Server)
		if err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o700), os.MkdirAll(to, 0o750)); err != nil {
			all = append(all, err)
			continue
		}
		all = append(all, os.Symlink(to, link))
	}
	return errors.Join(all...)
}
