package object

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Indexes are numbers from 0 in their order, as the status of an Indexed Job writes them:
// 1,3-5,7.
type Indexes []int

// ParseIndexes reads indexes below a limit.
func ParseIndexes(text string, limit int) (Indexes, error) {
	var all Indexes
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		from, err := strconv.Atoi(first)
		to := from
		if err == nil && isRange {
			to, err = strconv.Atoi(last)
		}
		if err != nil || from < 0 || to < from || to >= limit {
			return nil, fmt.Errorf("%q are no indexes below %d", text, limit)
		}
		for i := from; i <= to; i++ {
			all = append(all, i)
		}
	}
	return all, nil
}

func (x Indexes) String() string {
	var parts []string
	for i := 0; i < len(x); {
		j := i
		for j+1 < len(x) && x[j+1] == x[j]+1 {
			j++
		}
		switch part := strconv.Itoa(x[i]); {
		case j > i:
			parts = append(parts, part+"-"+strconv.Itoa(x[j]))
		default:
			parts = append(parts, part)
		}
		i = j + 1
	}
	return strings.Join(parts, ",")
}

// Has reports whether an index is one of them.
func (x Indexes) Has(i int) bool {
	_, found := slices.BinarySearch(x, i)
	return found
}
