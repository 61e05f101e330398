package webhook

import (
	"errors"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// faultError is an error that knows its fault, such as that of a held request.
type faultError interface {
	error
	WebhookFault() Fault
}

// ClassifyError judges an error of any client: what all of its leaves have in
// common. A denial in any leaf makes the whole denied; else a leaf that is not
// about a webhook makes it None; else the worst class counts, in the order
// Misconfigured, Overloaded, Race. So the whole is a race only if every leaf is
// one, and a retry of it can mend all of them. The fault is that of the first
// leaf with the deciding class.
//
// An error may quote another one as text, before or behind what it wraps. A
// denial is found wherever it stands.
func ClassifyError(err error) Fault {
	return worst(Faults(err))
}

// Faults is the fault of each leaf of err, in order; nil for no error. A leaf
// is an error that wraps no other and is not a list, a status of an API server, or
// an error with a method WebhookFault() Fault. Lists are those of errors.Join
// (and any other Unwrap() []error), of k8s.io/apimachinery's Aggregate and of
// go-multierror; an error of which only the text is left is split where texts of
// errors are joined. Where no leaf has more than a text, the text of what wraps it
// counts. A text can quote what it likes: use it to explain, or to try a whole step
// again, never to send a single request again.
func Faults(err error) []Fault {
	if err == nil {
		return nil
	}
	faults, _ := walk(err)
	if worst(faults).Class != Denied {
		if f, ok := denial(err.Error()); ok {
			faults = append(faults, f)
		}
	}
	return faults
}

// walk returns the faults of err, and whether a leaf is known by more than its text.
func walk(err error) (faults []Fault, structured bool) {
	//nolint:errorlint // The walk itself looks through every wrapping.
	switch e := err.(type) {
	case faultError:
		f := e.WebhookFault()
		if f.Class == "" {
			f.Class = None
		}
		return []Fault{f}, true
	case apierrors.APIStatus:
		s := e.Status()
		return []Fault{Classify(&s)}, true
	case interface{ Unwrap() []error }: // errors.Join, fmt.Errorf with several %w
		return walkAll(e.Unwrap())
	case interface{ Errors() []error }: // k8s.io/apimachinery/pkg/util/errors
		return walkAll(e.Errors())
	case interface{ WrappedErrors() []error }: // github.com/hashicorp/go-multierror
		return walkAll(e.WrappedErrors())
	}
	inner := errors.Unwrap(err)
	if inner == nil {
		return textFaults(err.Error()), false
	}
	faults, structured = walk(inner)
	own, _ := strings.CutSuffix(err.Error(), inner.Error())
	if first, ok := original(own); ok {
		return append(textFaults(first), faults...), structured
	}
	if !structured && len(faults) == 1 && faults[0].Class == None {
		return textFaults(err.Error()), false
	}
	return faults, structured
}

func walkAll(errs []error) (faults []Fault, structured bool) {
	for _, err := range errs {
		if err == nil {
			continue
		}
		f, s := walk(err)
		faults, structured = append(faults, f...), structured || s
	}
	if faults == nil {
		faults = []Fault{{Class: None}}
	}
	return faults, structured
}

// original finds the error that Helm quotes before the one that it wraps: what
// failed first, when cleaning up after it failed too (helm.sh/helm/v3
// pkg/action install.go, upgrade.go and rollback.go).
func original(own string) (string, bool) {
	for _, verb := range []string{"install", "upgrade", "rollback"} {
		if _, first, ok := strings.Cut(own, "original "+verb+" error: "); ok {
			return strings.TrimSuffix(first, ": "), first != ""
		}
	}
	return "", false
}

// textFaults is the fault of each leaf of a text. Texts are split where Helm and
// others join errors: at line breaks, "; ", " && ", and the list of go-multierror
// ("2 errors occurred:"). Any text may stand before that of the API server.
func textFaults(text string) []Fault {
	// A denial's message is the webhook's own: it must not be split, since what
	// looks like another leaf may be part of it.
	if f, ok := denial(text); ok {
		return []Fault{f}
	}
	if _, ok := original(text); ok {
		return []Fault{{Class: None}} // two errors, with nothing that parts them
	}
	var faults []Fault
	for _, leaf := range split(text) {
		f := read(leaf, false)
		if f.Class == None {
			return []Fault{f} // decides for all, which may be a million
		}
		faults = append(faults, f)
	}
	if faults == nil {
		return []Fault{{Class: None}}
	}
	return faults
}

// maxLeaves bounds the errors that are looked for in one text; one with more is
// not about a webhook.
const maxLeaves = 10_000

// split parts a text where errors are joined.
func split(text string) []string {
	seps := []string{"\n", "; ", " && "}
	if strings.Contains(text, " occurred:") { // go-multierror, or a line made of it
		seps = append(seps, " * ")
	}
	if inner, ok := strings.CutPrefix(text, "["); ok { // an Aggregate
		if inner, ok := strings.CutSuffix(inner, "]"); ok {
			text, seps = inner, append(seps, ", ")
		}
	}
	leaves := []string{text}
	for _, sep := range seps {
		if strings.Count(text, sep) > maxLeaves {
			return nil
		}
		leaves = splitAll(leaves, sep)
	}
	whole := leaves[:0]
	for _, leaf := range leaves {
		leaf = strings.TrimPrefix(strings.TrimSpace(leaf), "* ")
		if leaf != "" && !strings.HasSuffix(leaf, " error occurred:") && !strings.HasSuffix(leaf, " errors occurred:") {
			whole = append(whole, leaf)
		}
	}
	return whole
}

func splitAll(texts []string, sep string) []string {
	out := make([]string, 0, len(texts))
	for _, text := range texts {
		first := true
		for piece := range strings.SplitSeq(text, sep) {
			if !first && continues(piece) {
				out[len(out)-1] += sep + piece
				continue
			}
			out, first = append(out, piece), false
		}
	}
	return out
}

// continues reports that a separator stands inside of one error. The wordings are
// of k8s.io/apimachinery (a webhook's answer that is no JSON) and apiserver,
// cli-runtime (a missing CRD), and golang.org/x/net/http2.
func continues(piece string) bool {
	return slices.ContainsFunc([]string{
		"json parse error: ", "no further details available", "ensure CRDs are installed first",
		`Kind string "json:`, "LastStreamID=", "INTERNAL_ERROR", "CANCEL", "REFUSED_STREAM", "received from peer",
	}, func(start string) bool { return strings.HasPrefix(piece, start) })
}

// worst is the fault that decides for all.
func worst(faults []Fault) Fault {
	whole := Fault{Class: None}
	unproven := false
	for i, f := range faults {
		if i == 0 || rank[f.Class] > rank[whole.Class] {
			whole = f
		}
		unproven = unproven || f.MaybeApplied
	}
	whole.MaybeApplied = unproven && rank[whole.Class] < rank[None]
	return whole
}

var rank = map[Class]int{Race: 0, Overloaded: 1, Misconfigured: 2, None: 3, Denied: 4}
