// Command proxy makes many clusters of one: below /c/NAME/ is the API server, in which
// NAME's kplan-system is a namespace of its own.
package main

import (
	"bytes"
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
)

const system = "kplan-system"

func main() {
	to, err := url.Parse("https://kubernetes.default.svc")
	if err != nil {
		log.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1,
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: 100},
		Rewrite: func(r *httputil.ProxyRequest) {
			name, rest, _ := strings.Cut(strings.TrimPrefix(r.In.URL.Path, "/c/"), "/")
			r.SetURL(to)
			r.Out.URL.Path, r.Out.URL.RawPath = "/"+strings.Replace(rest, "/"+system, "/"+system+"-"+name, 1), ""
			if r.Out.Body == nil || r.Out.ContentLength <= 0 || !strings.Contains(r.Out.Header.Get("Content-Type"), "json") {
				return
			}
			body, err := io.ReadAll(r.Out.Body)
			if err != nil {
				return
			}
			body = bytes.ReplaceAll(body, []byte(`"`+system+`"`), []byte(`"`+system+"-"+name+`"`))
			r.Out.Body, r.Out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		},
	}
	log.Fatal(http.ListenAndServe(":8080", proxy)) //nolint:gosec // of a test
}
