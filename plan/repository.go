package plan

import (
	"net/url"
	"path"
	"strings"
)

// Repository is where charts and manifests come from, and the login for it and all
// that is below its address. Credentials go to no other host, also when it redirects
// there.
type Repository struct {
	// URL is https://HOST/PATH of a chart repository or web server, or oci://HOST/PATH of
	// a registry.
	URL string `json:"url"`
	// Username and Password log in. The password is made of a sensitive variable.
	Username string `json:"username,omitempty"`
	Password string `json:"password,omitempty"`
	// Token is a bearer token, instead of Username and Password. It is made of a
	// sensitive variable.
	Token string `json:"token,omitempty"`
	// CAFile is a file of certificates of authorities that the server's may be signed
	// by, besides those of the system; paths are relative to the plan.
	CAFile string `json:"ca_file,omitempty"`
	// CertFile and KeyFile are the client's certificate and its key.
	CertFile string `json:"cert_file,omitempty"`
	KeyFile  string `json:"key_file,omitempty"`
	// InsecureSkipTLSVerify takes any certificate of the server.
	InsecureSkipTLSVerify bool `json:"insecure_skip_tls_verify,omitempty"`
	// PassCredentials sends the credentials also to other hosts that charts of the
	// repository's index are on.
	PassCredentials bool `json:"pass_credentials,omitempty"`
	// PlainHTTP talks to the registry without TLS; oci:// only.
	PlainHTTP bool `json:"plain_http,omitempty"`
}

// Verify says who must have signed a chart. Exactly one of its fields is set.
type Verify struct {
	// Keyring is a file of public keys of PGP. The chart's provenance file, which stands
	// beside its archive, must be signed by one of them, as helm verify wants it.
	Keyring string `json:"keyring,omitempty"`
	// Cosign says who must have signed a chart of an OCI registry with cosign.
	Cosign *Cosign `json:"cosign,omitempty"`
}

// Cosign says who must have signed with cosign.
type Cosign struct {
	// Key is a file with the public key, as cosign generate-key-pair writes it.
	// Transparency logs are not asked.
	Key string `json:"key"`
}

// Covers returns how many segments of the path at an address are those of the
// repository; -1 when the address is not below it. Names of hosts are compared
// without case, and with the scheme's port where they have none.
func (r Repository) Covers(address string) int {
	base, err := url.Parse(r.URL)
	if err != nil {
		return -1
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != base.Scheme || hostPort(u) != hostPort(base) {
		return -1
	}
	own, other := path.Clean("/"+base.Path), path.Clean("/"+u.Path)
	switch {
	case own == "/":
		return 0
	case other == own, strings.HasPrefix(other, own+"/"), u.Scheme == "oci" && (strings.HasPrefix(other, own+":") || strings.HasPrefix(other, own+"@")):
		return strings.Count(own, "/")
	}
	return -1
}

func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443", "oci": "443"}[u.Scheme]
	}
	return strings.ToLower(u.Hostname()) + ":" + port
}
