package remote

import (
	"context"
	"time"

	"golang.org/x/crypto/ssh"
)

// Options tunes a Dialer; the zero value is usable except for AgentPath.
type Options struct {
	ConnectTimeout time.Duration // for TCP and SSH handshake together; default 10 s
	KeepAlive      time.Duration // between two probes of a connection; default 2 s
	Dead           time.Duration // a connection without an answer for this long counts as dead; default four fifths of ConnectTimeout
	Sessions       int           // concurrent sessions on one connection; default 8 (sshd's MaxSessions is 10)
	LoginTimeout   time.Duration // from the start of a session until its command begins; default 6 times ConnectTimeout
	AgentPath      string        // naupegos-agent on this side, uploaded to machines that lack it; only Apply, Facts and Agent need it
	// TrustOnFirstUse decides about hosts without pinned keys: nil refuses them all; a nil result accepts the key.
	TrustOnFirstUse func(h Host, key ssh.PublicKey) error
	// SudoPassword returns the password that h.Sudo names. It is called when sudo asks. Nil: no password is known, whatever h.Sudo says.
	SudoPassword func(ctx context.Context, h Host) (string, error)
	// Signers returns the keys that log in to h, in the order of the attempts; nil: the keys of NewDialer.
	Signers func(h Host) ([]Key, error)
}

func (o Options) withDefaults() Options {
	if o.ConnectTimeout == 0 {
		o.ConnectTimeout = 10 * time.Second
	}
	if o.KeepAlive == 0 {
		o.KeepAlive = 2 * time.Second
	}
	if o.Dead == 0 {
		o.Dead = o.ConnectTimeout * 4 / 5
	}
	if o.LoginTimeout == 0 {
		o.LoginTimeout = o.ConnectTimeout * 6
	}
	if o.Sessions == 0 {
		o.Sessions = 8
	}
	return o
}
