package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/data"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/doctor"
	"github.com/kplan-dev/kplan/plan/document"
)

// maxObjects is how many bytes the file of --why-not-called may have.
const maxObjects = 16 << 20

// objectCalls are the webhooks of a cluster as one object meets them.
type objectCalls struct {
	Object string        `json:"object"`
	Calls  []doctor.Call `json:"calls"`
}

// calls tells which webhooks are called for the objects of a file, and why others are
// not.
func (e *examination) calls(ctx context.Context) error {
	objects, err := e.objects()
	if err != nil {
		return err
	}
	ctx, cancel := e.within(ctx)
	defer cancel()
	told, failed := []objectCalls{}, []error(nil)
	for _, at := range e.places {
		c, err := doctor.New(at.Config, at.Default)
		if err != nil {
			return err
		}
		for _, o := range objects {
			calls, err := c.WhyNotCalled(ctx, o)
			if err != nil {
				failed = append(failed, fmt.Errorf("%s/%s: %w", o.GetKind(), o.GetName(), err))
				continue
			}
			told = append(told, objectCalls{o.GetKind() + "/" + o.GetName(), calls})
		}
	}
	if e.output == data.JSON || e.output == data.YAML {
		err = e.print(e.output, told)
	} else {
		_, err = io.WriteString(e.stdout, words.Clean(callsText(told)))
	}
	return errors.Join(append(failed, err)...)
}

// objects reads the file, or standard input for -.
func (e *examination) objects() ([]*unstructured.Unstructured, error) {
	from := e.stdin
	if e.object != "-" {
		f, err := os.Open(e.object)
		if err != nil {
			return nil, &usageError{err: err}
		}
		defer f.Close()
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, maxObjects+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxObjects:
		return nil, usagef("%s has more than %d MiB", e.object, maxObjects>>20)
	}
	var objects []*unstructured.Unstructured
	for _, doc := range document.Split(text) {
		var content map[string]any
		if err := yaml.Unmarshal(doc.Text, &content); err != nil {
			return nil, usagef("%s: %w", e.object, err)
		}
		if len(content) == 0 {
			continue
		}
		o := &unstructured.Unstructured{Object: content}
		if o.GetKind() == "" || o.GetAPIVersion() == "" {
			return nil, usagef("%s: an object has no apiVersion or kind", e.object)
		}
		if !o.IsList() {
			objects = append(objects, o)
			continue
		}
		list, err := o.ToList()
		if err != nil {
			return nil, usagef("%s: %w", e.object, err)
		}
		for i := range list.Items {
			objects = append(objects, &list.Items[i])
		}
	}
	if len(objects) == 0 {
		return nil, &usageError{err: errors.New(e.object + " has no object")}
	}
	return objects, nil
}

// callsText is a table for each object.
func callsText(told []objectCalls) string {
	var b strings.Builder
	for i, t := range told {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s\n", t.Object)
		if len(t.Calls) == 0 {
			b.WriteString("the cluster has no admission webhooks\n")
			continue
		}
		rows := [][]string{{"OPERATION", "WEBHOOK", "CALLED", "WHY"}}
		for _, c := range t.Calls {
			rows = append(rows, []string{string(c.Operation), c.Configuration + " " + c.Webhook, string(c.Outcome), words.Join("; ", words.Line(c.Reason), words.Line(c.Trouble))})
		}
		b.WriteString(words.Table(rows, func(_, _ int, cell, pad string) string { return cell + pad }))
	}
	return b.String()
}
