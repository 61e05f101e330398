// Command sbom writes the bill of materials of a Go binary, as CycloneDX JSON.
//
// It reads what the linker left in the binary, so the list has what is linked in and
// nothing else. It knows no licences and no graph of dependencies: a binary has neither.
// The same binary has the same bill, byte for byte.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	flags := flag.NewFlagSet("sbom", flag.ExitOnError)
	version := flags.String("version", "", "version of the program, where the binary does not say it")
	flags.Usage = func() { fmt.Fprintln(os.Stderr, "usage: sbom [--version VERSION] BINARY FILE") }
	_ = flags.Parse(os.Args[1:]) // it exits by itself
	if flags.NArg() != 2 {
		flags.Usage()
		os.Exit(2)
	}
	if err := write(flags.Arg(0), flags.Arg(1), *version); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// write writes the bill of a binary to a file.
func write(binary, file, version string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	sum, err := digest(binary)
	if err != nil {
		return err
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	err = cdx.NewBOMEncoder(out, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bill(info, version, sum))
	if e := out.Close(); err == nil {
		err = e
	}
	return err
}

// bill is what a binary is made of: the program, each module, and the standard library.
func bill(info *debug.BuildInfo, version, sum string) *cdx.BOM {
	if version != "" {
		info.Main.Version = version
	}
	program := component(&info.Main)
	program.Type = cdx.ComponentTypeApplication
	program.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}}

	std := component(&debug.Module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")})
	parts, refs := []cdx.Component{std}, []string{std.BOMRef}
	for _, m := range info.Deps {
		c := component(m)
		parts, refs = append(parts, c), append(refs, c.BOMRef)
	}
	b := cdx.NewBOM()
	b.Metadata = &cdx.Metadata{Component: &program, Properties: settings(info.Settings)}
	for _, s := range info.Settings {
		if s.Key == "vcs.time" {
			b.Metadata.Timestamp = s.Value
		}
	}
	b.Components = &parts
	b.Dependencies = &[]cdx.Dependency{{Ref: program.BOMRef, Dependencies: &refs}}
	return b
}

// component describes a module, or what it was replaced by.
func component(m *debug.Module) cdx.Component {
	if m.Replace != nil {
		m = m.Replace
	}
	purl := "pkg:golang/" + m.Path + "@" + m.Version
	c := cdx.Component{Type: cdx.ComponentTypeLibrary, BOMRef: purl, Name: m.Path, Version: m.Version, PackageURL: purl}
	if m.Sum != "" {
		// No hash of a file: the one of go.sum is over a tree, see golang.org/x/mod/sumdb/dirhash.
		c.Properties = &[]cdx.Property{{Name: "go:sum", Value: m.Sum}}
	}
	return c
}

// settings are those of the build that decide what is in the binary.
func settings(all []debug.BuildSetting) *[]cdx.Property {
	var told []cdx.Property
	for _, s := range all {
		switch s.Key {
		case "GOOS", "GOARCH", "CGO_ENABLED", "-trimpath", "-tags", "vcs.revision", "vcs.modified":
			told = append(told, cdx.Property{Name: "go:build:" + s.Key, Value: s.Value})
		}
	}
	return &told
}

// digest is the SHA-256 of a file, in hexadecimal.
func digest(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
