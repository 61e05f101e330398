package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io/fs"
	"math/big"
	"net/http"
	"time"
)

// repository is where GitHub has the releases of kplan.
const repository = "/kplan-dev/kplan/releases"

// releases serves the files of one release. As on GitHub, /latest/… is another name for
// the newest version, by a redirect.
func releases(files fs.FS, version string) http.Handler {
	mux := http.NewServeMux()
	to := func(path string) string { return repository + "/download/" + version + "/" + path }
	mux.HandleFunc("GET "+repository+"/latest", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, repository+"/tag/"+version, http.StatusFound)
	})
	mux.HandleFunc("GET "+repository+"/tag/"+version, func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET "+repository+"/latest/download/{file}", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, to(r.PathValue("file")), http.StatusFound)
	})
	mux.HandleFunc("GET "+to("{file}"), func(w http.ResponseWriter, r *http.Request) {
		http.ServeFileFS(w, r, files, r.PathValue("file"))
	})
	return mux
}

// certificate makes a key and its certificate for a host, valid for a day from a time, and
// the certificate in PEM for who is to trust it.
func certificate(host string, from time.Time) (tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "stands for " + host},
		DNSNames:              []string{host},
		NotBefore:             from.Add(-time.Hour),
		NotAfter:              from.Add(24 * time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, ca, nil
}
