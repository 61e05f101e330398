package lock_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/source"
	"github.com/kplan-dev/kplan/source/lock"
)

var (
	one = "sha256:" + strings.Repeat("1", 64)
	two = "sha256:" + strings.Repeat("2", 64)
)

func chart(name, constraint string) source.Reference {
	return source.Reference{Kind: source.KindChart, Repo: "https://charts.example.com", Name: name, Version: constraint}
}

func sample() *lock.File {
	f := &lock.File{}
	f.Put(lock.Entry{Reference: source.Reference{Kind: source.KindFile, Name: "https://example.com/crds.yaml"}, Digest: one})
	f.Put(lock.Entry{Reference: chart("eso", "0.11.x"), Locked: "0.11.2", Digest: one})
	f.Put(lock.Entry{Reference: chart("eso", "0.10.0"), Locked: "0.10.0", Digest: two})
	f.Put(lock.Entry{Reference: source.Reference{Kind: source.KindChart, Name: "oci://example.com/charts/race"}, Locked: "1.10", Digest: one, Manifest: two})
	f.Put(lock.Entry{Reference: source.Reference{Kind: source.KindArtifact, Name: "oci://example.com/manifests:v1"}, Locked: "v1", Digest: two, Manifest: one})
	return f
}

// A lock file reads as people write YAML, whatever the order in which entries came, and
// what is read from it is what was written.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plan.lock.yaml")
	require.NoError(t, sample().Write(path, "apps/plan.yaml"))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, `# What plan.yaml fetches from elsewhere, by version and digest. Commit this file.
# It is written by: kplan lock plan.yaml
apiVersion: kplan.dev/v1alpha1
kind: Lock
charts:
- name: oci://example.com/charts/race
  version: "1.10"
  digest: `+one+`
  manifest: `+two+`
- name: eso
  repo: https://charts.example.com
  constraint: 0.10.0
  version: 0.10.0
  digest: `+two+`
- name: eso
  repo: https://charts.example.com
  constraint: 0.11.x
  version: 0.11.2
  digest: `+one+`
artifacts:
- name: oci://example.com/manifests:v1
  version: v1
  digest: `+two+`
  manifest: `+one+`
files:
- name: https://example.com/crds.yaml
  digest: `+one+`
`, string(text))
	read, err := lock.Read(path, nil)
	require.NoError(t, err)
	require.Equal(t, sample().Entries(), read.Entries())
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	require.NoError(t, err)
	require.Equal(t, []string{path}, left, "nothing else is left in the folder")
}

func TestPath(t *testing.T) {
	require.Equal(t, "a/plan.lock.yaml", lock.Path("a/plan.yaml"))
	require.Equal(t, "prod.v2.lock.yaml", lock.Path("prod.v2.yml"))
}

// Every fault of a lock file is told with its place, and what to do.
func TestFaults(t *testing.T) {
	const head = "apiVersion: kplan.dev/v1alpha1\nkind: Lock\n"
	entry := "- {name: x, version: 1.0.0, digest: " + one + "}\n"
	for name, c := range map[string]struct{ text, want string }{
		"empty":          {"", "lock.yaml"},
		"list":           {"[]", "1:1: a lock file is a mapping"},
		"plan":           {"apiVersion: kplan.dev/v1alpha1\nkind: Plan\n", "2:7: kind must be Lock"},
		"later version":  {"apiVersion: kplan.dev/v2\nkind: Lock\n", "1:13: apiVersion must be kplan.dev/v1alpha1"},
		"unknown field":  {head + "images: []\n", `3:1: there is no field "images"`},
		"unknown part":   {head + "charts:\n- {name: x, version: 1.0.0, tag: v1, digest: " + one + "}\n", `4:29: there is no field "tag"`},
		"no digest":      {head + "charts:\n- {name: x, version: 1.0.0}\n", "4:3: the entry has no digest"},
		"no version":     {head + "charts:\n- {name: x, digest: " + one + "}\n", "4:3: the entry has no version"},
		"short digest":   {head + "files:\n- {name: x, digest: sha256:12}\n", "4:21: a digest is sha256: and 64 hexadecimal digits"},
		"number":         {head + "charts:\n- {name: x, version: 1.0, digest: " + one + "}\n", "4:22: version must be text"},
		"no list":        {head + "charts: {}\n", "3:9: charts must be a list"},
		"twice":          {head + "charts:\n" + entry + strings.Replace(entry, one, two, 1), "5:3: chart x is locked twice"},
		"merge conflict": {head + "<<<<<<< HEAD\ncharts: []\n", "lock.yaml:"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := lock.Parse("lock.yaml", []byte(c.text), nil)
			var faults document.Diagnostics
			require.ErrorAs(t, err, &faults)
			require.ErrorContains(t, err, c.want)
			require.NotEmpty(t, faults[0].Hint)
		})
	}
}

