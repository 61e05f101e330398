package plan_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/plan"
)

func TestParseAddress(t *testing.T) {
	sum := "sha256:" + strings.Repeat("0a", 32)
	for name, want := range map[string]plan.Address{
		"https://example.com/a.yaml":              {URL: "https://example.com/a.yaml"},
		"https://example.com/a.yaml?v=1#" + sum:   {URL: "https://example.com/a.yaml?v=1", Digest: sum},
		"http://example.com/a.yaml#" + sum:        {URL: "http://example.com/a.yaml", Digest: sum},
		"oci://r.example.com/a/b":                 {URL: "oci://r.example.com/a/b"},
		"oci://localhost:5000/a/b:1.2.3":          {URL: "oci://localhost:5000/a/b:1.2.3"},
		"oci://r.example.com/a:v1@" + sum:         {URL: "oci://r.example.com/a:v1@" + sum},
		"oci://r.example.com/a:v1//deploy/prod":   {URL: "oci://r.example.com/a:v1", Path: "deploy/prod"},
		"oci://r.example.com/a//deploy/*.yaml":    {URL: "oci://r.example.com/a", Path: "deploy/*.yaml"},
		"oci://r.example.com/a@" + sum + "//x/y/": {URL: "oci://r.example.com/a@" + sum, Path: "x/y"},
	} {
		got, err := plan.ParseAddress(name)
		require.NoError(t, err, name)
		require.Equal(t, want, got, name)
		require.Equal(t, strings.Contains(name, sum), got.Pinned(), name)
	}
	for name, message := range map[string]string{
		"https://":                            "is not an address",
		"https://exa mple.com":                "is not an address",
		"https://example.com/a#sha256:12":     "malformed digest after #",
		"https://example.com/a#top":           "malformed digest after #",
		"http://example.com/a":                "is not protected on its way",
		"oci://r.example.com":                 "is not of the form",
		"oci://r.example.com/a:":              "is not of the form",
		"oci://r.example.com/A":               "is not of the form",
		"oci://r.example.com/a@sha256:1":      "malformed digest",
		"oci://r.example.com/a//deploy/../..": "leads out of the artifact",
	} {
		_, err := plan.ParseAddress(name)
		require.ErrorContains(t, err, message, name)
	}
}

func TestPaths(t *testing.T) {
	names := []string{"a.yaml", "-", "https://example.com/b", "oci://r/c", "d/*.yaml", "-e"}
	require.Equal(t, []string{"a.yaml", "d/*.yaml", "-e"}, plan.Paths(names))
	require.Len(t, names, 6)
}
