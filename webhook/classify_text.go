package webhook

import (
	"slices"
	"strings"
)

// The texts come from k8s.io/apiserver: pkg/util/webhook/error.go
// (ErrCallingWebhook), pkg/admission/plugin/webhook (the call, a denial),
// pkg/server/filters and pkg/util/notfoundhandler (a server that stops or
// starts); from k8s.io/apiextensions-apiserver
// pkg/apiserver/conversion/webhook_converter.go; and from k8s.io/apimachinery
// pkg/api/meta/errors.go (a kind that is not known).
const (
	internalPrefix = "Internal error occurred: "
	notReady       = "not yet ready to handle request"
	notServed      = "the server could not find the requested resource"
	overBudget     = "Timeout: request did not complete within "
	badRoots       = "unable to load root certificates: "
)

// phrases are the words by which a text is known to be about a webhook, and
// who reads what follows them. The phrase that comes first in a text counts:
// the others may be quoted by it.
var phrases = []struct {
	text string
	read func(before, rest string) (Fault, bool)
}{
	{`failed calling webhook "`, call},
	{`failed calling admission webhook "`, call}, // before Kubernetes 1.13
	{"conversion webhook for ", conversion},
	{badRoots, func(_, rest string) (Fault, bool) {
		return failed(Fault{Kind: Admission}, badRoots+rest), true
	}},
	{`no matches for kind "`, unknownKind},
	{notServed, unserved},
	{overBudget, func(_, rest string) (Fault, bool) {
		return Fault{Kind: Server, Class: Overloaded, Cause: overBudget + rest, MaybeApplied: true}, true
	}},
	{"the request has been made before all known HTTP paths have been installed", starts},
	{"apiserver is shutting down", starts},
}

// read says what a text that has no denial tells about a webhook. In a status's
// message the API server's words are the first; else others may stand before
// them, but not such as say that the server has judged the request.
func read(text string, status bool) Fault {
	none := Fault{Class: None}
	if before, ok := strings.CutSuffix(text, "forbidden: "+notReady); ok {
		if saysJudged(strings.TrimPrefix(before, "Error from server (Forbidden): ")) {
			return none
		}
		return Fault{Kind: Server, Class: Race, Cause: notReady, Message: text}
	}
	words := text
	if !status && strings.Contains(words, `webhook \"`) { // quoted by a log
		words = strings.ReplaceAll(words, `\"`, `"`)
	}
	at, found := -1, 0
	for i, p := range phrases {
		// A longer search than to the phrase found already is of no use.
		end := len(words)
		if at >= 0 {
			end = min(end, at+len(p.text))
		}
		if j := strings.Index(words[:end], p.text); j >= 0 && (at < 0 || j < at) {
			at, found = j, i
		}
	}
	if at < 0 {
		return none
	}
	p, before := phrases[found], words[:at]
	if saysJudged(before) || status && !begins(before) {
		return none
	}
	f, ok := p.read(before, words[at+len(p.text):])
	if !ok {
		return none
	}
	f.Message = text
	return f
}

// begins reports that nothing but the API server's own words stands before a
// phrase: the prefix of an internal error, twice around a conversion in
// admission, or what its field manager says of a conversion
// (k8s.io/apimachinery pkg/util/managedfields).
func begins(before string) bool {
	return strings.ReplaceAll(before, internalPrefix, "") == "" || strings.HasPrefix(before, "failed to ")
}

// saysJudged reports that a text says that the server has judged the request: what
// follows is then the reason, in words that anybody may have chosen.
func saysJudged(text string) bool {
	return slices.ContainsFunc([]string{
		" denied ", "is forbidden: ", "is invalid: ", "Invalid value: ",
		"(Forbidden)", "(Invalid)", "(BadRequest)", "execution error at (",
	}, func(words string) bool { return strings.Contains(text, words) })
}

