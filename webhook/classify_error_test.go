package webhook

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

const (
	race          = `failed calling webhook "race.example.io": failed to call webhook: Post "https://w.ns.svc:443/v?timeout=10s": EOF`
	overloaded    = `failed calling webhook "overloaded.example.io": failed to call webhook: the server is currently unable to handle the request`
	misconfigured = `failed calling webhook "misconfigured.example.io": failed to call webhook: the server does not allow this method on the requested resource`
)

// list is go-multierror's Error, of which nothing here is linked.
type list []error

func (l list) Error() string          { return fmt.Sprintf("%d errors occurred:\n\t* …\n\n", len(l)) }
func (l list) WrappedErrors() []error { return l }

// held is an error that knows its fault.
type held struct{ fault Fault }

func (h held) Error() string       { return "was held" }
func (h held) WebhookFault() Fault { return h.fault }

// cleanup is what Helm returns when cleaning up after a failure fails too.
func cleanup(first, second error) error {
	return fmt.Errorf("an error occurred while uninstalling the release. original install error: %s: %w", first.Error(), second)
}

func TestClassifyError(t *testing.T) {
	internal := func(text string) error { return apierrors.NewInternalError(errors.New(text)) }
	denied := &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 403, Message: `admission webhook "v.example.io" denied the request: no`,
	}}
	invalid := apierrors.NewInvalid(schema.GroupKind{Group: "example.io", Kind: "Widget"}, "w", nil)
	quoting := apierrors.NewInvalid(schema.GroupKind{Group: "example.io", Kind: internal(race).Error()}, "w", nil)
	noMatch := &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "example.io", Kind: "Widget"}, SearchedVersions: []string{"v1"}}
	plain := errors.New("timed out waiting for the condition")
	conversion := `conversion webhook for example.io/v1, Kind=Widget failed: Post "https://w.ns.svc:443/c": EOF`

	for name, tc := range map[string]struct {
		err  error
		want Class
	}{
		"no error":                         {nil, None},
		"an error of another kind":         {plain, None},
		"a status":                         {internal(race), Race},
		"a wrapped status":                 {fmt.Errorf("INSTALLATION FAILED: %w", fmt.Errorf("failed to create resource: %w", internal(race))), Race},
		"a status's text":                  {fmt.Errorf("cannot patch %q with kind Widget: %s", "w", internal(race).Error()), Race},
		"a text behind a wrapped error":    {fmt.Errorf("%w: %s", plain, internal(race).Error()), Race},
		"a wrapped status that quotes":     {fmt.Errorf("release failed: %w", quoting), None},
		"a held request":                   {fmt.Errorf("create: %w", held{Fault{Kind: Admission, Class: Misconfigured}}), Misconfigured},
		"a held request without a fault":   {held{}, None},
		"a missing kind":                   {fmt.Errorf("resource mapping not found: %w\nensure CRDs are installed first", noMatch), Race},
		"two races":                        {errors.Join(internal(race), internal(race)), Race},
		"two races, wrapped":               {fmt.Errorf("UPGRADE FAILED: %w", errors.Join(internal(race), fmt.Errorf("b: %w", internal(race)))), Race},
		"a race and an overload":           {errors.Join(internal(race), internal(overloaded)), Overloaded},
		"an overload and a misconfigured":  {errors.Join(internal(overloaded), internal(misconfigured), internal(race)), Misconfigured},
		"a race and an invalid object":     {errors.Join(internal(race), invalid), None},
		"a race and a plain error":         {errors.Join(internal(race), plain), None},
		"a sentinel and a race":            {fmt.Errorf("%w: %w", plain, internal(race)), None},
		"a denial":                         {fmt.Errorf("x: %w", denied), Denied},
		"a race and a denial":              {errors.Join(internal(race), denied), Denied},
		"a denial and a plain error":       {errors.Join(plain, denied), Denied},
		"a race that quotes a denial":      {fmt.Errorf("after %s: %w", denied.Error(), internal(race)), Denied},
		"an Aggregate":                     {utilerrors.NewAggregate([]error{internal(race), internal(race)}), Race},
		"an Aggregate with another":        {fmt.Errorf("x: %w", utilerrors.NewAggregate([]error{internal(race), invalid})), None},
		"go-multierror":                    {fmt.Errorf("x: %w", list{internal(race), internal(overloaded)}), Overloaded},
		"go-multierror with another":       {list{internal(race), plain}, None},
		"a list in a list":                 {errors.Join(list{internal(race), errors.Join(internal(race), denied)}), Denied},
		"an empty list":                    {list{}, None},
		"a list of texts":                  {errors.Join(errors.New(internal(race).Error()), errors.New(internal(race).Error())), Race},
		"Helm's failed cleanup":            {cleanup(plain, internal(race)), None},
		"Helm's failed cleanup of a race":  {cleanup(internal(race), internal(race)), Race},
		"Helm's failed cleanup, with text": {errors.New(cleanup(plain, internal(race)).Error()), None},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, ClassifyError(tc.err).Class)
		})
	}

	t.Run("one write that may be done makes the whole so", func(t *testing.T) {
		require.False(t, ClassifyError(errors.Join(internal(race), errors.New(conversion))).Retryable())
	})
	t.Run("the first of the deciding leaves is told", func(t *testing.T) {
		f := ClassifyError(errors.Join(internal(race), internal(misconfigured), internal(overloaded)))
		require.Equal(t, "misconfigured.example.io", f.Webhook)
	})
	t.Run("leaves", func(t *testing.T) {
		faults := Faults(errors.Join(internal(race), fmt.Errorf("x: %w", invalid), internal(overloaded)))
		require.Len(t, faults, 3)
		require.Equal(t, "race.example.io", faults[0].Webhook)
		require.Equal(t, Fault{Class: None}, faults[1])
		require.Equal(t, "overloaded.example.io", faults[2].Webhook)
		require.Nil(t, Faults(nil))
	})
}

