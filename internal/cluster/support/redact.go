package support

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/naupegos/naupegos/internal/pki"
)

const redacted = "[redacted]"

// secretForms are the forms of secrets from any source. They also match some harmless text (certificates in base64), which is better than missing
// a secret.
var secretForms = sync.OnceValue(func() []*regexp.Regexp {
	return []*regexp.Regexp{
		regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?-----END [A-Z0-9 ]*PRIVATE KEY-----`),
		regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*$`),                                                   // its end is not here
		regexp.MustCompile(`(?s)^.*-----END [A-Z0-9 ]*PRIVATE KEY-----`),                                                     // its beginning is not here
		regexp.MustCompile(`[A-Za-z0-9+/]*(?:LS0tLS1CRUdJTi|UFJJVkFURSBLRV|BSSVZBVEUgS0VZ|QUklWQVRFIEtFW)[A-Za-z0-9+/=_-]*`), // PEM in base64, at every alignment
		regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*)?`),                                 // JSON web tokens
		regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`),                                                                  // bootstrap tokens
		regexp.MustCompile(`AGE-SECRET-KEY-1[A-Z0-9]+`),                                                                      //
		regexp.MustCompile(`(?i)\b(?:password|passwd|passphrase)["']?\s*[:=]\s*["']?[^\s"',;]{6,}`),
		regexp.MustCompile(`(?i)\bbearer\s+[A-Za-z0-9+/_.~-]{16,}={0,2}`),
		regexp.MustCompile(`(?i)\bauthorization["']?\s*[:=]\s*["']?basic\s+[A-Za-z0-9+/_-]+={0,2}`),
		regexp.MustCompile(`\b(?:AKIA|ASIA)[A-Z0-9]{16}\b`), // keys of Amazon's and its like's object stores
	}
})

// logins are user names and passwords in addresses.
var logins = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(\b[a-z][a-z0-9+.-]*://[^\s/:@"']*:)([^\s/@"']+)@`) })

// named are words after the name of a secret; they are one if they look like key material.
var named = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(token|secret|certificate-key|encryption-key|client-key-data|api[-_]?key)(["']?\s*[:= ]\s*["']?)([A-Za-z0-9+/_.~-]{16,}={0,2})`)
})

// Redactor takes secrets out of texts.
type Redactor struct{ known *strings.Replacer }

// NewRedactor returns a Redactor for the cluster's own secrets and the usual forms.
func NewRedactor(ctx context.Context, secrets pki.Secrets) (*Redactor, error) {
	names, err := secrets.Names(ctx)
	if err != nil {
		return nil, err
	}
	var needles []string
	for _, n := range names {
		v, err := secrets.Get(ctx, n)
		if err != nil {
			return nil, err
		}
		needles = append(needles, needlesOf(v)...)
	}
	slices.SortFunc(needles, func(a, b string) int { return len(b) - len(a) }) // the longest first: it may contain others
	var pairs []string
	for _, n := range needles {
		pairs = append(pairs, n, redacted)
	}
	return &Redactor{known: strings.NewReplacer(pairs...)}, nil
}

// minNeedle is the least length of a part of a secret that is searched for: shorter ones occur by chance.
const minNeedle = 24

var tokens = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[A-Za-z0-9+/=_-]{24,}`) })

// needlesOf lists the forms in which a secret may appear in a text: its words and lines, and all of it in base64 and hexadecimal.
func needlesOf(v []byte) []string {
	var out []string
	isPEM := bytes.HasPrefix(v, []byte("-----BEGIN ")) // then each word is a line of key material, also that rare one without a digit
	for _, t := range tokens().FindAllString(string(v), -1) {
		if isPEM || random(t) {
			out = append(out, t)
		}
	}
	if text := strings.TrimSpace(string(v)); len(v) >= 16 && len(v) < 128 {
		out = append(out, text)
	}
	for _, e := range []string{base64.RawStdEncoding.EncodeToString(v), base64.RawURLEncoding.EncodeToString(v), hex.EncodeToString(v)} {
		if len(e) >= minNeedle {
			out = append(out, e)
		}
	}
	return out
}

// random reports whether a word looks like key material and not like a name.
func random(s string) bool {
	lower, upper, digit := 0, 0, 0
	for _, r := range s {
		switch {
		case 'a' <= r && r <= 'z':
			lower++
		case 'A' <= r && r <= 'Z':
			upper++
		case '0' <= r && r <= '9':
			digit++
		}
	}
	return digit > 0 && (lower > 0 && upper > 0 || len(s) >= 32 && strings.Trim(s, "0123456789abcdef") == "")
}

// Redact removes everything from text that is or looks like a secret.
func (r *Redactor) Redact(text []byte) []byte {
	s := r.known.Replace(string(text))
	for _, form := range secretForms() {
		s = form.ReplaceAllString(s, redacted)
	}
	s = logins().ReplaceAllString(s, "${1}"+redacted+"@")
	return []byte(named().ReplaceAllStringFunc(s, func(all string) string {
		part := named().FindStringSubmatch(all)
		if !strings.ContainsAny(part[3], "0123456789") || strings.Contains(part[3], "/") && !random(part[3]) {
			return all // a name
		}
		return part[1] + part[2] + redacted
	}))
}
