// Command host stands for the place where releases are, so that the documentation's
// commands can be tried before there is a release, or without the network.
//
// It serves the files of a folder, such as dist, under the addresses that GitHub gives the
// files of a release, by TLS, on a free port of the loopback interface. Commands with curl
// go there unchanged where the .curlrc that it writes is in HOME: it sends what is for
// github.com to that port, and trusts a certificate made for this one run. It ends with
// its standard input, or when it is killed. It does not stand for GitHub's API.
package main

import (
	"cmp"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

func main() {
	flags := flag.NewFlagSet("host", flag.ExitOnError)
	version := flags.String("version", "v0.0.0", "version that is the newest, and the only one")
	name := flags.String("as", "", "what HOME is called by who uses it, as in a container")
	flags.Usage = func() { fmt.Fprintln(os.Stderr, "usage: host [--version VERSION] [--as NAME] FOLDER HOME") }
	_ = flags.Parse(os.Args[1:]) // it exits by itself
	if flags.NArg() != 2 {
		flags.Usage()
		os.Exit(2)
	}
	if err := run(*version, flags.Arg(0), flags.Arg(1), cmp.Or(*name, flags.Arg(1))); err != nil {
		fmt.Fprintln(os.Stderr, "host:", err)
		os.Exit(1)
	}
}

// run serves the files of folder until standard input ends. The .curlrc goes to home,
// which its user calls name.
func run(version, folder, home, name string) error {
	cert, ca, err := certificate("github.com", time.Now())
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if err := writeCurlrc(home, name, ca, l.Addr()); err != nil {
		return err
	}
	server := &http.Server{
		Handler:           releases(os.DirFS(folder), version),
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: 10 * time.Second,
	}
	fmt.Println(l.Addr()) // who started it waits for this line
	go func() {           // it ends with the program
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = server.Close()
	}()
	if err := server.ServeTLS(l, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// writeCurlrc writes the certificate and a .curlrc to home, which its user calls name.
func writeCurlrc(home, name string, ca []byte, at net.Addr) error {
	if err := os.WriteFile(filepath.Join(home, ".releases.crt"), ca, 0o644); err != nil { //nolint:gosec // it is public
		return err
	}
	rc := fmt.Sprintf("connect-to = \"github.com:443:%s\"\ncacert = \"%s\"\n", at, filepath.Join(name, ".releases.crt"))
	return os.WriteFile(filepath.Join(home, ".curlrc"), []byte(rc), 0o644) //nolint:gosec // it has no secret
}
