package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dns "k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/data"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/steps/preflight"
	"github.com/kplan-dev/kplan/steps/rights"
)

// rbacTable is the format for people.
const rbacTable data.Format = "table"

// rbacOptions are the flags of rbac.
type rbacOptions struct {
	*app
	inputs  *load.Options
	picked  *plan.Selection
	output  data.Format
	name    string
	account string
	records *[]string
}

func newRBAC(a *app) *cobra.Command {
	o := &rbacOptions{app: a, output: data.YAML}
	cmd := &cobra.Command{
		Use:   "rbac [PLAN]",
		Short: "Write the least RBAC roles that a plan needs",
		Long: `Write the Roles, and the ClusterRole for the rest, that a user needs to run a plan and no more: for the objects of its charts and manifests, waits,
deletions, outputs and webhook steps, for the records of Helm's releases, and for the plan's lock and the records of its runs. Without PLAN it is
plan.yaml of the current folder. Charts are fetched and rendered; the plan's clusters are asked what they serve, and nothing else.

Rights are bound to the names of objects where those are known, but for create, which cannot be. With --service-account the bindings for it are
written too. Namespaces that the plan makes, and that are not there, come first, since a Role is in one. Of a plan with several clusters each has its own part.

Who makes Roles and bindings needs the rights that these grant, or the verbs escalate and bind on them: a comment says for which objects that is so.
What cannot be told before the run, such as what a deferred step sends, is said as a warning on stderr.

Exit codes: 0 written, 1 a cluster cannot be asked, 2 bad plan or usage.`,
		Example: `  kplan rbac plan.yaml
  kplan rbac plan.yaml --service-account ci/deployer | kubectl apply -f -
  kplan rbac plan.yaml --name eso-installer --var-file production.yaml
  kplan rbac plan.yaml -o table
  kplan rbac plan.yaml -o json | jq '.[].rules[] | select(.verb == "escalate")'`,
		Args:              onePlan,
		ValidArgsFunction: planFiles,
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	o.inputs = addInputs(cmd)
	o.picked = addSelection(cmd, o.inputs)
	o.addFetching(cmd)
	flags := cmd.Flags()
	flags.StringVar(&o.name, "name", "", "name of the roles and bindings (default: kplan-PLAN)")
	flags.StringVar(&o.account, "service-account", "", "bind the roles to this service account, as `NAMESPACE/NAME`")
	o.records = addRecordIn(cmd)
	addFormat(cmd, &o.output, "how to write them: yaml, to be applied; table, by what needs them; json, as data", data.YAML, rbacTable, data.JSON)
	return cmd
}

func (o *rbacOptions) run(ctx context.Context, args []string) error {
	if err := o.check(); err != nil {
		return err
	}
	path, err := o.choosePlan(args, false)
	if err != nil {
		return err
	}
	p, err := o.read(path, *o.inputs)
	if err != nil {
		return &usageError{err: err}
	}
	if err := p.Select(*o.picked); err != nil {
		return &usageError{err: err}
	}
	from, err := o.sources(p)
	if err != nil {
		return err
	}
	needed, err := preflight.Needs(ctx, p, o.flags, from, userAgent(), slices.Contains(*o.records, inCluster))
	if err != nil {
		return err
	}
	for _, n := range needed {
		for _, note := range n.Notes {
			if note.Unknown {
				fmt.Fprintf(o.stderr, "warning: rights are missing: %s\n", o.oneLine(noteText(note)))
			}
		}
	}
	switch o.output {
	case rbacTable:
		return o.table(needed)
	case data.JSON:
		return o.print(data.JSON, o.list(needed))
	default:
		return o.manifests(p, needed)
	}
}

// check looks at the flags.
func (o *rbacOptions) check() error {
	if err := checkRecordIn(*o.records); err != nil {
		return err
	}
	if o.name != "" && len(dns.IsDNS1123Subdomain(o.name)) > 0 {
		return usagef("--name: %q is no name of an object: %s", o.name, dns.IsDNS1123Subdomain(o.name)[0])
	}
	if namespace, name, ok := strings.Cut(o.account, "/"); o.account != "" && (!ok || namespace == "" || name == "" || strings.Contains(name, "/")) {
		return usagef("--service-account %q is not NAMESPACE/NAME", o.account)
	}
	return nil
}

// noteText is a note with its step.
func noteText(n rights.Note) string {
	if n.Step == "" {
		return n.Text
	}
	return fmt.Sprintf("step %q: %s", n.Step, n.Text)
}

// manifests writes the objects that grant the rights, with comments for each cluster.
func (o *rbacOptions) manifests(p *plan.Plan, needed []preflight.Needed) error {
	var out bytes.Buffer
	for _, n := range needed {
		fmt.Fprintf(&out, "# What plan %s needs on %s.\n", words.Clean(p.Metadata.Name), words.Clean(words.Join(": ", n.Cluster, n.About)))
		for _, note := range n.Notes {
			fmt.Fprintf(&out, "# %s\n", words.Line(noteText(note)))
		}
		roles := rights.RolesOf(n.Rules, rights.Grant{Name: cmp.Or(o.name, "kplan-"+p.Metadata.Name), Account: o.account})
		var objects []any
		for _, namespace := range rights.NamespacesOf(roles, func(name string) bool { return n.Makes[name] && !builtin(name) }) {
			objects = append(objects, namespace)
		}
		for _, object := range append(objects, roles.Objects()...) {
			text, err := yamlOf(object)
			if err != nil {
				return fmt.Errorf("writing the roles: %w", err)
			}
			fmt.Fprintf(&out, "---\n%s", text)
		}
	}
	_, err := io.WriteString(o.stdout, o.secrets().Text(out.String()))
	return err
}

// builtin reports whether every cluster has a namespace.
func builtin(namespace string) bool {
	return namespace == "default" || strings.HasPrefix(namespace, "kube-")
}

// yamlOf writes an object without the fields that only a cluster fills.
func yamlOf(object any) ([]byte, error) {
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	u := map[string]any{}
	if err := json.Unmarshal(raw, &u); err != nil {
		return nil, err
	}
	unstructured.RemoveNestedField(u, "metadata", "creationTimestamp")
	for _, field := range []string{"spec", "status"} {
		if m, is := u[field].(map[string]any); is && len(m) == 0 {
			delete(u, field)
		}
	}
	return yaml.Marshal(u)
}

// table writes the rights by what needs them.
func (o *rbacOptions) table(needed []preflight.Needed) error {
	var out bytes.Buffer
	for i, n := range needed {
		if i > 0 {
			fmt.Fprintln(&out)
		}
		if len(needed) > 1 {
			fmt.Fprintf(&out, "%s\n", words.Join(": ", n.Cluster, n.About))
		}
		w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "STEP\tFOR\tNAMESPACE\tRESOURCE\tVERBS\tNAMES")
		for _, row := range rowsOf(n.Rules) {
			fmt.Fprintln(w, strings.Join(row, "\t"))
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	_, err := io.WriteString(o.stdout, words.Clean(o.secrets().Text(out.String())))
	return err
}

// rowsOf puts the verbs of one purpose, resource and place into one row each.
func rowsOf(rules []rights.Rule) [][]string {
	var rows [][]string
	at := map[string]int{}
	for _, r := range rules {
		resource := cmp.Or(r.URL, schema.GroupResource{Group: r.Group, Resource: r.Resource}.String())
		row := []string{cmp.Or(r.Step, "-"), r.For, cmp.Or(r.Namespace, "-"), resource, r.Verb, cmp.Or(strings.Join(r.Names, " "), "-")}
		key := strings.Join(slices.Concat(row[:4], row[5:]), "\x00")
		if i, known := at[key]; known {
			rows[i][4] += "," + r.Verb
			continue
		}
		at[key] = len(rows)
		rows = append(rows, row)
	}
	return rows
}

// rbacCluster is what a plan needs on one cluster, as data.
type rbacCluster struct {
	Cluster string     `json:"cluster,omitempty"`
	About   string     `json:"about"`
	Rules   []rbacRule `json:"rules"`
	Notes   []string   `json:"notes,omitempty"`
}

// rbacRule is one right, as data.
type rbacRule struct {
	Step      string   `json:"step,omitempty"`
	For       string   `json:"for"`
	Namespace string   `json:"namespace,omitempty"`
	Group     string   `json:"group,omitempty"`
	Resource  string   `json:"resource,omitempty"`
	URL       string   `json:"url,omitempty"`
	Verb      string   `json:"verb"`
	Names     []string `json:"names,omitempty"`
	Optional  bool     `json:"optional,omitempty"`
}

// list gives the rights as data.
func (o *rbacOptions) list(needed []preflight.Needed) []rbacCluster {
	all := []rbacCluster{}
	for _, n := range needed {
		c := rbacCluster{Cluster: n.Cluster, About: n.About, Rules: []rbacRule{}}
		for _, r := range n.Rules {
			c.Rules = append(c.Rules, rbacRule{r.Step, r.For, r.Namespace, r.Group, r.Resource, r.URL, r.Verb, r.Names, r.Optional})
		}
		for _, note := range n.Notes {
			c.Notes = append(c.Notes, noteText(note))
		}
		all = append(all, c)
	}
	return all
}
