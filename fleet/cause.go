package fleet

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// Cause is why a plan failed on a cluster, without what is particular to the cluster: of two
// clusters with equal causes one explanation is enough.
type Cause struct {
	// Class is the kind of failure.
	Class Class `json:"class"`
	// Step is the first step that failed; "" when none was begun.
	Step string `json:"step,omitempty"`
	// Text is the error, with names and numbers of the cluster itself left out.
	Text string `json:"text"`
}

// Class is a kind of failure.
type Class string

// The kinds of failures.
const (
	// Unreachable: its API server gives no answer, or is somebody else by its certificate.
	Unreachable Class = "unreachable"
	// Refused: it does not take the credentials, or the kubeconfig is not one to be used.
	Refused Class = "refused"
	// Moved: the kubeconfig leads elsewhere than when the rollout was frozen.
	Moved Class = "moved"
	// Locked: another run has the plan's lock there.
	Locked Class = "locked"
	// WebhookTimeout: a webhook did not answer in the time that its requests were held.
	WebhookTimeout Class = "webhook"
	// Timeout: a wait or a step took too long.
	Timeout Class = "timeout"
	// Forbidden: rights are missing.
	Forbidden Class = "forbidden"
	// BadPlan: the plan is wrong with the values for this cluster.
	BadPlan Class = "plan"
	// Lost: who worked on it is gone, and nobody knows more.
	Lost Class = "lost"
	// StepFailed is any other failure of a step.
	StepFailed Class = "step"
)

// maxCause is how many bytes the text of a cause has at most.
const maxCause = 600

// varying are parts of errors that differ from cluster to cluster and from time to time, and
// what is put in their place. The order matters.
var varying = []struct {
	is *regexp.Regexp
	as string
}{
	{regexp.MustCompile(`https?://[^\s"',;)]+`), "URL"},
	{regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`), "UID"},
	{regexp.MustCompile(`\b\d{8}-\d{6}-[0-9a-f]{6}\b`), "RUN"}, // of package ledger
	{regexp.MustCompile(`\bpid \d+\b`), "pid N"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?`), "TIME"},
	{regexp.MustCompile(`\b\d{1,3}(\.\d{1,3}){3}(:\d+)?(->\d{1,3}(\.\d{1,3}){3}(:\d+)?)?`), "ADDRESS"},
	{regexp.MustCompile(`\[[0-9a-fA-F:]+:[0-9a-fA-F:]*\](:\d+)?`), "ADDRESS"},
	{regexp.MustCompile(`-[bcdf-hj-np-tv-z2456789]{8,10}-[bcdf-hj-np-tv-z2456789]{5}\b`), "-…"}, // names of pods of a Deployment
	{regexp.MustCompile(`\b(\d+(\.\d+)?(h|ms|m|µs|ns|s))+\b`), "TIME"},
	{regexp.MustCompile(`\b\d+ (of|/) \d+\b`), "N of M"},
}

// closed are the ways in which an error says that the other side closed a connection: which of
// them it is depends on the moment.
var closed = regexp.MustCompile(`((read|write) tcp ADDRESS: )?((read|write): )?(connection reset by peer|broken pipe)|\b(unexpected )?EOF\b`)

// NewCause makes a cause of an error. Own are names that the cluster alone has: its name, its
// address, its namespace.
func NewCause(class Class, step, text string, own ...string) *Cause {
	text = strings.Join(strings.Fields(text), " ")
	for _, v := range varying {
		text = v.is.ReplaceAllString(text, v.as)
	}
	if class == Unreachable {
		text = closed.ReplaceAllString(text, "the connection was closed")
	}
	own = slices.DeleteFunc(slices.Clone(own), func(s string) bool { return len(s) < 2 })
	slices.SortFunc(own, func(a, b string) int { return cmp.Compare(len(b), len(a)) }) // the longest first: one may be a part of another
	for _, name := range own {
		text = replaceWord(text, name, "CLUSTER")
	}
	if len(text) > maxCause {
		text = strings.ToValidUTF8(text[:maxCause], "") + "…"
	}
	return &Cause{Class: class, Step: step, Text: text}
}

// replaceWord replaces a name where it is no part of a longer word.
func replaceWord(text, name, by string) string {
	var b strings.Builder
	for {
		i := strings.Index(text, name)
		if i < 0 {
			break
		}
		end := i + len(name)
		whole := (i == 0 || !isWord(text[i-1])) && (end == len(text) || !isWord(text[end]))
		b.WriteString(text[:i])
		if whole {
			b.WriteString(by)
		} else {
			b.WriteString(name)
		}
		text = text[end:]
	}
	b.WriteString(text)
	return b.String()
}

func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
