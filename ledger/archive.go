package ledger

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// What the Secrets of a record are made of.
const (
	secretType = corev1.SecretType("kplan.dev/run")

	labelManaged = "app.kubernetes.io/managed-by"
	labelPlan    = "kplan.dev/plan"
	labelRun     = "kplan.dev/run"
	labelState   = "kplan.dev/state"
	labelPart    = "kplan.dev/part" // counts from 0

	annotationSummary = "kplan.dev/summary" // of part 0
	annotationParts   = "kplan.dev/parts"

	dataRecord = "record.json.gz"
	dataKey    = "key"

	// partSize is the most of a record that one Secret has: it may have 1 MiB of data.
	partSize = 1 << 20 * 9 / 10
	// mostBytes is the most that a record takes; a larger one goes without its events.
	mostBytes = 8 * partSize
	// recordsKept is how many runs of a plan a cluster keeps.
	recordsKept = 10
)

// Entry is a run whose record a cluster has.
type Entry struct {
	Summary
	parts int
}

// Records lists the runs of the place's plan that its cluster knows, newest first;
// those of all plans where the place names none. Records themselves are not read.
func (p Place) Records(ctx context.Context) ([]Entry, error) {
	selector := labelPart + "=0"
	if p.Plan != "" {
		selector += "," + labelPlan + "=" + p.Plan
	}
	// The data, which is most of a Secret, is left out.
	answer := p.Client.CoreV1().RESTClient().Get().Namespace(p.Namespace).Resource("secrets").
		VersionedParams(&metav1.ListOptions{LabelSelector: selector}, scheme.ParameterCodec).
		SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json").
		Do(ctx)
	if err := answer.Error(); err != nil { // Raw does not say what the API server says
		return nil, err
	}
	raw, err := answer.Raw()
	if err != nil {
		return nil, err
	}
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("reading the list of records: %w", err)
	}
	var out []Entry
	for _, o := range list.Items {
		e := Entry{}
		if json.Unmarshal([]byte(o.Annotations[annotationSummary]), &e.Summary) != nil || e.Run == "" {
			continue // somebody else's
		}
		e.parts, _ = strconv.Atoi(o.Annotations[annotationParts])
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b Entry) int { return newer(a.Summary, b.Summary) })
	return out, nil
}

// Record reads the record of a run, and the key of its digests.
func (p Place) Record(ctx context.Context, e Entry) (*Record, Key, error) {
	var (
		packed []byte
		key    Key
	)
	secrets := p.Client.CoreV1().Secrets(p.Namespace)
	for part := range max(e.parts, 1) {
		s, err := secrets.Get(ctx, partName(e.Plan, e.Run, part), metav1.GetOptions{})
		if err != nil {
			return nil, nil, err
		}
		packed = append(packed, s.Data[dataRecord]...)
		if k := s.Data[dataKey]; part == 0 && len(k) == keySize {
			key = k
		}
	}
	r, err := unpack(packed)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the record of run %s: %w", e.Run, err)
	}
	return r, key, nil
}

// write puts a record into its Secrets; parts says how many there are already. It
// returns how many there are then.
func (p Place) write(ctx context.Context, r *Record, key Key, parts int) (int, error) {
	chunks, err := split(r)
	if err != nil {
		return parts, err
	}
	// Part 0, which is found first, comes last, when the others are there.
	for i := range slices.Backward(chunks) {
		if err := p.put(ctx, p.secret(r, key, chunks, i), i < parts); err != nil {
			return parts, err
		}
	}
	return max(len(chunks), parts), nil
}

// secret makes the Secret of one part of a record.
func (p Place) secret(r *Record, key Key, chunks [][]byte, part int) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: partName(p.Plan, r.Run, part), Namespace: p.Namespace,
			Labels: map[string]string{
				labelManaged: manager, labelPlan: p.Plan, labelRun: r.Run, labelState: string(r.State), labelPart: strconv.Itoa(part),
			},
		},
		Type: secretType, Data: map[string][]byte{dataRecord: chunks[part]},
	}
	if r.Over() {
		s.Immutable = new(true)
	}
	if part == 0 {
		summary, _ := json.Marshal(r.Summary) // it has only what JSON can hold
		s.Annotations = map[string]string{annotationSummary: string(summary), annotationParts: strconv.Itoa(len(chunks))}
		s.Data[dataKey] = key
	}
	return s
}

// put writes a Secret, and makes the namespace if it is missing.
func (p Place) put(ctx context.Context, s *corev1.Secret, there bool) error {
	secrets := p.Client.CoreV1().Secrets(p.Namespace)
	if there {
		_, err := secrets.Update(ctx, s, metav1.UpdateOptions{FieldManager: manager})
		if !apierrors.IsNotFound(err) {
			return err
		}
	}
	_, err := secrets.Create(ctx, s, metav1.CreateOptions{FieldManager: manager})
	if apierrors.IsNotFound(err) {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.Namespace}}
		_, err = p.Client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{FieldManager: manager})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		_, err = secrets.Create(ctx, s, metav1.CreateOptions{FieldManager: manager})
	}
	if apierrors.IsAlreadyExists(err) { // an answer was lost
		_, err = secrets.Update(ctx, s, metav1.UpdateOptions{FieldManager: manager})
	}
	return err
}

// remove deletes the Secrets of a run, the one that is found first at last.
func (p Place) remove(ctx context.Context, e Entry) error {
	for part := max(e.parts, 1) - 1; part >= 0; part-- {
		err := p.Client.CoreV1().Secrets(p.Namespace).Delete(ctx, partName(e.Plan, e.Run, part), metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

func partName(plan, run string, part int) string {
	name := objectName(plan) + "-" + run
	if part > 0 {
		name += "-" + strconv.Itoa(part)
	}
	return name
}

// split packs a record, in parts of which each has room in a Secret.
func split(r *Record) ([][]byte, error) {
	packed, err := pack(r)
	if err == nil && len(packed) > mostBytes {
		short := *r
		short.Events = nil
		packed, err = pack(&short)
	}
	return slices.Collect(slices.Chunk(packed, partSize)), err
}

func pack(r *Record) ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if err := json.NewEncoder(z).Encode(r); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func unpack(b []byte) (*Record, error) {
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	const most = 1 << 30 // of memory
	text, err := io.ReadAll(io.LimitReader(z, most))
	if err != nil {
		return nil, err
	}
	r := &Record{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, err
	}
	if r.Version > recordVersion {
		return nil, fmt.Errorf("it is of version %d, and this kplan knows them up to %d", r.Version, recordVersion)
	}
	if r.Run == "" {
		return nil, errors.New("it is none")
	}
	return r, nil
}
