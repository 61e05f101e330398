package redact_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/plan/redact"
)

func set(values ...any) *redact.Set {
	s := &redact.Set{}
	for _, v := range values {
		s.Add(v)
	}
	return s
}

func TestText(t *testing.T) {
	for name, c := range map[string]struct {
		secrets    []any
		text, want string
	}{
		"nothing to hide":            {nil, "a text", "a text"},
		"alone":                      {[]any{"hunter22"}, "hunter22", "(sensitive)"},
		"inside of a word":           {[]any{"hunter22"}, "x-hunter22-hunter22.", "x-(sensitive)-(sensitive)."},
		"the same twice in a row":    {[]any{"hunter22"}, "hunter22hunter22 it is", "(sensitive) it is"},
		"short ones are left":        {[]any{"abc", "1", ""}, "abc 1", "abc 1"},
		"four characters are enough": {[]any{"äöüß"}, "<äöüß>", "<(sensitive)>"},
		"lists and mappings":         {[]any{[]any{"first", map[string]any{"user": "second"}}}, "first user second", "(sensitive) user (sensitive)"},
		"booleans are left":          {[]any{true, false, nil}, "true false null", "true false null"},
		"numbers":                    {[]any{int64(271828), 0.5772, json.Number("31415926535897932384"), int64(42)}, "271828 0.5772 31415926535897932384 42", "(sensitive) (sensitive) (sensitive) 42"},
		"a number in both forms":     {[]any{2e6}, "2e+06 2000000", "(sensitive) (sensitive)"},
		"the longest one":            {[]any{"pass", "password"}, "password pass", "(sensitive) (sensitive)"},
		"overlapping":                {[]any{"abcde", "cdefgh"}, "-abcdefgh-", "-(sensitive)-"},
		"blanks around it":           {[]any{" token \n"}, "a token is", "a (sensitive) is"},
		"lines with an indentation":  {[]any{"first line\nsecond line\n"}, "  first line\n  second line\n", "  (sensitive)\n  (sensitive)\n"},
		"lines as one":               {[]any{"first line\nsecond line\n"}, "got first line second line", "got (sensitive)"},
		"not the frame of PEM":       {[]any{"-----BEGIN KEY-----\nMIIEpAIBAA\n-----END KEY-----\n"}, "-----BEGIN KEY----- has MIIEpAIBAA.", "-----BEGIN KEY----- has (sensitive)."},
		"blanks made one":            {[]any{"two  blanks"}, "two blanks", "(sensitive)"},
		"cut by an ellipsis":         {[]any{"0123456789abcdef"}, `the text "0123456789…" is`, `the text "(sensitive)…" is`},
		"cut by dots":                {[]any{"0123456789abcdef"}, "01234567...", "(sensitive)..."},
		"cut at the end":             {[]any{"0123456789abcdef"}, "got 012345678", "got (sensitive)"},
		"like its start":             {[]any{"0123456789abcdef"}, "0123456789-", "0123456789-"},
		"JSON":                       {[]any{`a"b\c`}, `{"x":"a\"b\\c"}`, `{"x":"(sensitive)"}`},
		"JSON in JSON":               {[]any{`a"b\c`}, `"{\"x\":\"a\\\"b\\\\c\"}"`, `"{\"x\":\"(sensitive)\"}"`},
		"JSON for HTML":              {[]any{"a<b>&c"}, `"a\u003cb\u003e\u0026c"`, `"(sensitive)"`},
		"YAML in single quotes":      {[]any{"it's a pass"}, "x: 'it''s a pass'", "x: '(sensitive)'"},
		"YAML in double quotes":      {[]any{"tab\tbell\a"}, `x: "tab\tbell\a"`, `x: "(sensitive)"`},
		"a query":                    {[]any{"a b+c/d"}, "?q=a+b%2Bc%2Fd&r", "?q=(sensitive)&r"},
		"a path":                     {[]any{"a b+c/d"}, "/a%20b+c%2Fd/", "/(sensitive)/"},
		"small letters in escapes":   {[]any{"a b+c/d"}, "/a%20b%2bc%2fd/", "/(sensitive)/"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, set(c.secrets...).Text(c.text))
		})
	}
}

