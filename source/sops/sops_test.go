package sops_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	yamlv3 "go.yaml.in/yaml/v3"

	"github.com/kplan-dev/kplan/source/sops"
)

// keyring has what the environment of a test says, and nothing of this machine's.
func keyring(t *testing.T, env map[string]string) *sops.Keyring {
	t.Helper()
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", "")
	return sops.NewKeyring(func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	})
}

func ours(t *testing.T) *sops.Keyring {
	t.Helper()
	return keyring(t, map[string]string{"SOPS_AGE_KEY_FILE": "testdata/keys.txt", "SOPS_AGE_SSH_PRIVATE_KEY_FILE": "testdata/id_ed25519"})
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	src, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return src
}

// values are the documents of a file, as JSON has them.
func values(t *testing.T, src []byte) string {
	t.Helper()
	var all []any
	for d := yamlv3.NewDecoder(bytes.NewReader(src)); ; {
		var doc any
		if err := d.Decode(&doc); errors.Is(err, io.EOF) {
			break
		} else {
			require.NoError(t, err, "%s", src)
		}
		all = append(all, doc)
	}
	b, err := json.MarshalIndent(all, "", " ")
	require.NoError(t, err)
	return string(b)
}

// What the real sops encrypted is read as it was, whatever the rules of what is
// encrypted.
func TestDecrypt(t *testing.T) {
	for _, name := range []string{
		"values.yaml", "values.json", "many.yaml", "secret.yaml", "mac-only.yaml", "suffix.yaml", "regex.yaml",
		"comment.yaml", "uncomment.yaml", "two.yaml", "ssh.yaml",
	} {
		t.Run(name, func(t *testing.T) {
			src := read(t, name)
			require.True(t, sops.IsEncrypted(src))

			got, err := sops.Decrypt(src, ours(t))

			require.NoError(t, err)
			require.Equal(t, values(t, read(t, "plain/"+name)), values(t, got.Bytes))
			require.NotContains(t, string(got.Bytes), "sops:\n")
			require.False(t, sops.IsEncrypted(got.Bytes))
			require.NotEmpty(t, got.Secrets)
		})
	}
}

// Lines stay where they were, so that whoever finds a fault later can say where.
func TestDecryptKeepsLines(t *testing.T) {
	src := read(t, "many.yaml")
	got, err := sops.Decrypt(src, ours(t))
	require.NoError(t, err)
	line := func(text []byte, want string) int {
		before, _, found := strings.Cut(string(text), want)
		require.True(t, found, want)
		return strings.Count(before, "\n")
	}
	require.Equal(t, line(src, "\n    b: ENC"), line(got.Bytes, "\n    b: \"beta-secret\""))
	require.Equal(t, bytes.Count(src, []byte("\n")), bytes.Count(got.Bytes, []byte("\n")))
}

// What was encrypted is secret, what was not is none; true and false are not told
// apart by whoever looks for secrets.
func TestSecrets(t *testing.T) {
	got, err := sops.Decrypt(read(t, "secret.yaml"), ours(t))
	require.NoError(t, err)
	require.Equal(t, []any{"aHVudGVyMi1odW50ZXIy", "tok-5f3a9c", "hunter2-hunter2"}, got.Secrets)

	got, err = sops.Decrypt(read(t, "values.yaml"), ours(t))
	require.NoError(t, err)
	require.Contains(t, got.Secrets, any(int64(9007199254740993)))
	require.Contains(t, got.Secrets, any(0.25))
	require.NotContains(t, got.Secrets, any("eu-west-1"))
}

func TestDecryptBinary(t *testing.T) {
	got, ok, err := sops.DecryptBinary(read(t, "token.txt"), ours(t))
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, string(read(t, "plain/token.txt")), string(got))

	_, ok, err = sops.DecryptBinary(read(t, "values.json"), ours(t))
	require.NoError(t, err)
	require.False(t, ok, "it has fields of its own")
}

