package remote

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/naupegos/naupegos/internal/fail"
)

const changedKeyHint = "the machine was reinstalled, or the connection is intercepted: compare the fingerprint on the machine's console " +
	"(ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub); only if it is right, replace the pinned key"

// hostKeyCheck accepts the pinned keys of one host. err keeps the unwrapped error of callback, because the handshake wraps it.
type hostKeyCheck struct {
	host       Host
	pinned     []ssh.PublicKey
	algorithms []string // empty: any
	trust      func(Host, ssh.PublicKey) error
	err        error
}

func (d *Dialer) hostKeys(h Host) (*hostKeyCheck, error) {
	c := &hostKeyCheck{host: h, trust: d.o.TrustOnFirstUse}
	for _, text := range h.HostKeys {
		key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(text))
		if err != nil {
			return nil, fail.Wrap(fail.Invalid, err, "read a pinned host key").At(h.where()).Do("write it as in a .pub file: type, base64")
		}
		c.pinned = append(c.pinned, key)
		algorithms := []string{key.Type()}
		if key.Type() == ssh.KeyAlgoRSA { // the key's name is also that of its SHA-1 signatures
			algorithms = []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
		}
		for _, a := range algorithms {
			if !slices.Contains(c.algorithms, a) {
				c.algorithms = append(c.algorithms, a)
			}
		}
	}
	if len(c.pinned) == 0 && c.trust == nil {
		return nil, fail.New(fail.Refused, "no host key is known for this machine").At(h.where()).
			Do("give its public host key (ssh-keyscan from a trusted place, or the machine's console), or say explicitly that the first one seen may be trusted")
	}
	return c, nil
}

func (c *hostKeyCheck) callback(_ string, _ net.Addr, key ssh.PublicKey) error {
	if len(c.pinned) == 0 {
		if err := c.trust(c.host, key); err != nil {
			c.err = fail.Wrap(fail.Unauthorized, err, "trust host key %s", ssh.FingerprintSHA256(key)).At(c.host.where())
		}
		return c.err
	}
	var known []string
	for _, p := range c.pinned {
		if bytes.Equal(p.Marshal(), key.Marshal()) {
			return nil
		}
		known = append(known, fmt.Sprintf("%s %s", p.Type(), ssh.FingerprintSHA256(p)))
	}
	c.err = fail.New(fail.Unauthorized, "the SSH host key has changed: the machine shows %s %s, pinned is %s",
		key.Type(), ssh.FingerprintSHA256(key), strings.Join(known, " and ")).At(c.host.where()).Do("%s", changedKeyHint)
	return c.err
}

// isAuthError reports whether the server refused all credentials. The library has no error type for that on the client's side.
func isAuthError(err error) bool {
	var partial *ssh.PartialSuccessError
	return errors.As(err, &partial) || strings.Contains(err.Error(), "unable to authenticate")
}
