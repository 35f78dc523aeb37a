package remote

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // OpenSSH hashes host names with it
	"encoding/base64"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/naupegos/naupegos/internal/fail"
)

// Known is a known_hosts file: the host keys that a user of ssh has pinned.
type Known struct {
	name    string
	entries []knownEntry
	skipped []int // numbers of unreadable lines
}

// knownEntry is one line of the file.
type knownEntry struct {
	patterns []string
	key      ssh.PublicKey
	revoked  bool
	signs    bool // the key is an authority's, which signs hosts' keys
}

// maxKnownLine is the maximum length of a line; OpenSSH stops at 8 KiB, and 16384-bit keys take 3 KiB.
const maxKnownLine = 64 << 10

// ParseKnown parses a known_hosts file; errors contain name. It skips unreadable lines.
func ParseKnown(name string, text []byte) (Known, error) {
	k := Known{name: name}
	if bytes.IndexByte(text, 0) >= 0 {
		return k, fail.New(fail.Invalid, "read the known host keys: it is not a text file").At(name)
	}
	scan := bufio.NewScanner(bytes.NewReader(text))
	scan.Buffer(nil, maxKnownLine)
	n := 0
	for scan.Scan() {
		n++
		line := strings.TrimSpace(strings.TrimPrefix(scan.Text(), "\ufeff"))
		if line == "" || line[0] == '#' {
			continue
		}
		fields := strings.Fields(line)
		entry := knownEntry{}
		switch fields[0] {
		case "@cert-authority":
			entry.signs, fields = true, fields[1:]
		case "@revoked":
			entry.revoked, fields = true, fields[1:]
		}
		if len(fields) < 3 {
			k.skipped = append(k.skipped, n)
			continue
		}
		key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(fields[1] + " " + fields[2]))
		if _, isCert := key.(*ssh.Certificate); err != nil || isCert || key.Type() != fields[1] {
			k.skipped = append(k.skipped, n)
			continue
		}
		entry.patterns, entry.key = strings.Split(fields[0], ","), key
		k.entries = append(k.entries, entry)
	}
	if err := scan.Err(); err != nil {
		return k, fail.Wrap(fail.Invalid, err, "read the known host keys, line %d", n+1).At(name)
	}
	return k, nil
}

// Skipped returns the numbers of the lines that could not be read.
func (k Known) Skipped() []int { return k.skipped }

// Keys returns the known host keys of an address as lines of authorized_keys, Ed25519 keys first: fail.Unauthorized if all of its keys are revoked.
// Lines without a port apply to other ports than 22 if no line names the port, as for ssh.
func (k Known) Keys(address string, port int) ([]string, error) {
	keys, err := k.Exact(address, port)
	if err != nil || len(keys) > 0 || port == 22 {
		return keys, err
	}
	if keys, err = k.Exact(address, 22); err != nil {
		return nil, nil //nolint:nilerr // only keys of port 22 are revoked: nothing is known about this port
	}
	return keys, nil
}

// Exact is Keys restricted to lines of this port.
func (k Known) Exact(address string, port int) ([]string, error) {
	name := strings.ToLower(address)
	if port != 22 {
		name = "[" + name + "]:" + strconv.Itoa(port)
	}
	var lines, revoked []string
	for _, e := range k.entries {
		line := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(e.key)))
		switch {
		case e.signs || !e.matches(name):
		case e.revoked:
			revoked = append(revoked, line)
		default:
			lines = append(lines, line)
		}
	}
	had := len(lines) > 0 || len(revoked) > 0
	lines = slices.DeleteFunc(lines, func(l string) bool { return slices.Contains(revoked, l) })
	if had && len(lines) == 0 {
		return nil, fail.New(fail.Unauthorized, "the host key of %s is marked @revoked", net.JoinHostPort(address, strconv.Itoa(port))).At(k.name).
			Do("the machine must get a new host key")
	}
	slices.SortStableFunc(lines, func(a, b string) int { return rank(a) - rank(b) })
	var out []string
	for _, l := range lines {
		if !slices.Contains(out, l) {
			out = append(out, l)
		}
	}
	return out, nil
}

// Signed returns an error if a certificate authority of the file signs the host keys of an address: then only certificates prove the right key, and
// no other key may be trusted instead.
func (k Known) Signed(address string, port int) error {
	name := strings.ToLower(address)
	for _, e := range k.entries {
		if e.signs && (e.matches(name) || e.matches("["+name+"]:"+strconv.Itoa(port))) {
			return fail.New(fail.Refused, "a certificate authority (@cert-authority) signs the host keys of %s, and certificates of hosts are not checked", net.JoinHostPort(address, strconv.Itoa(port))).At(k.name).
				Do("give the machine's own key: hostKey in the document, or a line of its own in that file (ssh-keyscan %s from a trusted place)", address)
		}
	}
	return nil
}

// matches reports whether a line applies to a host, by OpenSSH's rules: * and ? are wildcards, and a matching negated pattern excludes the host.
func (e knownEntry) matches(name string) bool {
	found := false
	for _, p := range e.patterns {
		p, negated := strings.CutPrefix(p, "!")
		if !patternMatches(p, name) {
			continue
		}
		if negated {
			return false
		}
		found = true
	}
	return found
}

func patternMatches(pattern, name string) bool {
	if rest, hashed := strings.CutPrefix(pattern, "|1|"); hashed {
		salt64, sum64, _ := strings.Cut(rest, "|")
		salt, err := base64.StdEncoding.DecodeString(salt64)
		if err != nil {
			return false
		}
		mac := hmac.New(sha1.New, salt)
		mac.Write([]byte(name))
		sum, err := base64.StdEncoding.DecodeString(sum64)
		return err == nil && hmac.Equal(sum, mac.Sum(nil))
	}
	pattern = strings.ToLower(pattern)
	if !strings.ContainsAny(pattern, "*?") {
		return pattern == name
	}
	// path.Match gives brackets a meaning; known_hosts writes ports with them. A name has no slash, so * matches all of it.
	ok, err := path.Match(strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`).Replace(pattern), name)
	return err == nil && ok
}

func rank(line string) int {
	if strings.HasPrefix(line, ssh.KeyAlgoED25519+" ") {
		return 0
	}
	return 1
}
