package explain

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/kplan-dev/kplan/internal/clean"
)

// MaxText is how many bytes of a text are looked at: the last ones.
const MaxText = 1 << 20

const (
	// maxPieces bounds the errors of one text: the last ones are explained.
	maxPieces = 100
	// maxPiece bounds one error, in bytes. Of a longer one the start and the end count.
	maxPiece = 8 << 10
	// maxReasonLines bounds the lines of a denial.
	maxReasonLines = 10
)

// pieces parts a text into errors: lines, the items of lists, the values of structured
// logs. What no rule can know is left out. The reason of a denial may have lines of its own.
func pieces(text string) []string {
	if len(text) > MaxText {
		text = text[len(text)-MaxText:]
		if _, rest, ok := strings.Cut(text, "\n"); ok {
			text = rest
		}
	}
	var s splitter
	for line := range strings.Lines(clean.Text(text)) {
		for _, l := range unwrap(strings.TrimRight(line, "\n "), 0) {
			s.line(l)
		}
	}
	all := s.all[max(0, len(s.all)-maxPieces):]
	for i, p := range all {
		if len(p) > maxPiece {
			all[i] = strings.ToValidUTF8(p[:maxPiece/2]+" … "+p[len(p)-maxPiece/2:], "")
		}
	}
	return all
}

// splitter puts lines together to errors.
type splitter struct {
	all []string
	// list is what stands before the items of go-multierror's list, and inList that there is one.
	list   string
	inList bool
	// lines counts the lines of a denial that were taken, and open says that more may come.
	lines int
	open  bool
}

var (
	// listHead is the start of go-multierror's list; what comes before says what was done.
	listHead = regexp.MustCompile(`^(.*?)\b\d+ errors? occurred:(.*)$`)
	// fresh are lines that begin another error, or another record of a log.
	fresh = regexp.MustCompile(`^(?:[Ee]rror\b|[EWIF]\d{4} |\d{4}[-/]\d\d|[{]|time=|ts=|level=|Warning\b|\S+\.go:\d+: |\$ )`)
	// retries is what Argo CD puts behind an error, and brackets what Fleet and Aggregates do:
	// webhook knows some causes by their ends.
	retries  = regexp.MustCompile(`(?:\.? Retrying attempt #\d+ at .*| \(retried \d+ times\)\.?)$`)
	brackets = regexp.MustCompile(`(EOF| not found)[\])}.,;'"]+$`)
	// denied are the ends of what stands before a denial's reason.
	denied = regexp.MustCompile(` denied the request(?: without explanation)?:?\s*$`)
)

func (s *splitter) line(line string) {
	item, isItem := strings.CutPrefix(strings.TrimSpace(line), "* ")
	if s.open && s.continues(line, isItem) {
		s.all[len(s.all)-1] += "\n" + strings.TrimRight(line, " ")
		return
	}
	s.open = false
	head := listHead.FindStringSubmatch(line)
	switch {
	case head != nil && !strings.Contains(head[1], " denied "):
		s.list, s.inList = head[1], true
		for i, part := range strings.Split(head[2], " * ") {
			if i > 0 || strings.TrimSpace(part) != "" {
				s.add(s.list + part)
			}
		}
	case isItem && s.inList:
		s.add(s.list + item)
	default:
		s.inList = false
		s.add(strings.TrimSpace(line))
	}
}

// add takes an error, or several that Helm joined. A denial's reason is not parted.
func (s *splitter) add(p string) {
	parts := []string{p}
	if !strings.Contains(p, " denied ") {
		parts = strings.Split(p, " && ")
	}
	for _, part := range parts {
		if interesting(part) {
			part = brackets.ReplaceAllString(retries.ReplaceAllString(part, ""), "$1")
			s.all = append(s.all, part)
			s.open, s.lines = strings.Contains(part, " denied the request"), 0
		}
	}
}

// continues reports whether a line is still the reason of the denial before it: all that
// follows when its own line has none, else only what is indented or looks like a list.
func (s *splitter) continues(line string, isItem bool) bool {
	s.lines++
	last := s.all[len(s.all)-1]
	switch {
	case s.lines > maxReasonLines || fresh.MatchString(line) || isItem && s.inList:
		return false
	case denied.MatchString(strings.SplitN(last, "\n", 2)[0]):
		return true
	}
	return strings.HasPrefix(line, " ") || strings.HasPrefix(line, "[") || isItem
}

// hints are all texts by which rules know their errors, and the words of webhooks' faults.
var hints = sync.OnceValue(func() []string {
	all := []string{
		"webhook", "unable to load root certificates", "no matches for kind", "could not find the requested resource",
		"request did not complete within", "all known http paths", "apiserver is shutting down", "not yet ready to handle request",
	}
	for _, r := range slices.Concat(early, late) {
		all = append(all, r.has...)
	}
	slices.Sort(all)
	return slices.Compact(all)
})

// interesting reports whether any rule may know the text.
func interesting(p string) bool {
	p = strings.ToLower(p)
	return slices.ContainsFunc(hints(), func(hint string) bool { return strings.Contains(p, hint) })
}