// Writers that quote and escape in ways of their own are held to what they write.
func TestWriters(t *testing.T) {
	writers := map[string]func(string) string{
		"Go":            strconv.Quote,
		"Go, ASCII":     strconv.QuoteToASCII,
		"query":         url.QueryEscape,
		"path":          url.PathEscape,
		"user and host": func(s string) string { return url.UserPassword("u", s).String() },
		"JSON":          func(s string) string { b, _ := json.Marshal(map[string]any{"k": s}); return string(b) },
		"JSON in JSON": func(s string) string {
			b, _ := json.Marshal(s)
			b, _ = json.Marshal(map[string]any{"last-applied": string(b)})
			return string(b)
		},
		"YAML": func(s string) string {
			b, _ := yaml.Marshal(map[string]any{"k": map[string]any{"n": s}})
			return string(b)
		},
		"error": func(s string) string { return fmt.Sprintf("cannot parse %q as an integer", s) },
	}
	for _, secret := range []string{
		"hunter22", `quo"te`, `back\slash`, "it's", "a b c d", "100%sure", "üñï-code", "line one\nline two", "tab\tbed", "a&b<c>d=e+f/g",
		"smile 😀 wide", ": colon #hash", "- dash", "yes, true", "\x1b[31mred", "nul\x00byte", "trailing\\", "@at`tick", "{a: b}", "xenon\u2028yttrium\u00a0zinc\u0085wolfram",
	} {
		s := set(secret)
		for name, write := range writers {
			text := "before " + write(secret) + " after"
			got := s.Text(text)
			require.Contains(t, got, redact.Mark, "%s of %q: %s", name, secret, text)
			for _, word := range strings.FieldsFunc(secret, func(r rune) bool { return r < 'a' || r > 'z' }) {
				if len(word) > 3 {
					require.NotContains(t, got, word, "%s of %q", name, secret)
				}
			}
		}
	}
}

// Base64 of a text with the secret in it shows no bit of the secret, wherever it stands.
func TestBase64(t *testing.T) {
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		for length := redact.Shortest; length < 40; length++ {
			secret := "?~\xc3\xbf" + strings.Repeat("k9?~", 10)[:length]
			s := set(secret)
			for before := range 7 {
				for after := range 7 {
					lead, tail := strings.Repeat("p", before), strings.Repeat("s", after)
					text := enc.EncodeToString([]byte(lead + secret + tail))
					got := s.Text(text)
					head, rest, found := strings.Cut(got, redact.Mark)
					require.True(t, found, "%q + %q + %q", lead, secret, tail)
					require.LessOrEqual(t, len(head)*6, before*8, "the start of the secret shows")
					require.LessOrEqual(t, len(strings.TrimRight(rest, "="))*6, after*8+5, "the end of the secret shows")
					require.True(t, strings.HasPrefix(text, head) && strings.HasSuffix(text, rest))
				}
			}
		}
	}
}

// Base64 of base64, as of a Secret in a manifest that is the value of a Secret, shows
// no letter of the secret either.
func TestBase64Twice(t *testing.T) {
	for length := redact.Shortest; length < 20; length++ {
		secret := strings.Repeat("k9?~", 10)[:length]
		s := set(secret)
		for before := range 7 {
			for after := range 7 {
				once := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("p", before) + secret + strings.Repeat("s", after)))
				for lead := range 4 {
					text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("p", lead) + once + "s"))
					head, rest, found := strings.Cut(s.Text(text), redact.Mark)
					require.True(t, found, "%d + %d + %q + %d", lead, before, secret, after)
					// A letter of which bits show counts, and one with bits of the secret must not.
					require.LessOrEqual(t, (len(head)*6+7)/8, lead+before*8/6, "the start of the secret shows")
					require.LessOrEqual(t, (len(strings.TrimRight(rest, "="))*6+7)/8, 2+len(once)-((before+length)*8+5)/6, "the end of the secret shows")
				}
			}
		}
	}
}

// wrap breaks a text into lines as base64 -w does.
func wrap(text string, width int, newline string) string {
	var b strings.Builder
	for len(text) > width {
		b.WriteString(text[:width] + newline)
		text = text[width:]
	}
	return b.String() + text
}

// password is a text of no meaning in which nothing comes twice.
func password(length int) string {
	random := rand.New(rand.NewPCG(3, 4))
	b := make([]byte, length)
	for i := range b {
		b[i] = byte('!' + random.IntN('~'-'!'))
	}
	return string(b)
}

