package explain

import (
	"strings"

	"github.com/kplan-dev/kplan/internal/clean"
	"github.com/kplan-dev/kplan/internal/scrub"
)

// maxReason bounds a reason, in characters.
const maxReason = 600

// quote is a reason of the text, fit to be repeated. Line breaks stay.
func quote(reason string) string {
	reason = strings.TrimSpace(scrub.Text(clean.Text(reason)))
	if runes := []rune(reason); len(runes) > maxReason {
		return strings.TrimSpace(string(runes[:maxReason])) + "…"
	}
	return reason
}
