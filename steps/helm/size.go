package helm

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/engine"
)

// suspicious is from how many bytes on, before they are compressed, a release may be too
// large for a Secret: even what cannot be compressed grows by a third only.
const suspicious = corev1.MaxSecretSize * 5 / 8

// fits looks whether the release's record will fit into a Secret, before anything is sent:
// the API server refuses it only once the crds folder and the namespace are there. Small
// charts are not rendered for it; see recorder.Create for what they make.
func (o *operation) fits() error {
	if sizeOf(o.chart) < suspicious {
		return nil
	}
	rel := &engine.Release{Chart: o.chart, Config: o.values}
	if err := tooLarge(rel); err != nil {
		return err
	}
	ch, err := o.Source.Load(o.ctx)
	if err != nil {
		return err
	}
	options, err := o.engineOptions()
	if err != nil {
		return err
	}
	rel, err = o.Over(blind{}, imagined{&engine.Release{}}).Install(ch, o.values,
		engine.Install{Name: o.ReleaseName, Namespace: o.Namespace, DryRun: true, Options: options})
	if err != nil {
		return nil // it may want what the crds folder brings; Helm says what is wrong
	}
	return tooLarge(rel)
}

// sizeOf is how many bytes of a chart a record has, before they are compressed.
func sizeOf(ch *engine.Chart) int {
	n := len(ch.Schema)
	for _, f := range slices.Concat(ch.Templates, ch.Files) {
		n += len(f.Data)
	}
	for _, sub := range ch.Dependencies() {
		n += sizeOf(sub)
	}
	return n
}

// tooLarge tells that a release's record does not fit into a Secret, and what of it is
// largest. Helm 3 and 4 write the same JSON, compressed and then encoded
// (helm.sh/helm/v4 pkg/storage/driver/util.go).
func tooLarge(r *engine.Release) error {
	n := len(r.Manifest)
	if r.Chart != nil {
		n += sizeOf(r.Chart)
	}
	if n < suspicious {
		return nil
	}
	size := recordSize(r)
	if size <= corev1.MaxSecretSize {
		return nil
	}
	parts := []part{{"what the chart renders to", recordSize(r.Manifest) + recordSize(r.Hooks)}, {"the values", recordSize(r.Config)}}
	if r.Chart != nil {
		parts = append(parts, partsOf(r.Chart, "")...)
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Or(b.size-a.size, strings.Compare(a.name, b.name)) })
	var largest []string
	for _, p := range parts[:min(len(parts), 3)] {
		largest = append(largest, p.name+" "+mib(p.size))
	}
	return runner.WithHint(runner.Permanent(fmt.Errorf("the release's record takes %s, and a Secret at most %s; largest in it: %s",
		mib(size), mib(corev1.MaxSecretSize), strings.Join(largest, ", "))),
		"the chart is recorded whole, packed: name files that no template reads in its .helmignore, part the chart, or send large files with an apply step")
}

// part is a part of a record, and how many bytes it takes of it.
type part struct {
	name string
	size int
}

func partsOf(ch *engine.Chart, at string) []part {
	parts := []part{{at + "values.schema.json", recordSize(string(ch.Schema))}}
	for _, f := range slices.Concat(ch.Templates, ch.Files) {
		parts = append(parts, part{at + f.Name, recordSize(f.Data)})
	}
	for _, sub := range ch.Dependencies() {
		parts = append(parts, partsOf(sub, at+"charts/"+sub.Name()+"/")...)
	}
	return parts
}

// recordSize is how many bytes something takes in a record.
func recordSize(of any) int {
	b, err := json.Marshal(of)
	if err != nil {
		return 0
	}
	var out bytes.Buffer
	zip, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // as Helm
	_, _ = zip.Write(b)                                       // to memory
	_ = zip.Close()
	return base64.StdEncoding.EncodedLen(out.Len())
}

func mib(n int) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d KiB", (n+1023)>>10)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
