package machine

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"regexp"
	"sync"
	"time"
	"unicode/utf8"
)

// MaxShown is the maximum size in bytes of a file whose content a dry run reports.
const MaxShown = 64 << 10

// Content is what a dry run reports about the content of a file. For a secret it contains only the mode.
type Content struct {
	Mode     string    `json:"mode,omitempty"`    // "0644"
	Modified time.Time `json:"modified,omitzero"` // time of the last change, by the machine's clock
	Text     *string   `json:"text,omitempty"`    // absent if it is secret, too large, or not text
	Size     int64     `json:"size,omitempty"`    // bytes, if Text is absent
	Digest   string    `json:"digest,omitempty"`  // "sha256:…", if Text is absent
}

// ContentOf describes data that is not secret.
func ContentOf(data []byte, mode fs.FileMode) *Content {
	c := &Content{Mode: Octal(mode)}
	if len(data) <= MaxShown && utf8.Valid(data) && !bytes.ContainsRune(data, 0) {
		text := string(data)
		c.Text = &text
		return c
	}
	c.Size, c.Digest = int64(len(data)), fmt.Sprintf("sha256:%x", sha256.Sum256(data))
	return c
}

// Octal renders a mode in the form of chmod(1).
func Octal(m fs.FileMode) string {
	n := uint32(m.Perm())
	for bit, value := range map[fs.FileMode]uint32{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if m&bit != 0 {
			n |= value
		}
	}
	return fmt.Sprintf("%04o", n)
}

// sensitive matches secret content, whatever the file's mark: private keys, credentials of a kubeconfig, keys of an encryption configuration,
// Kubernetes Secrets, passwords in URLs, and values of keys with the names of secrets.
var sensitive = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----|AGE-SECRET-KEY-1|` +
		`\bkind"?\s*:\s*"?(?:EncryptionConfiguration|Secret)\b|` +
		`(?im:^\s*-?\s*"?(?:client-key-data|private_?key|auth_pass|[a-z_-]*password|[a-z_-]*secret(?:_?key)?|(?:bearer_|access_)?token|presharedkey)"?(?:\s*[:=]\s*|[ \t]+)"?[^\s"{\[]{6,})|` +
		`[a-z][a-z0-9+.-]*://[^/\s:@]+:[^/\s@]+@`)
})

// Sensitive reports whether content looks like it contains a secret. It is the second line of defence behind File.Secret, because a file that was
// edited on a machine may contain anything.
func Sensitive(data []byte) bool { return sensitive().Match(data) }