// Base64 that is broken into lines shows no bit of the secret either.
func TestBase64Lines(t *testing.T) {
	for _, length := range []int{redact.Shortest, 30, 57, 58, 60, 114, 115, 400, 2000} {
		secret := password(length)
		s := set(secret)
		for _, newline := range []string{"\n", "\r\n", "\n    ", `\n`, `\r\n`, `\\n`} {
			for before := range 78 {
				width, after := 64+before%2*12, before%5
				once := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("p", before) + secret + strings.Repeat("s", after)))
				text := "token: " + wrap(once, width, newline) + newline + "end: true"
				got := s.Text(text)
				head, rest, found := strings.Cut(got, redact.Mark)
				require.True(t, found, "%d + %d + %d in lines of %d by %q", before, length, after, width, newline)
				require.True(t, strings.HasPrefix(text, head) && strings.HasSuffix(text, rest), "%s", got)
				letters := func(s string) int { return len(strings.NewReplacer(newline, "", "=", "").Replace(s)) }
				require.LessOrEqual(t, letters(strings.TrimPrefix(head, "token: "))*6, before*8, "the start of the secret shows: %s", got)
				require.LessOrEqual(t, letters(strings.TrimSuffix(rest, newline+"end: true"))*6, after*8+5, "the end of the secret shows: %s", got)
			}
		}
	}
}

// Logs are redacted line by line. Of base64 in lines no line shows more of the secret
// than its first or last letters, which are too few to be known.
func TestBase64LineByLine(t *testing.T) {
	for _, length := range []int{100, 400, 2000} {
		secret := password(length)
		s := set(secret)
		for before := range 78 {
			for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawURLEncoding} {
				once := enc.EncodeToString([]byte(strings.Repeat("p", before) + secret + "ssss"))
				first, end := before*8/6, (before+length)*8/6 // letters with nothing but the secret
				at := 0
				for line := range strings.Lines(wrap(once, 76, "\n")) {
					line = strings.TrimSpace(line)
					got := strings.TrimRight(s.Text("log "+line), "=")
					shown := len(got) - len("log ")
					if strings.Contains(got, redact.Mark) {
						shown -= len(redact.Mark)
					}
					secretly := min(at+len(line), end) - max(at, first)
					require.LessOrEqual(t, shown, len(line)-max(secretly, 0)+8, "%d + %d: %s shows as %s", before, length, line, got)
					if at >= first && at+len(line) <= end && len(line) >= 8 {
						require.Equal(t, "log "+redact.Mark, got)
					}
					at += len(line)
				}
			}
		}
	}
}

// Words that are base64 by chance, and base64 of something else, are left.
func TestBase64OfSomethingElse(t *testing.T) {
	s := set(password(2000))
	for _, text := range []string{
		"the container kubernetes-dashboard of deployments/registry is unavailable\ncontainer_unavailable\nkubernetes/dashboard",
		wrap(base64.StdEncoding.EncodeToString([]byte(strings.Repeat("something else ", 30))), 76, "\n"),
	} {
		require.Equal(t, text, s.Text(text))
	}
}

// A text of many lines does not hide what is in every file.
func TestCommonLines(t *testing.T) {
	s := set("apiVersion: v1\nkind: Config\nclusters:\n- cluster:\n    server: https://10.0.0.1:6443\n  name: kind\nusers:\n- name: admin\n  user:\n    token: abcdef0123456789\npreferences: {}\ncurrent-context: a\nshort\n")
	for _, text := range []string{"apiVersion: v1", "kind: Config", "clusters:", "the clusters: a", "- cluster:", "users:", "user:", "preferences: {}", "short"} {
		require.Equal(t, text, s.Text(text))
	}
	for _, text := range []string{"  server: https://10.0.0.1:6443", "\ttoken: abcdef0123456789"} {
		require.NotEqual(t, text, s.Text(text))
	}
}

// The start of a secret is hidden wherever a text can have been cut.
func TestCut(t *testing.T) {
	secret := strings.Repeat("0123456789abcdef", 70)
	s := set(secret)
	for length := 8; length < len(secret); length++ {
		for _, end := range []string{"", "…", "...", "\n", "\"", "'", "…\""} {
			require.Equal(t, "x "+redact.Mark+end, s.Text("x "+secret[:length]+end), "cut after %d", length)
		}
	}
}

