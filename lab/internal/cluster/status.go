package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/lab/internal/process"
)

// State of a lab.
type State string

// States: a lab is Running when all its processes live and the API server is
// ready; Broken when it exists and is not.
const (
	Absent  State = "absent"
	Running State = "running"
	Broken  State = "broken"
)

// Status describes a lab.
type Status struct {
	Name       string      `json:"name"`
	State      State       `json:"state"`
	Fault      string      `json:"fault,omitempty"` // why it is broken
	Version    string      `json:"version,omitempty"`
	Nodes      int         `json:"nodes"`
	Created    time.Time   `json:"created,omitzero"`
	Server     string      `json:"server,omitempty"`
	Registry   string      `json:"registry,omitempty"` // host:port, as in oci://host:port/charts
	Kubeconfig string      `json:"kubeconfig,omitempty"`
	AuditLog   string      `json:"auditLog,omitempty"`
	Dir        string      `json:"dir,omitempty"`
	Components []Component `json:"components,omitempty"`
}

// Component is one process of a lab.
type Component struct {
	Name  string `json:"name"`
	PID   int    `json:"pid,omitempty"`
	Alive bool   `json:"alive"`
	Log   string `json:"log"`
}

// Status looks at the lab; it changes nothing.
func (l *Lab) Status(ctx context.Context) (Status, error) {
	if !l.Exists() {
		return Status{Name: l.Name, State: Absent}, nil
	}
	s := Status{
		Name: l.Name, State: Running, Version: l.Version, Nodes: l.Nodes, Created: l.Created, Dir: l.Dir,
		Server: l.Server(), Kubeconfig: l.Kubeconfig(), Registry: fmt.Sprintf("127.0.0.1:%d", l.Registry),
	}
	if l.Audit {
		s.AuditLog = l.AuditLog()
	}
	var dead []string
	for _, name := range Components(l.Nodes) {
		c := Component{Name: name, Log: l.Log(name)}
		r, err := process.Find(l.records(), name)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return s, err
		}
		if err == nil {
			c.PID, c.Alive = r.PID, r.Alive()
		}
		if !c.Alive {
			dead = append(dead, name)
		}
		s.Components = append(s.Components, c)
	}
	switch {
	case !l.Ready:
		s.Fault = "it was never brought up to its end"
	case len(dead) > 0:
		s.Fault = strings.Join(dead, ", ") + " not running"
	default:
		s.Fault = l.ping(ctx)
	}
	if s.Fault != "" {
		s.State = Broken
	}
	return s, nil
}

// ping says what is wrong with the API server, or nothing.
func (l *Lab) ping(ctx context.Context) string {
	client, err := l.client()
	if err != nil {
		return err.Error()
	}
	if _, err := client.get(ctx, "/readyz"); err != nil {
		return "API server: " + err.Error()
	}
	return ""
}
