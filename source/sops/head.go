package sops

import (
	"bytes"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"filippo.io/age"
	"filippo.io/age/armor"
	yamlv3 "go.yaml.in/yaml/v3"
)

// blockKey is the field of a file that has what SOPS needs to know of it.
const blockKey = "sops"

// maxKeys bounds how many wrapped data keys are tried: each takes a computation on a
// curve.
const maxKeys = 100

// head is the sops block of a file.
type head struct {
	at *yamlv3.Node

	Age               []wrappedKey `yaml:"age"`
	PGP               []any        `yaml:"pgp"`
	KMS               []any        `yaml:"kms"`
	GCPKMS            []any        `yaml:"gcp_kms"`
	AzureKV           []any        `yaml:"azure_kv"`
	Vault             []any        `yaml:"hc_vault"`
	HuaweiKMS         []any        `yaml:"hckms"`
	KeyGroups         []any        `yaml:"key_groups"`
	LastModified      string       `yaml:"lastmodified"`
	MAC               string       `yaml:"mac"`
	MACOnlyEncrypted  bool         `yaml:"mac_only_encrypted"`
	UnencryptedSuffix string       `yaml:"unencrypted_suffix"`
	EncryptedSuffix   string       `yaml:"encrypted_suffix"`
	UnencryptedRegex  string       `yaml:"unencrypted_regex"`
	EncryptedRegex    string       `yaml:"encrypted_regex"`
	// UnencryptedCommentRegex and EncryptedCommentRegex go by the comments above a value.
	UnencryptedCommentRegex string `yaml:"unencrypted_comment_regex"`
	EncryptedCommentRegex   string `yaml:"encrypted_comment_regex"`
}

// wrappedKey is the data key, encrypted for one recipient.
type wrappedKey struct {
	Recipient string `yaml:"recipient"`
	Enc       string `yaml:"enc"`
}

const byHand = "decrypt it yourself: sops -d FILE"

func readHead(root *yamlv3.Node) (*head, error) {
	block := field(root, blockKey)
	h := &head{}
	if err := block.Decode(h); err != nil {
		return nil, faultAt(block, "", "the sops block cannot be read: a field is not of the type that SOPS writes")
	}
	h.at = block
	rules := 0
	for _, rule := range []string{h.UnencryptedSuffix, h.EncryptedSuffix, h.UnencryptedRegex, h.EncryptedRegex, h.UnencryptedCommentRegex, h.EncryptedCommentRegex} {
		if rule != "" {
			rules++
		}
	}
	switch rules {
	case 0:
		h.UnencryptedSuffix = "_unencrypted"
	case 1:
	default:
		return nil, faultAt(block, "", "the sops block has several rules of what is encrypted, SOPS takes one")
	}
	return h, nil
}

// dataKey opens the file's key with one of those at hand.
func (h *head) dataKey(keys *Keyring) ([]byte, error) {
	if len(h.KeyGroups) > 0 {
		return nil, faultAt(h.at, byHand, "its data key is split among groups of keys (Shamir), which kplan does not put together")
	}
	if len(h.Age) == 0 {
		none := faultAt(h.at, byHand+"; or add an age key: sops updatekeys FILE", "it is encrypted for %s only, kplan reads age", h.others())
		none.noKey = true
		return nil, none
	}
	if len(h.Age) > maxKeys {
		return nil, faultAt(h.at, "", "it is encrypted for more than %d age keys", maxKeys)
	}
	var recipients []string
	for _, k := range h.Age {
		recipients = append(recipients, k.Recipient)
	}
	ids, fault := keys.identities(recipients)
	if fault != nil {
		fault.Line, fault.Column = h.at.Line, h.at.Column
		return nil, fault
	}
	for _, k := range h.Age {
		r, err := age.Decrypt(armor.NewReader(strings.NewReader(k.Enc)), ids...)
		if _, other := errors.AsType[*age.NoIdentityMatchError](err); other {
			continue
		}
		var key bytes.Buffer
		if err == nil {
			_, err = io.Copy(&key, io.LimitReader(r, 1<<10))
		}
		if err != nil || key.Len() != 32 {
			return nil, faultAt(h.at, "the file was changed by hand, or is cut off", "the data key for %s is damaged", brief(k.Recipient))
		}
		return key.Bytes(), nil
	}
	none := faultAt(h.at, keys.hint(), "none of the age keys at hand opens it: it is encrypted for %s", list(recipients))
	none.noKey = true
	return nil, none
}