// A field that is redacted leaves JSON JSON.
func TestJSON(t *testing.T) {
	s := set(`": "`, "hunter22", int64(4711), "state")
	for text, want := range map[string]string{
		`{"a": "b"}`:                        `{"a": "b"}`,
		`{"a":"x hunter22 y","n":4711}`:     `{"a":"x (sensitive) y","n":"(sensitive)"}`,
		`{"hunter22":[1,-2.5e3,true,"a"]}`:  `{"(sensitive)":[1,-2.5e3,true,"a"]}`,
		`{"state": "state", "n":["state"]}`: `{"state": "(sensitive)", "n":["(sensitive)"]}`, // a field of ours is not renamed
		`"a\": \"b"`:                        `"a(sensitive)b"`,
		`"\\"`:                              `"\\"`,
		`4711`:                              `"(sensitive)"`,
		`no JSON: hunter22`:                 `no JSON: (sensitive)`,
		``:                                  ``,
	} {
		require.Equal(t, want, string(s.JSON([]byte(text))))
	}
	require.Equal(t, "x", string((*redact.Set)(nil).JSON([]byte("x"))))
}

func TestNil(t *testing.T) {
	require.Equal(t, "text", (*redact.Set)(nil).Text("text"))
	require.Equal(t, "text", (&redact.Set{}).Text("text"))
}

// Secrets come while others redact: what was added before a call is hidden by it.
func TestConcurrent(t *testing.T) {
	s := &redact.Set{}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 15 {
				secret := fmt.Sprintf("secret-%d-%d.", i, j)
				s.Add(secret)
				if got := s.Text("a " + secret); got != "a (sensitive)" {
					t.Error(got)
				}
			}
		})
	}
	wg.Wait()
}

// FuzzText writes a secret in every way that is known, between other texts.
func FuzzText(f *testing.F) {
	f.Add("hunter22", "a ", " b")
	f.Add("line one\nline two", "<", ">")
	f.Add("aaaa", "a", "a")
	f.Add(`q"u\o'te`, "", "=")
	f.Fuzz(func(t *testing.T, secret, before, after string) {
		trimmed := strings.TrimSpace(secret)
		if len([]rune(trimmed)) < redact.Shortest || strings.Contains(trimmed, "\x00") || strings.Contains(redact.Mark, trimmed) {
			return
		}
		s := set(secret, before)
		for _, write := range []func(string) string{
			func(s string) string { return s },
			strconv.Quote, url.QueryEscape, url.PathEscape,
			func(s string) string { b, _ := json.Marshal(s); return string(b) },
			func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
			func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) },
		} {
			form := write(trimmed)
			got := strings.ReplaceAll(s.Text(before+form+after), redact.Mark, "\x00")
			require.NotContains(t, got, form)
			require.NotContains(t, got, trimmed)
		}
		doc, err := json.Marshal(map[string]any{"a": before + secret + after, "n": []any{1, secret}})
		require.NoError(t, err)
		clean := s.JSON(doc)
		require.True(t, json.Valid(clean), "%s", clean)
	})
}

// A long log with many secrets: the time of one look at each of its bytes.
func BenchmarkText(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	token := func(n int) string {
		raw := make([]byte, n)
		for i := range raw {
			raw[i] = byte(random.Uint32())
		}
		return base64.StdEncoding.EncodeToString(raw)
	}
	s := &redact.Set{}
	var secrets []string
	for range 20 {
		secrets = append(secrets, token(30))
		s.Add(secrets[len(secrets)-1])
	}
	var log strings.Builder
	for i := 0; log.Len() < 1<<20; i++ {
		fmt.Fprintf(&log, "I1121 16:21:00.%06d 4711 round_trippers.go:632] \"Response\" verb=\"GET\" url=\"https://10.0.0.1/api/v1/namespaces/%s\" status=\"200 OK\"\n", i, token(6))
		if i%1000 == 0 {
			log.WriteString(secrets[i/1000%20])
		}
	}
	text := log.String()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		s.Text(text)
	}
}

func BenchmarkAdd(b *testing.B) {
	key := strings.Repeat("MIIEpAIBAAKCAQEAsomekeymaterialthatfillsalineofsixtyfourcharacte\n", 30)
	for b.Loop() {
		s := set(key)
		s.Text("make the index")
	}
}
