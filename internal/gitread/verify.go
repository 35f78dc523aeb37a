package gitread

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan/words"
)

// commit is a commit in parts.
type commit struct {
	signatures []string // of the commit; a sound one has at most one
	signed     []byte   // the bytes that the signature covers
	committer  string   // name and e-mail address
	time       int64    // of the committer's clock
	subject    string
}

// parseCommit takes a commit apart. A signature covers the whole commit without the headers with signatures.
func parseCommit(raw []byte) *commit {
	c := &commit{}
	head, body, _ := bytes.Cut(raw, []byte("\n\n"))
	rest := raw[len(head):]
	inside := false
	var signed bytes.Buffer
	for _, line := range bytes.SplitAfter(append(head[:len(head):len(head)], '\n'), []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		text := strings.TrimSuffix(string(line), "\n")
		if inside && strings.HasPrefix(text, " ") {
			c.signatures[len(c.signatures)-1] += text[1:] + "\n"
			continue
		}
		name, value, _ := strings.Cut(text, " ")
		if inside = name == "gpgsig" || name == "gpgsig-sha256"; inside {
			c.signatures = append(c.signatures, value+"\n")
			continue
		}
		if name == "committer" && c.committer == "" {
			c.committer, c.time = person(value)
		}
		signed.Write(line)
	}
	if len(rest) > 0 {
		signed.Write(rest[1:]) // head's last line has the first new line
	}
	c.signed = signed.Bytes()
	subject, _, _ := bytes.Cut(bytes.TrimLeft(body, "\n"), []byte("\n"))
	c.subject = words.Clip(words.Line(string(subject)), 200)
	return c
}

// person returns who, and when, from a header of a commit: Ann <ann@example.org> 1700000000 +0100.
func person(value string) (who string, at int64) {
	who, when, ok := strings.Cut(value, "> ")
	if ok {
		stamp, _, _ := strings.Cut(when, " ")
		at, _ = strconv.ParseInt(stamp, 10, 64) // 0 is long ago
		who += ">"
	}
	return words.Clip(words.Line(who), 200), at
}

// verify returns who signed a commit, or why its signature does not count.
func (b *bench) verify(ctx context.Context, id string, c *commit) (signer string, err error) {
	s := b.s.Signers
	if s == nil {
		return "", nil
	}
	switch {
	case len(c.signatures) == 0:
		return "", b.unsigned(id, "it is not signed; %s committed it", c.committer).Do("sign commits (git commit -S), or let the forge that merges sign them and add its key to --signers")
	case len(c.signatures) > 1:
		return "", b.unsigned(id, "it has %d signatures", len(c.signatures))
	}
	sig := c.signatures[0]
	if err := errors.Join(b.write("signature", sig), os.WriteFile(filepath.Join(b.dir, "signed"), c.signed, 0o600)); err != nil {
		return "", err
	}
	switch {
	case strings.HasPrefix(sig, "-----BEGIN SSH SIGNATURE-----"):
		return b.verifySSH(ctx, id, c)
	case strings.HasPrefix(sig, "-----BEGIN PGP SIGNATURE-----"), strings.HasPrefix(sig, "-----BEGIN PGP MESSAGE-----"):
		return b.verifyOpenPGP(ctx, id)
	}
	return "", b.unsigned(id, "its signature is neither of SSH nor of OpenPGP, such as one of gitsign or of X.509; %s committed it", c.committer).Do("sign with a key of SSH or OpenPGP")
}

func (b *bench) unsigned(id, format string, args ...any) *fail.Error {
	e := fail.New(fail.Unauthorized, format, args...)
	e.What = "the signature of commit " + Short(id) + " does not count: " + e.What
	return e.At(b.s.URL)
}

// goodSSH matches what ssh-keygen says of a signature that fits.
var goodSSH = regexp.MustCompile(`^Good "git" signature (?:for .* )?with (\S+) key (\S+)`)

