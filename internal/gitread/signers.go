package gitread

import (
	"bytes"
	"encoding/base64"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// Signers are the keys that commits may be signed with.
type Signers struct {
	SSH     string `json:"ssh,omitempty"`     // lines of ssh-keygen's allowed_signers
	OpenPGP []byte `json:"openpgp,omitempty"` // public keys, as gpgv reads them
}

// keyTypes are the types of keys with which OpenSSH signs.
var keyTypes = []string{"ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "sk-ssh-ed25519@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com"}

// Add adds the content of a file: allowed signers of SSH, or public keys of OpenPGP, armored or not. name is the file's.
func (s *Signers) Add(name string, data []byte) error {
	switch {
	case bytes.Contains(data, []byte("PRIVATE KEY")):
		return fail.New(fail.Refused, "it holds a private key").At(name).Do("export the public key: gpg --export --armor KEY, or the .pub file of an SSH key")
	case bytes.Contains(data, []byte(armorBegin)):
		keys, err := dearmor(data)
		if err != nil {
			return fail.Wrap(fail.Invalid, err, "read the public keys").At(name)
		}
		s.OpenPGP = append(s.OpenPGP, keys...)
		return nil
	case len(data) > 0 && data[0]&0xc0 == 0xc0 || len(data) > 0 && data[0]&0xfc == 0x98: // a packet with a public key, in the new or the old format
		s.OpenPGP = append(s.OpenPGP, data...)
		return nil
	}
	return s.addSSH(name, string(bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))))
}

// addSSH adds allowed signers. ssh-keygen skips lines that it can't read, and then trusts less than the administrator expects.
func (s *Signers) addSSH(name, text string) error {
	found := false
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		words := strings.Fields(line)
		at := slices.IndexFunc(words, func(w string) bool { return slices.Contains(keyTypes, w) })
		switch {
		case at == 0:
			return fail.New(fail.Invalid, "line %d names no signer before the key", i+1).At(name).Do("write ann@example.org ssh-ed25519 AAAA…")
		case slices.Contains(words, "ssh-ed25519-sk") || slices.Contains(words, "ed25519-sk"):
			return fail.New(fail.Invalid, "line %d: the type of a key on a security token is sk-ssh-ed25519@openssh.com", i+1).At(name).Do("copy the line of the key's .pub file")
		case at < 0 || at+1 >= len(words):
			return fail.New(fail.Invalid, "line %d is neither an allowed signer of SSH nor a public key of OpenPGP", i+1).At(name).
				Do("write ann@example.org ssh-ed25519 AAAA…, or export keys with gpg --export --armor")
		}
		if _, err := base64.StdEncoding.DecodeString(words[at+1]); err != nil {
			return fail.Wrap(fail.Invalid, err, "line %d: the key is cut off or changed", i+1).At(name).Do("copy it again from the .pub file")
		}
		found = true
	}
	if !found {
		return fail.New(fail.Invalid, "it names no signer").At(name).Do("write ann@example.org ssh-ed25519 AAAA…, or export keys with gpg --export --armor")
	}
	if s.SSH != "" && !strings.HasSuffix(s.SSH, "\n") {
		s.SSH += "\n"
	}
	s.SSH += text
	return nil
}

const (
	armorBegin = "-----BEGIN PGP PUBLIC KEY BLOCK-----"
	armorEnd   = "-----END PGP PUBLIC KEY BLOCK-----"
)

// dearmor returns the keys of all blocks, because gpgv reads no armor. gpgv itself checks them.
func dearmor(data []byte) (keys []byte, err error) {
	text := strings.ReplaceAll(string(data), "\r\n", "\n")
	for {
		_, rest, more := strings.Cut(text, armorBegin)
		if !more {
			return keys, nil
		}
		block, after, ended := strings.Cut(rest, armorEnd)
		if !ended {
			return nil, fail.New(fail.Invalid, "a public key is cut off").Do("export it again: gpg --export --armor KEY")
		}
		_, body, _ := strings.Cut(block, "\n\n") // behind the headers
		var lines strings.Builder
		for line := range strings.Lines(body) {
			if line = strings.TrimSpace(line); !strings.HasPrefix(line, "=") { // the checksum
				lines.WriteString(line)
			}
		}
		key, err := base64.StdEncoding.DecodeString(lines.String())
		if err != nil || len(key) == 0 {
			return nil, fail.New(fail.Invalid, "a public key is damaged").Do("export it again: gpg --export --armor KEY")
		}
		keys, text = append(keys, key...), after
	}
}