func TestIsEncrypted(t *testing.T) {
	for text, want := range map[string]bool{
		"":                                      false,
		"a: 1":                                  false,
		"sops: {enabled: true}":                 false,
		"sops: {lastmodified: x, mac: y}\na: 1": true,
		"{\"a\": 1, \"sops\": {\"lastmodified\": \"x\"}}":                       true,
		"kind: SopsSecret\nsops: {lastmodified: x, mac: y}":                     false, // an operator reads it
		"a: {sops: {lastmodified: x, mac: y}}":                                  false,
		"sops: {lastmodified: x\n":                                              false,
		"- sops: {lastmodified: x}":                                             false,
		"a: 1\n---\nsops: {lastmodified: x, mac: y}\n":                          false, // the block is in the first document
		"# sops lastmodified\na: 1":                                             false,
		"apiVersion: v1\nkind: Secret\nsops:\n    lastmodified: \"2024-01-01\"": true,
	} {
		require.Equal(t, want, sops.IsEncrypted([]byte(text)), text)
	}
}

// Whoever changes a file without the key is found out.
func TestTampered(t *testing.T) {
	replace := func(old, with string) func(string) string {
		return func(s string) string { return regexp.MustCompile(old).ReplaceAllString(s, with) }
	}
	for name, c := range map[string]struct {
		file    string
		change  func(string) string
		message string
	}{
		"value changed":         {"secret.yaml", replace(`password: ENC\[AES256_GCM,data:....`, "password: ENC[AES256_GCM,data:AAAA"), "the value of data.password cannot be decrypted: it was changed, or moved from another field"},
		"value moved":           {"secret.yaml", replace(`token: ENC`, "other: ENC"), "the value of stringData.other cannot be decrypted"},
		"value in plain text":   {"secret.yaml", replace(`token: ENC.*`, "token: plain"), "the value of stringData.token is not in the form"},
		"number in plain text":  {"secret.yaml", replace(`token: ENC.*`, "token: 7"), "the value of stringData.token is not in the form"},
		"value added":           {"secret.yaml", replace(`kind: Secret`, "kind: Secret\nextra: x"), "does not match: values were changed, added, removed or moved"},
		"plain value changed":   {"secret.yaml", replace(`kind: Secret`, "kind: Other"), "does not match"},
		"value removed":         {"secret.yaml", replace(`(?m)^    token: ENC.*$`, ""), "does not match"},
		"documents exchanged":   {"many.yaml", func(s string) string { a, b, _ := strings.Cut(s, "\n---\n"); return b + "\n---\n" + a }, "does not match"},
		"sum removed":           {"secret.yaml", replace(`(?m)^    mac: ENC.*$`, ""), "it has no message authentication code"},
		"sum changed":           {"secret.yaml", replace(`mac: ENC\[AES256_GCM,data:....`, "mac: ENC[AES256_GCM,data:AAAA"), "cannot be read"},
		"sum is plain":          {"secret.yaml", replace(`mac: ENC.*`, "mac: ABC"), "cannot be read"},
		"time changed":          {"secret.yaml", replace(`lastmodified: "20..`, `lastmodified: "1999`), "cannot be read"},
		"time malformed":        {"secret.yaml", replace(`lastmodified: .*`, `lastmodified: "yesterday"`), "the time in lastmodified is malformed"},
		"rule changed":          {"secret.yaml", replace(`encrypted_regex: .*`, "encrypted_regex: ^stringData$"), "does not match"},
		"rule removed":          {"secret.yaml", replace(`(?m)^    encrypted_regex: .*$`, ""), "the value of apiVersion is not in the form"},
		"two rules":             {"secret.yaml", replace(`encrypted_regex: `, "encrypted_suffix: x\n    encrypted_regex: "), "several rules"},
		"rule malformed":        {"secret.yaml", replace(`encrypted_regex: .*`, "encrypted_regex: '('"), "malformed"},
		"only-encrypted is off": {"mac-only.yaml", replace(`mac_only_encrypted: true`, "mac_only_encrypted: false"), "does not match"},
		"data key cut":          {"secret.yaml", replace(`(?m)^ +-----END AGE.*\n`, ""), "the data key for age1c8lx67wthkmt2spe3msa5twk3g0cdn4xxsa7fpz5s55tnaxnyapseerc0w is damaged"},
		"anchor":                {"secret.yaml", replace(`kind: Secret`, "kind: &k Secret\nother: *k"), "anchors and aliases"},
		"name of a number":      {"secret.yaml", replace(`kind: Secret`, "kind: Secret\n7: x"), "the name of a field is no text"},
		"given twice":           {"secret.yaml", replace(`kind: Secret`, "kind: Secret\nkind: Secret"), `the field "kind" is given twice`},
		"block of another type": {"secret.yaml", replace(`mac: ENC.*`, "mac: [a]"), "the sops block cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			src := string(read(t, c.file))
			changed := c.change(src)
			require.NotEqual(t, src, changed)

			_, err := sops.Decrypt([]byte(changed), ours(t))

			fault, is := errors.AsType[*sops.Error](err)
			require.True(t, is, "%v", err)
			require.Contains(t, fault.Error(), c.message)
			require.NotZero(t, fault.Line)
			require.NotContains(t, fault.Error(), "plain", "no value is shown")
		})
	}
}