// Logins and what is sensitive are in no lock file, and its entries are found all the same.
func TestSecretsStayOut(t *testing.T) {
	f := &lock.File{Mask: func(s string) string { return strings.ReplaceAll(s, "t0ken", "***") }}
	withLogin := source.Reference{Kind: source.KindChart, Repo: "https://me:hunter2@charts.example.com", Name: "x", Version: "1.0.0"}
	signed := source.Reference{Kind: source.KindFile, Name: "https://example.com/a.yaml?key=t0ken"}
	f.Put(lock.Entry{Reference: withLogin, Locked: "1.0.0", Digest: one})
	f.Put(lock.Entry{Reference: signed, Digest: two})
	text, err := f.Marshal("plan.yaml")
	require.NoError(t, err)
	require.NotContains(t, string(text), "hunter2")
	require.NotContains(t, string(text), "t0ken")
	read, err := lock.Parse("plan.lock.yaml", text, f.Mask)
	require.NoError(t, err)
	for _, ref := range []source.Reference{withLogin, signed} {
		_, ok := read.Find(ref)
		require.True(t, ok, ref)
	}
}

// A run takes what is locked; of the rest it is told once, and refused it when it is strict.
func TestPins(t *testing.T) {
	var missing []source.Reference
	p := &lock.Pins{File: sample(), Missing: func(r source.Reference) { missing = append(missing, r) }}
	pin, err := p.Pin(chart("eso", "0.11.x"))
	require.NoError(t, err)
	require.Equal(t, &source.Pin{Version: "0.11.2", Digest: one}, pin)
	for range 2 {
		pin, err = p.Pin(chart("eso", "^0.11"))
		require.NoError(t, err)
		require.Nil(t, pin)
	}
	require.Equal(t, []source.Reference{chart("eso", "^0.11")}, missing)

	p.Strict = true
	_, err = p.Pin(chart("eso", "^0.11"))
	var unlocked *lock.UnlockedError
	require.ErrorAs(t, err, &unlocked)
	require.EqualError(t, err, "chart eso ^0.11 of https://charts.example.com is not locked")

	edited := &lock.File{}
	edited.Put(lock.Entry{Reference: chart("eso", "0.11.x"), Locked: "0.12.0", Digest: one})
	_, err = (&lock.Pins{File: edited}).Pin(chart("eso", "0.11.x"))
	require.ErrorContains(t, err, `the lock file has version 0.12.0, which "0.11.x" does not allow`)
}

// Bringing a lock file up to date keeps every version that is still allowed.
func TestKeeping(t *testing.T) {
	fresh := &lock.File{}
	fresh.Put(lock.Entry{Reference: chart("new", ""), Locked: "3.0.0", Digest: two})
	k := lock.Keeping{File: sample(), Fresh: fresh}
	for asked, want := range map[source.Reference]string{
		chart("eso", "0.11.x"):         "0.11.2", // its own
		chart("eso", ">=0.10.0 <0.12"): "0.11.2", // the newest that another constraint locked
		chart("eso", "<0.11.0"):        "0.10.0",
		chart("eso", "^0.12"):          "", // none is allowed
		chart("new", ""):               "3.0.0",
		chart("other", ""):             "",
		{Kind: source.KindFile, Name: "https://example.com/other.yaml"}: "",
	} {
		pin, err := k.Pin(asked)
		require.NoError(t, err)
		if want == "" {
			require.Nil(t, pin, asked)
			continue
		}
		require.NotNil(t, pin, asked)
		require.Equal(t, want, pin.Version, asked)
	}
}

// Whatever stands in a lock file, what can be read of it can be written and read again.
func FuzzParse(f *testing.F) {
	text, err := sample().Marshal("plan.yaml")
	require.NoError(f, err)
	f.Add(text)
	f.Add([]byte("apiVersion: kplan.dev/v1alpha1\nkind: Lock\ncharts:\n- {name: 'a: b', version: \"1\\n2\", digest: " + one + "}\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		read, err := lock.Parse("plan.lock.yaml", src, nil)
		if err != nil {
			return
		}
		text, err := read.Marshal("plan.yaml")
		require.NoError(t, err)
		again, err := lock.Parse("plan.lock.yaml", text, nil)
		require.NoError(t, err, "%s", text)
		require.Equal(t, read.Entries(), again.Entries())
	})
}
