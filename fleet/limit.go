package fleet

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Limit is a number of clusters, or a share of them that is written as "2%".
type Limit struct {
	// Count is the number; Percent is the share, from 0 to 100, when IsShare.
	Count   int
	Percent float64
	IsShare bool
}

// ParseLimit reads a whole number that is not negative, or a share from 0% to 100%.
func ParseLimit(text string) (Limit, error) {
	if number, is := strings.CutSuffix(text, "%"); is {
		p, err := strconv.ParseFloat(number, 64)
		if err != nil || !(p >= 0 && p <= 100) {
			return Limit{}, fmt.Errorf("%q is no share from 0%% to 100%%", text)
		}
		return Limit{Percent: p, IsShare: true}, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return Limit{}, fmt.Errorf("%q is neither a whole number nor a share such as 5%%", text)
	}
	return Limit{Count: n}, nil
}

// Of is the limit as a number of so many clusters: a share is rounded down.
func (l Limit) Of(total int) int {
	if l.IsShare {
		return int(l.Percent*float64(total)/100 + 1e-9) // what is whole is a little less as floating point
	}
	return l.Count
}

func (l Limit) String() string {
	if l.IsShare {
		return strconv.FormatFloat(l.Percent, 'f', -1, 64) + "%"
	}
	return strconv.Itoa(l.Count)
}

// MarshalJSON writes a number as a number and a share as a text.
func (l Limit) MarshalJSON() ([]byte, error) {
	if l.IsShare {
		return json.Marshal(l.String())
	}
	return json.Marshal(l.Count)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (l *Limit) UnmarshalJSON(b []byte) (err error) {
	var text string
	if json.Unmarshal(b, &text) != nil {
		text = string(b)
	}
	*l, err = ParseLimit(text)
	return err
}