// Fields that are not encrypted are not part of the sum of a file that says so.
func TestMACOnlyEncrypted(t *testing.T) {
	src := strings.Replace(string(read(t, "mac-only.yaml")), "name: pull", "name: other", 1)
	got, err := sops.Decrypt([]byte(src), ours(t))
	require.NoError(t, err)
	require.Contains(t, string(got.Bytes), "name: other")
}

func TestNoKey(t *testing.T) {
	key := regexp.MustCompile(`AGE-SECRET-KEY-\S+`)
	for name, c := range map[string]struct {
		file, message, hint string
		env                 map[string]string
	}{
		"none":            {"secret.yaml", "there is no age key at hand to decrypt it: it is encrypted for age1c8lx67wthkmt2spe3msa5twk3g0cdn4xxsa7fpz5s55tnaxnyapseerc0w", "set SOPS_AGE_KEY_FILE or SOPS_AGE_KEY, or put the key into ", nil},
		"another's":       {"secret.yaml", "none of the age keys at hand opens it: it is encrypted for age1c8lx", "set SOPS_AGE_KEY_FILE", map[string]string{"SOPS_AGE_KEY_FILE": "testdata/other.txt"}},
		"file is missing": {"secret.yaml", "the age keys cannot be read: open testdata/nowhere", "", map[string]string{"SOPS_AGE_KEY_FILE": "testdata/nowhere"}},
		"no key":          {"secret.yaml", "line 1 of SOPS_AGE_KEY is no age key", "age-keygen", map[string]string{"SOPS_AGE_KEY": "hunter2"}},
		"a plugin":        {"secret.yaml", "kplan runs none", "", map[string]string{"SOPS_AGE_KEY": "AGE-PLUGIN-YUBIKEY-1ABC"}},
		"a program":       {"secret.yaml", "kplan runs no program for a key", "", map[string]string{"SOPS_AGE_KEY_CMD": "cat key"}},
		"groups":          {"groups.yaml", "split among groups of keys (Shamir)", "sops -d", map[string]string{"SOPS_AGE_KEY_FILE": "testdata/keys.txt"}},
		"SSH":             {"ssh.yaml", "none of the age keys at hand opens it: it is encrypted for ssh-ed25519", "", map[string]string{"SOPS_AGE_KEY_FILE": "testdata/keys.txt"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := sops.Decrypt(read(t, c.file), keyring(t, c.env))
			fault, is := errors.AsType[*sops.Error](err)
			require.True(t, is, "%v", err)
			require.Contains(t, fault.Error(), c.message)
			require.Contains(t, fault.Hint(), c.hint)
			require.NotRegexp(t, key, fault.Error()+fault.Hint())
			require.NotContains(t, fault.Error(), "hunter2")
		})
	}
}