// denial finds the answer of a webhook that says no. It may quote any of the
// other texts, and be quoted itself: it counts wherever it stands.
func denial(text string) (Fault, bool) {
	for rest := text; ; {
		_, after, ok := strings.Cut(rest, "admission webhook ")
		if !ok {
			return Fault{}, false
		}
		rest = after
		name, after, ok := quoted(strings.TrimLeft(after, `\`))
		if !ok {
			continue
		}
		cause, ok := strings.CutPrefix(after, " denied the request")
		if !ok {
			continue
		}
		cause = strings.TrimPrefix(cause, " without explanation")
		return Fault{
			Kind: Admission, Class: Denied, Webhook: strings.TrimRight(name, `\`),
			Cause: strings.TrimSpace(strings.TrimPrefix(cause, ":")), Message: text,
		}, true
	}
}

// noDryRun finds the refusal of a dry-run by a webhook that has side effects.
// The API server did not call it.
func noDryRun(text string) (Fault, bool) {
	_, after, ok := strings.Cut(text, "admission webhook ")
	if !ok {
		return Fault{}, false
	}
	name, after, ok := quoted(after)
	if !ok || !strings.HasPrefix(after, " does not support dry run") {
		return Fault{}, false
	}
	return Fault{Kind: Admission, Class: None, Webhook: name, Message: text}, true
}

// quoted reads a name in quotes. Names of webhooks are domain names.
func quoted(text string) (name, after string, ok bool) {
	text, opened := strings.CutPrefix(text, `"`)
	name, after, closed := strings.Cut(text, `"`)
	return name, after, opened && closed && len(name) < 1<<10
}

func call(_, rest string) (Fault, bool) {
	name, after, ok := quoted(`"` + rest)
	if !ok {
		return Fault{}, false
	}
	cause := strings.TrimLeft(after, ":; ")
	return failed(Fault{Kind: Admission, Webhook: name}, strings.TrimPrefix(cause, "failed to call webhook: ")), true
}

// conversion reads an error of a CRD's conversion webhook. Objects are
// converted before they are stored and again for the answer, so that a write
// may have been done. Only errors of admission, and of the field manager, are
// known to come before.
func conversion(before, rest string) (Fault, bool) {
	head := rest[:min(len(rest), 1<<10)]
	f := Fault{Kind: Conversion}
	f.MaybeApplied = !strings.HasSuffix(before, internalPrefix) &&
		!strings.Contains(before, "failed to convert ") && !strings.Contains(before, "failed to prune ")
	for _, verb := range []string{" failed: ", " failed, ", " failed ", " returned "} {
		if i := strings.Index(head, verb); i >= 0 {
			f.Webhook = rest[:i]
			cause := rest[i+len(verb):]
			if verb == " returned " {
				cause = "returned " + cause
			}
			return failed(f, cause), true
		}
	}
	return Fault{}, false
}

// failed judges the cause of a failed call, and moves the called URL out of it.
func failed(f Fault, cause string) Fault {
	f.Cause = strings.TrimSpace(cause)
	if call, ok := strings.CutPrefix(f.Cause, "Post "); ok { // in quotes since Go 1.14
		if url, cause, ok := strings.Cut(call, ": "); ok {
			f.Cause = cause
			f.address(strings.Trim(url, `"`))
		}
	}
	f.Class = classifyCause(f.Cause, f.URL == "").class
	return f
}

// address takes a called URL, and the Service in it: https://NAME.NAMESPACE.svc:PORT.
func (f *Fault) address(url string) {
	f.URL, _, _ = strings.Cut(url, "?")
	host, ok := strings.CutPrefix(f.URL, "https://")
	if !ok {
		return
	}
	host, _, _ = strings.Cut(host, "/")
	host, port, _ := strings.Cut(host, ":")
	if parts := strings.SplitN(host, ".", 4); len(parts) == 3 && parts[2] == "svc" {
		f.Service, f.Namespace, f.Port = parts[0], parts[1], port
	}
}

// unknownKind reads an error of a client which finds no such kind in what the
// API server serves. Nothing was sent.
func unknownKind(_, rest string) (Fault, bool) {
	kind, after, ok := quoted(`"` + rest)
	if !ok {
		return Fault{}, false
	}
	_, after, _ = strings.Cut(after, " in ")
	_, after, _ = strings.Cut(after, " ") // version, versions or group
	group, _, _ := quoted(strings.TrimPrefix(after, "["))
	cause := `no matches for kind "` + rest
	cause, _, _ = strings.Cut(cause, "\n")
	return Fault{Kind: Definition, Class: Race, Webhook: group + ", Kind=" + kind, Cause: cause}, true
}

// unserved reads the answer to a request for a resource that is not served: a
// CRD that is not established, or none at all. What is not served has no name
// in the text, or one behind the resource: `(get widgets.example.io w)`.
func unserved(_, rest string) (Fault, bool) {
	f := Fault{Kind: Definition, Class: Race, Cause: notServed}
	if verb, ok := strings.CutPrefix(rest, " ("); ok {
		_, resource, _ := strings.Cut(verb, " ")
		f.Webhook = resource[:max(0, strings.IndexAny(resource, " )"))]
	}
	return f, true
}

func starts(_, _ string) (Fault, bool) {
	return Fault{Kind: Server, Class: Race, Cause: "the API server starts or stops"}, true
}
