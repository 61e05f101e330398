package style

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
)

func TestLine(t *testing.T) {
	p := Theme{Unicode: true}
	require.Equal(t, "  ab   cd…   7 x", p.Line(40).To(2).Cell(Plain, "ab", 4).Cell(Bad, "cdefg", 3).Number(Dim, "7", 3).Put(Good, "x").String())
	require.Equal(t, "abc…", p.Line(4).Put(Plain, "abcdef").Put(Plain, "x").String(), "nothing is wider than the line")
	require.Equal(t, "漢…", p.Line(4).Put(Plain, "漢字漢").String(), "a wide character takes two cells")
	require.Empty(t, p.Line(-1).Put(Plain, "x").String())
	require.Equal(t, "ab~", Theme{}.Cut("abcdef", 3))
}

func TestPaint(t *testing.T) {
	p := Theme{Colour: true, Unicode: true}
	require.Equal(t, "\x1b[1;31mx\x1b[0m", p.Paint(Bad, "x"))
	require.Equal(t, "x", p.Paint(Plain, "x"))
	for role := range roles {
		require.Equal(t, "x", Theme{Unicode: true}.Paint(role, "x"))
		require.Equal(t, 1, words.Width(p.Paint(role, "x")))
	}
}

func TestBar(t *testing.T) {
	p := Theme{}
	for _, c := range []struct {
		done, total, width int
		want               string
	}{{0, 9, 4, "...."}, {4, 9, 9, "####....."}, {9, 9, 3, "###"}, {12, 9, 3, "###"}, {1, 0, 3, ""}, {1, 2, 0, ""}} {
		full, empty := p.Bar(c.done, c.total, c.width)
		require.Equal(t, c.want, full+empty)
	}
}
