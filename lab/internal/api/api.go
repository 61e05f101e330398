// Package api is the little of the Kubernetes API that the lab itself needs:
// is it ready, read an object, apply an object. Plain HTTP, so that the lab's
// command does not link client-go and builds in seconds.
//
// It does not watch, list or retry; callers poll.
package api

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Client talks to one API server.
type Client struct {
	server string
	http   *http.Client
}

// New makes a client of server (https://host:port), which trusts ca and shows
// the client certificate; all PEM.
func New(server string, ca, cert, key []byte) (*Client, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("client certificate: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New("certificate authority: no certificate in it")
	}
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}},
		ForceAttemptHTTP2: true,
		Proxy:             nil, // the lab is never behind one
	}
	return &Client{server: server, http: &http.Client{Transport: transport, Timeout: 5 * time.Second}}, nil
}

// Close drops the connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Get reads path into out (JSON); out nil only asks for success.
func (c *Client) Get(ctx context.Context, path string, out any) error {
	return c.do(ctx, http.MethodGet, path, nil, out)
}

// Apply creates or changes the object at path, given as YAML, by server-side
// apply as field manager kplan-lab.
func (c *Client) Apply(ctx context.Context, path string, yaml []byte) error {
	return c.do(ctx, http.MethodPatch, path+"?fieldManager=kplan-lab&force=true", yaml, nil)
}

func (c *Client) do(ctx context.Context, method, path string, body []byte, out any) error {
	request, err := http.NewRequestWithContext(ctx, method, c.server+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/apply-patch+yaml")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, 16<<20))
	if err != nil {
		return err
	}
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("%s: status %d: %.300s", path, response.StatusCode, data)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(data, out)
}

// object is the part of a node, pod or similar that Ready reads, or of a list of such.
type object struct {
	Kind   string
	Items  []object
	Status struct {
		Conditions []struct{ Type, Status string }
	}
}

func (o object) ready() bool {
	for _, condition := range o.Status.Conditions {
		if condition.Type == "Ready" {
			return condition.Status == "True"
		}
	}
	return false
}

// Ready reports by an error unless the object at path exists with a true Ready
// condition; a list is ready when it has items and all are.
func (c *Client) Ready(ctx context.Context, path string) error {
	var found object
	if err := c.Get(ctx, path, &found); err != nil {
		return err
	}
	switch {
	case strings.HasSuffix(found.Kind, "List") && len(found.Items) == 0:
		return fmt.Errorf("%s: none yet", path)
	case found.Items == nil:
		found.Items = []object{found}
	}
	if slices.ContainsFunc(found.Items, func(o object) bool { return !o.ready() }) {
		return fmt.Errorf("%s: not ready yet", path)
	}
	return nil
}