// others says who else can open the file.
func (h *head) others() string {
	var names []string
	for _, o := range []struct {
		name string
		keys []any
	}{
		{"PGP", h.PGP}, {"AWS KMS", h.KMS}, {"GCP KMS", h.GCPKMS}, {"Azure Key Vault", h.AzureKV}, {"HashiCorp Vault", h.Vault}, {"Huawei Cloud KMS", h.HuaweiKMS},
	} {
		if len(o.keys) > 0 {
			names = append(names, o.name)
		}
	}
	if len(names) == 0 {
		return "nobody"
	}
	return strings.Join(names, " and ")
}

// verify compares what was read with the sum that whoever encrypted it put there.
func (h *head) verify(sum string, key []byte) error {
	hint := "somebody changed it without sops: get it back from version control, or see what it holds with sops -d --ignore-mac"
	modified, err := time.Parse(time.RFC3339, h.LastModified)
	if err != nil {
		return faultAt(h.at, hint, "the time in lastmodified is malformed")
	}
	if h.MAC == "" {
		return faultAt(h.at, hint, "it has no message authentication code (mac)")
	}
	mac, _, err := open(h.MAC, key, modified.Format(time.RFC3339))
	text, _ := mac.(string)
	if err != nil {
		return faultAt(h.at, hint, "its message authentication code (mac) cannot be read: it, or lastmodified, was changed")
	}
	if subtle.ConstantTimeCompare([]byte(text), []byte(sum)) != 1 {
		return faultAt(h.at, hint, "its message authentication code (mac) does not match: values were changed, added, removed or moved")
	}
	return nil
}

// rules says which values are encrypted.
type rules struct {
	suffix, regex, comment func(string) bool
	// encrypts says that those are encrypted which match, and not all others.
	encrypts bool
}

func (h *head) rules() (rules, error) {
	suffix := func(s string) func(string) bool {
		return func(name string) bool { return strings.HasSuffix(name, s) }
	}
	regex := func(expr string) (func(string) bool, error) {
		if len(expr) > 10_000 {
			return nil, faultAt(h.at, "", "a regular expression of the sops block is too long")
		}
		re, err := regexp.Compile(expr)
		if err != nil {
			return nil, faultAt(h.at, "", "a regular expression of the sops block is malformed")
		}
		return re.MatchString, nil
	}
	var (
		r   rules
		err error
	)
	switch {
	case h.EncryptedSuffix != "":
		r.suffix, r.encrypts = suffix(h.EncryptedSuffix), true
	case h.UnencryptedRegex != "":
		r.regex, err = regex(h.UnencryptedRegex)
	case h.EncryptedRegex != "":
		r.encrypts = true
		r.regex, err = regex(h.EncryptedRegex)
	case h.UnencryptedCommentRegex != "":
		r.comment, err = regex(h.UnencryptedCommentRegex)
	case h.EncryptedCommentRegex != "":
		r.encrypts = true
		r.comment, err = regex(h.EncryptedCommentRegex)
	default:
		r.suffix = suffix(h.UnencryptedSuffix)
	}
	return r, err
}

// encrypted reports whether the value at a path is encrypted that has these comments
// around it.
func (r rules) encrypted(path []string, comments [][]string) bool {
	matches := false
	switch {
	case r.suffix != nil:
		matches = slices.ContainsFunc(path, r.suffix)
	case r.regex != nil:
		matches = slices.ContainsFunc(path, r.regex)
	default:
		matches = slices.ContainsFunc(comments, func(level []string) bool { return slices.ContainsFunc(level, r.comment) })
	}
	return matches == r.encrypts
}

func brief(recipient string) string {
	if len(recipient) > 70 {
		return recipient[:66] + " …"
	}
	if recipient == "" {
		return "nobody"
	}
	return recipient
}

// list names recipients, at most three of them.
func list(recipients []string) string {
	var shown []string
	for i, r := range recipients {
		if i == 3 {
			shown = append(shown, fmt.Sprintf("%d more", len(recipients)-i))
			break
		}
		shown = append(shown, brief(r))
	}
	return strings.Join(shown, ", ")
}