// Files that only others than age can open are refused by name.
func TestOthersThanAge(t *testing.T) {
	age := regexp.MustCompile(`(?s)    age:.*?(    lastmodified)`)
	for block, name := range map[string]string{
		"    pgp: [{fp: ABC, enc: x}]\n$1":                                "PGP",
		"    kms: [{arn: a, enc: x}]\n    hc_vault: [{key_name: a}]\n$1":  "AWS KMS and HashiCorp Vault",
		"    gcp_kms: [{resource_id: a, enc: x}]\n$1":                     "GCP KMS",
		"    azure_kv: [{name: a, enc: x}]\n    hckms: [{key_id: a}]\n$1": "Azure Key Vault and Huawei Cloud KMS",
		"$1": "nobody",
	} {
		src := age.ReplaceAll(read(t, "secret.yaml"), []byte(block))
		_, err := sops.Decrypt(src, ours(t))
		require.ErrorContains(t, err, "it is encrypted for "+name+" only, kplan reads age")
		require.Contains(t, err.(interface{ Hint() string }).Hint(), "sops -d FILE")
	}
}

// Keys are found where SOPS itself looks for them.
func TestKeyring(t *testing.T) {
	text := string(read(t, "keys.txt"))
	bare := strings.TrimSpace(text[strings.LastIndex(strings.TrimSpace(text), "\n"):])
	home := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(home, "sops/age"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(home, "sops/age/keys.txt"), []byte(text), 0o600))
	for name, env := range map[string]map[string]string{
		"variable":           {"SOPS_AGE_KEY": bare},
		"variable as a file": {"SOPS_AGE_KEY": text},
		"several":            {"SOPS_AGE_KEY": string(read(t, "other.txt")) + "\n" + text},
		"two on one line":    {"SOPS_AGE_KEY": bare + " " + bare},
		"beside a bad file":  {"SOPS_AGE_KEY": bare, "SOPS_AGE_KEY_FILE": "testdata/nowhere"},
		"file":               {"SOPS_AGE_KEY_FILE": "testdata/keys.txt"},
		"folder of the user": {"XDG_CONFIG_HOME": home},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := sops.Decrypt(read(t, "secret.yaml"), keyring(t, env))
			require.NoError(t, err)
		})
	}
	_, err := sops.Decrypt(read(t, "ssh.yaml"), keyring(t, map[string]string{"SOPS_AGE_SSH_PRIVATE_KEY_FILE": "testdata/keys.txt"}))
	require.ErrorContains(t, err, "testdata/keys.txt is no private key of the kinds ssh-ed25519 and ssh-rsa")
}

func TestFormOf(t *testing.T) {
	want := map[string]sops.Form{"a.yaml": sops.YAML, "A.YML": sops.YAML, "x/b.json": sops.YAML, ".env": sops.Dotenv, "a.ini": sops.Ini, "token": sops.Binary, "a.txt": sops.Binary}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		require.Equal(t, want[name], sops.FormOf(name), name)
	}
}

// Whatever a file holds, it is read or refused: nothing is encrypted any more in
// what comes out, and no text of ours gets a position that is not there.
func FuzzDecrypt(f *testing.F) {
	for _, name := range []string{"values.yaml", "values.json", "many.yaml", "comment.yaml", "mac-only.yaml", "groups.yaml"} {
		src, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src)
	}
	f.Add([]byte("sops: {lastmodified: x, age: [{enc: y}]}\na: [b"))
	keys := sops.NewKeyring(func(name string) (string, bool) { return "testdata/keys.txt", name == "SOPS_AGE_KEY_FILE" })
	f.Fuzz(func(t *testing.T, src []byte) {
		encrypted := sops.IsEncrypted(src)
		text, err := sops.Decrypt(src, keys)
		if fault := (*sops.Error)(nil); err != nil && !errors.As(err, &fault) {
			t.Fatalf("%T", err)
		}
		if err != nil {
			return
		}
		if !encrypted {
			t.Fatal("it is not encrypted, and was decrypted")
		}
		var doc any
		if err := yamlv3.Unmarshal(text.Bytes, &doc); err != nil {
			t.Fatalf("%v\n%s", err, text.Bytes)
		}
	})
}
