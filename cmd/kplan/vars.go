package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/data"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/load"
)

func newVars(a *app) *cobra.Command {
	var (
		in     *load.Options
		output data.Format
	)
	cmd := &cobra.Command{
		Use:   "vars [PLAN]",
		Short: "Show a plan's variables and where their values come from",
		Long: `Show the variables that a plan declares, the value of each, and who gives it: of several the first of --set, the last --var-file,
the environment variable that the plan names, the Secret or ConfigMap, and the default. No cluster is asked: values from a Secret or
ConfigMap are read when a step needs them. Without PLAN it is plan.yaml of the current folder.

Values of sensitive variables are shown as (sensitive), wide ones are cut; with -o they are whole. Whatever else is wrong with the plan,
its variables are shown.

Exit codes: 0 every variable has a value that it takes, 2 one has not, or the file cannot be read.`,
		Example: `  kplan vars plan.yaml
  kplan vars plan.yaml --var-file production.yaml --set eso_version=0.11.0
  kplan vars plan.yaml -o json | jq -r '.variables[] | select(.source == "default") | .name'`,
		Args:              onePlan,
		ValidArgsFunction: planFiles,
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := a.choosePlan(args, false)
			if err != nil {
				return err
			}
			return (&variablesOf{a, output}).show(path, *in)
		},
	}
	in = addInputs(cmd)
	addFormat(cmd, &output, "write the variables to stdout, as json or yaml", data.JSON, data.YAML)
	return cmd
}

// variables are those of a plan, for programs.
type variables struct {
	File        string               `json:"file"`
	Plan        string               `json:"plan,omitempty"`
	Variables   []variable           `json:"variables"`
	Diagnostics document.Diagnostics `json:"diagnostics"`
}

// variable is one of them. Without value it has none, or none that is known yet.
type variable struct {
	Name        string          `json:"name"`
	Type        plan.VarType    `json:"type"`
	Description string          `json:"description,omitempty"`
	Value       json.RawMessage `json:"value,omitempty"`
	// Source says who gives the value; "" when nobody does.
	Source plan.VarSource `json:"source"`
	// From is Source with its place, as the table shows it.
	From      string `json:"from"`
	Sensitive bool   `json:"sensitive,omitempty"`
	Late      bool   `json:"late,omitempty"`
	Invalid   bool   `json:"invalid,omitempty"`
}

// variablesOf shows the variables of plans.
type variablesOf struct {
	*app
	output data.Format
}

// show writes the variables of one plan to stdout.
func (o *variablesOf) show(path string, in load.Options) error {
	file, err := o.open(path, &in)
	if err != nil {
		return err
	}
	in.Decrypter = o.keys
	p, err := load.Vars(file, in)
	if p == nil {
		return err
	}
	o.keep(p)
	all := variables{File: path, Plan: p.Metadata.Name, Variables: []variable{}, Diagnostics: document.Diagnostics{}}
	for _, v := range p.Variables {
		x := variable{
			Name: v.Name, Type: v.Type, Description: v.Description, Source: v.Source, From: origin(v),
			Sensitive: v.Sensitive, Late: v.Deferred, Invalid: v.Invalid,
		}
		if !v.Deferred && !v.Invalid {
			var b bytes.Buffer
			e := json.NewEncoder(&b)
			e.SetEscapeHTML(false)
			if err := e.Encode(v.Shown()); err != nil {
				return err
			}
			x.Value = b.Bytes()
		}
		all.Variables = append(all.Variables, x)
	}
	if o.output == "" {
		return errors.Join(o.table(all.Variables), err)
	}
	if err != nil && !errors.As(err, &all.Diagnostics) {
		return err
	}
	if e := o.print(o.output, all); e != nil {
		return e
	}
	if err != nil {
		return &shownError{err}
	}
	return nil
}

// origin says in words who gives the value.
func origin(v plan.Variable) string {
	switch v.Source {
	case plan.SourceDefault:
		return "default at " + v.Pos().String()
	case plan.SourceSet:
		return "--set"
	case plan.SourceVarFile, plan.SourceInclude:
		return v.Pos().String()
	case plan.SourceFleet:
		return "the fleet"
	case plan.SourceEnv:
		return "env " + v.Env
	case plan.SourceSecret:
		return "Secret " + keyPath(*v.Ref) + " (when a step needs it)"
	case plan.SourceConfigMap:
		return "ConfigMap " + keyPath(*v.Ref) + " (when a step needs it)"
	}
	return "not set!"
}

// keyPath writes CLUSTER/NAMESPACE/NAME KEY, as far as the plan says them.
func keyPath(k plan.KeyRef) string {
	return words.Join("/", k.Cluster, k.Namespace, k.Name) + " " + k.Key
}

// widestValue and widestText are how many characters of a value and of another
// text the table shows.
const (
	widestValue = 48
	widestText  = 80
)

// table writes a line for each variable.
func (o *variablesOf) table(all []variable) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(o.stdout, "the plan declares no variables")
		return err
	}
	rows := [][]string{{"NAME", "VALUE", "SOURCE", "TYPE", "DESCRIPTION"}}
	for _, v := range all {
		rows = append(rows, []string{v.Name, cell(v), v.From, string(v.Type), v.Description})
	}
	for i, row := range rows {
		for j, text := range row {
			most := widestText
			if j == 1 {
				most = widestValue
			}
			rows[i][j] = words.Cut(o.oneLine(text), most, "…")
		}
	}
	if _, err := io.WriteString(o.stdout, words.Table(rows, nil)); err != nil {
		return fmt.Errorf("writing the variables: %w", err)
	}
	return nil
}

// cell is a variable's value as the table shows it: a text without quotes unless
// it would look like something else.
func cell(v variable) string {
	switch {
	case v.Late, v.Source == "":
		return "-"
	case v.Invalid:
		return "invalid!"
	}
	var text string
	if json.Unmarshal(v.Value, &text) != nil {
		return string(v.Value)
	}
	if text == "" || text == "-" || text == "invalid!" || strings.TrimSpace(text) != text || strings.ContainsAny(text, "\"\r\n\t") || strings.Contains(text, "  ") {
		return strconv.Quote(text)
	}
	return text
}
