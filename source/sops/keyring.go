package sops

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"filippo.io/age"
	"filippo.io/age/agessh"
	"golang.org/x/crypto/ssh"
)

// The places where SOPS looks for keys, by the names that it gives them.
const (
	envKey     = "SOPS_AGE_KEY"
	envKeyFile = "SOPS_AGE_KEY_FILE"
	envKeyCmd  = "SOPS_AGE_KEY_CMD"
	envSSHFile = "SOPS_AGE_SSH_PRIVATE_KEY_FILE"
)

// Keyring has the age keys of whoever runs kplan: those of the environment variable
// SOPS_AGE_KEY, of the file that SOPS_AGE_KEY_FILE names and of sops/age/keys.txt in
// the user's configuration folder, and for files that are encrypted for an SSH key
// that of SOPS_AGE_SSH_PRIVATE_KEY_FILE, ~/.ssh/id_ed25519 and ~/.ssh/id_rsa. They
// are read when the first file needs one. It is safe for concurrent use.
type Keyring struct {
	lookup func(string) (string, bool)

	once sync.Once
	keys []age.Identity
	err  error

	sshOnce sync.Once
	ssh     []age.Identity
	sshErr  error
}

// NewKeyring returns a keyring that looks up environment variables by lookup, such as
// os.LookupEnv.
func NewKeyring(lookup func(name string) (value string, ok bool)) *Keyring {
	return &Keyring{lookup: lookup}
}

// Decrypt returns what a YAML or JSON file holds, and which values of it were encrypted;
// a file that is not encrypted it returns as it is, without values. The error is an
// *Error.
func (k *Keyring) Decrypt(src []byte) (text []byte, secrets []any, err error) {
	if !IsEncrypted(src) {
		return src, nil, nil
	}
	plain, err := Decrypt(src, k)
	return plain.Bytes, plain.Secrets, err
}

// identities are the keys that may open what is encrypted for recipients.
func (k *Keyring) identities(recipients []string) ([]age.Identity, *Error) {
	k.once.Do(k.load)
	all := slices.Clip(k.keys)
	err := k.err
	if slices.ContainsFunc(recipients, func(r string) bool { return strings.HasPrefix(r, "ssh-") }) {
		k.sshOnce.Do(k.loadSSH)
		all = append(all, k.ssh...)
		err = errors.Join(err, k.sshErr)
	}
	if len(all) > 0 {
		return all, nil
	}
	if err != nil {
		return nil, &Error{Message: err.Error(), hint: "a file of keys has one on each line, as age-keygen writes them"}
	}
	message := "there is no age key at hand to decrypt it: it is encrypted for " + list(recipients)
	if _, ok := k.lookup(envKeyCmd); ok {
		message += "; " + envKeyCmd + " is set, but kplan runs no program for a key"
	}
	return nil, &Error{Message: message, hint: k.hint(), noKey: true}
}

// hint says where keys are looked for.
func (k *Keyring) hint() string {
	hint := "set " + envKeyFile + " or " + envKey
	if file, err := k.defaultFile(); err == nil {
		hint += ", or put the key into " + file
	}
	return hint
}

// load reads the keys of age's own kind.
func (k *Keyring) load() {
	if text, ok := k.lookup(envKey); ok {
		k.add(envKey, strings.Join(strings.Fields(withoutComments(text)), "\n"))
	}
	var files []string
	if file, ok := k.lookup(envKeyFile); ok && file != "" {
		files = append(files, file)
	}
	named := len(files)
	if file, err := k.defaultFile(); err == nil {
		files = append(files, file)
	}
	for i, file := range files {
		text, err := os.ReadFile(file)
		switch {
		case err == nil:
			k.add(file, string(text))
		case i < named || !errors.Is(err, fs.ErrNotExist):
			k.err = errors.Join(k.err, fmt.Errorf("the age keys cannot be read: %w", err))
		}
	}
}

// add parses the keys of one place. Messages have no text of it: it is a secret.
func (k *Keyring) add(place, text string) {
	lines := bufio.NewScanner(strings.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		id, err := parseIdentity(line)
		if err != nil {
			k.err = errors.Join(k.err, fmt.Errorf("line %d of %s %w", n, place, err))
			continue
		}
		k.keys = append(k.keys, id)
	}
}

func parseIdentity(line string) (id age.Identity, err error) {
	switch {
	case strings.HasPrefix(line, "AGE-PLUGIN-"):
		return nil, errors.New("is the key of a plugin of age: kplan runs none")
	case strings.HasPrefix(line, "AGE-SECRET-KEY-PQ-1"):
		id, err = age.ParseHybridIdentity(line)
	default:
		id, err = age.ParseX25519Identity(line)
	}
	if err != nil {
		return nil, errors.New("is no age key")
	}
	return id, nil
}

func withoutComments(text string) string {
	var keep strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			keep.WriteString(line)
		}
	}
	return keep.String()
}

// loadSSH reads the keys of SSH.
func (k *Keyring) loadSSH() {
	var files []string
	if file, ok := k.lookup(envSSHFile); ok && file != "" {
		files = append(files, file)
	}
	named := len(files)
	if home, err := os.UserHomeDir(); err == nil {
		files = append(files, filepath.Join(home, ".ssh", "id_ed25519"), filepath.Join(home, ".ssh", "id_rsa"))
	}
	for i, file := range files {
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) && i >= named {
			continue
		}
		if err == nil {
			var id age.Identity
			if id, err = agessh.ParseIdentity(text); err == nil {
				k.ssh = append(k.ssh, id)
				continue
			}
			if _, locked := errors.AsType[*ssh.PassphraseMissingError](err); locked {
				err = fmt.Errorf("the SSH key %s has a passphrase, which kplan does not ask for", file)
			} else {
				err = fmt.Errorf("%s is no private key of the kinds ssh-ed25519 and ssh-rsa", file)
			}
		}
		k.sshErr = errors.Join(k.sshErr, err)
	}
}

// defaultFile is where SOPS keeps the keys of a user.
func (k *Keyring) defaultFile() (string, error) {
	dir, _ := k.lookup("XDG_CONFIG_HOME")
	if dir == "" || runtime.GOOS != "darwin" && runtime.GOOS != "linux" {
		var err error
		if dir, err = os.UserConfigDir(); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, "sops", "age", "keys.txt"), nil
}