// Texts are long when a server is asked for much, or is malicious.
func TestClassifyIsLinear(t *testing.T) {
	const size = 1 << 20
	for name, piece := range map[string]string{
		"letters":     "a",
		"lines":       "\n",
		"quotes":      `"`,
		"backslashes": `\`,
		"almost":      `admission webhook \"`,
		"denials":     `admission webhook "v" denied the reques`,
		"calls":       `failed calling webhook "v`,
		"races":       "Internal error occurred: " + race + "\n",
		"conversions": "conversion webhook for ",
		"separators":  "; && \n * ",
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Repeat(piece, size/len(piece))
			texts := []string{text, `Internal error occurred: failed calling webhook "v": ` + text, "1 error occurred: [" + text + "]"}
			for _, text := range texts {
				start := time.Now()
				ClassifyError(errors.New(text))
				Classify(internalError(text))
				// A few milliseconds each; what is quadratic takes minutes.
				// The bound is for busy machines and the race detector.
				require.Less(t, time.Since(start), 10*time.Second)
			}
		})
	}
}

func BenchmarkClassify(b *testing.B) {
	long := strings.Repeat("Internal error occurred: "+race+"\n", (1<<20)/(len(race)+26))
	for name, text := range map[string]string{
		"one": "INSTALLATION FAILED: Internal error occurred: " + race, "1MB": long,
		"1MB of separators": strings.Repeat("\n", 1<<20), "1MB of nothing": strings.Repeat("a", 1<<20),
		"1MB in one": "Internal error occurred: " + strings.Replace(race, "EOF", strings.Repeat("x509 ", 1<<18), 1),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				ClassifyError(errors.New(text))
			}
		})
	}
}

// A denial must never be taken for something that another try can mend,
// whatever the webhook puts into its message, and wherever the denial stands.
func FuzzClassify(f *testing.F) {
	for _, s := range append(recorded(f), wordings(f)...) {
		f.Add(s.text, "", int32(500))
		f.Add("", s.text, int32(403))
		f.Add("Internal error occurred: "+race+"\n\t* ", s.text, int32(500))
	}
	f.Fuzz(func(t *testing.T, before, text string, code int32) {
		s := &metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: metav1.StatusReasonInternalError, Message: before + text}
		if got := Classify(s); code < 500 && got.Retryable() {
			t.Fatalf("status %d is held: %q", code, s.Message)
		}
		if got := ClassifyError(errors.New(before + text)); got.Retryable() && ClassifyError(errors.New(before+text+"\nelse")).Retryable() {
			t.Fatalf("another error is held: %q", before+text)
		}
		denial := `admission webhook "v.example.io" denied the request: ` + text
		s.Message = denial
		status := &apierrors.StatusError{ErrStatus: *s}
		for _, err := range []error{
			status,
			errors.New(before + denial),
			fmt.Errorf("%s%w", before, status),
			errors.New(before + strings.ReplaceAll(denial, `"`, `\"`)),
			errors.Join(errors.New(before), errors.New(text), status),
			errors.Join(apierrors.NewInternalError(errors.New(race)), fmt.Errorf("x: %w", status)),
			list{errors.New(text), errors.New(before + denial)},
			apierrors.NewInternalError(errors.New(before + denial)),
		} {
			if got := ClassifyError(err); got.Class != Denied || got.Retryable() {
				t.Fatalf("a denial is %s: %q", got.Class, err)
			}
		}
	})
}