func (b *bench) verifySSH(ctx context.Context, id string, c *commit) (string, error) {
	fits, err := b.run(ctx, bytes.NewReader(c.signed), "ssh-keygen", "-Y", "check-novalidate", "-n", "git", "-s", "signature")
	if err != nil {
		return "", err
	}
	key := goodSSH.FindStringSubmatch(string(fits.out) + fits.said)
	if fits.code != 0 || key == nil {
		return "", b.unsigned(id, "it was made for something else: %s", cause(fits.said+string(fits.out)))
	}
	named := key[1] + " key " + key[2]
	if b.s.Signers.SSH == "" {
		return "", b.unsigned(id, "it is of the %s, and --signers has keys of OpenPGP alone; %s committed it", named, c.committer)
	}
	if err := b.write("allowed", b.s.Signers.SSH); err != nil {
		return "", err
	}
	found, err := b.principals(ctx)
	if err != nil {
		return "", err
	}
	for _, who := range found {
		ok, err := b.run(ctx, bytes.NewReader(c.signed), "ssh-keygen", "-Y", "verify", "-n", "git", "-f", "allowed", "-I", who, "-s", "signature")
		if err != nil {
			return "", err
		}
		if ok.code == 0 {
			return words.Clip(who, 200) + " (" + named + ")", nil
		}
	}
	if was, err := b.principals(ctx, "-Overify-time="+stamp(c.time)); err == nil && len(was) > 0 && len(found) == 0 {
		return "", b.unsigned(id, "it is of %s (%s), whose time in --signers is over", words.Clip(was[0], 200), named)
	}
	return "", b.unsigned(id, "it is of the %s, which --signers does not have for git; %s committed it", named, c.committer).
		Do("if that key may sign, add its line to the file, and add the follow again with --replace")
}

// stamp writes a time as ssh-keygen reads it, in UTC.
func stamp(at int64) string { return time.Unix(at, 0).UTC().Format("20060102150405") }

// principals returns who may have made the signature, by the allowed signers.
func (b *bench) principals(ctx context.Context, more ...string) (all []string, err error) {
	r, err := b.run(ctx, nil, "ssh-keygen", append([]string{"-Y", "find-principals", "-f", "allowed", "-s", "signature"}, more...)...)
	if err != nil || r.code != 0 {
		return nil, err
	}
	for line := range strings.Lines(string(r.out)) {
		line = strings.TrimSpace(line)
		for _, who := range append([]string{line}, strings.Split(line, ",")...) {
			if who != "" && !strings.HasPrefix(who, "-") && !strings.HasPrefix(who, "!") && !slices.Contains(all, who) {
				all = append(all, who)
			}
		}
	}
	return all, nil
}

// whyNot says what gpgv's words mean.
var whyNot = map[string]string{"BADSIG": "it was made for something else", "EXPSIG": "it has expired", "EXPKEYSIG": "its key has expired", "REVKEYSIG": "its key is revoked",
	"ERRSIG": "it can't be checked", "NO_PUBKEY": "--signers does not have its key"}

func (b *bench) verifyOpenPGP(ctx context.Context, id string) (string, error) {
	if len(b.s.Signers.OpenPGP) == 0 {
		return "", b.unsigned(id, "it is of OpenPGP, and --signers has keys of SSH alone").Do("add the public key (gpg --export --armor KEY), and add the follow again with --replace")
	}
	if err := b.write("keys.gpg", string(b.s.Signers.OpenPGP)); err != nil {
		return "", err
	}
	r, err := b.run(ctx, nil, "gpgv", "--status-fd", "1", "--keyring", "./keys.gpg", "signature", "signed")
	if err != nil {
		return "", err
	}
	good, bad, key, who := 0, "", "", ""
	for line := range strings.Lines(string(r.out)) {
		word, rest, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "[GNUPG:] "), " ")
		why := whyNot[word]
		switch {
		case word == "GOODSIG":
			good++
		case word == "VALIDSIG":
			fields := strings.Fields(rest)
			key = fields[len(fields)-1] // of the primary key, which may differ from the one that signed
			continue
		case why == "":
			continue
		case bad == "" || word == "NO_PUBKEY": // it says more than ERRSIG before it
			bad = why
		}
		of, name, _ := strings.Cut(rest, " ")
		if who = "key " + of; name != "" && word != "ERRSIG" {
			who = name + " (key " + of + ")"
		}
	}
	who = words.Clip(words.Line(who), 200)
	switch {
	case bad != "":
		return "", b.unsigned(id, "%s; it is of %s", bad, who).Do("if that key may sign, add its public key to --signers, and add the follow again with --replace")
	case r.code != 0 || good != 1 || key == "":
		return "", b.unsigned(id, "gpgv does not accept it: %s", cause(r.said))
	}
	return who, nil
}
