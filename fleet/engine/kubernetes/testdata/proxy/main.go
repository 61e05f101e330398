// Command proxy makes many clusters of one: below /c/NAME/ is the API server, in which
// NAME's kplan-system is a namespace of its own.
package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"hash/crc32"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"
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
			own := fmt.Sprintf("kplan-%06x", crc32.ChecksumIEEE([]byte(name))&0xffffff) // as long as the other: a body may be protobuf
			r.Out.URL.Path, r.Out.URL.RawPath = "/"+strings.Replace(rest, system, own, 1), ""
			if r.Out.Body == nil || r.Out.ContentLength <= 0 {
				return
			}
			body, err := io.ReadAll(r.Out.Body)
			if err != nil {
				return
			}
			r.Out.Body = io.NopCloser(bytes.NewReader(bytes.ReplaceAll(body, []byte(system), []byte(own))))
		},
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		log.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{ //nolint:gosec // of a test
		Addr: ":8080", Handler: proxy, TLSConfig: &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: key}}},
	}
	log.Fatal(server.ListenAndServeTLS("", ""))
}
