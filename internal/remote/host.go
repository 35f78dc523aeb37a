package remote

import (
	"net"
	"strconv"
	"strings"
)

// Host is a machine that can be reached by SSH.
type Host struct {
	Name      string   // for messages
	Address   string   // IP address or DNS name
	Port      int      // 0 means 22
	User      string   // empty means root; another one must be able to use sudo
	KeyFile   string   // of the private key that logs in, for Options.Signers; empty: that of most hosts
	MoreKeys  []string // files of further keys, offered after it where they need no question
	CertFiles []string // of keys, that log in before the keys themselves
	Agent     string   // the SSH agent of Options.Signers, as IdentityAgent names it; empty: that of most hosts
	Sudo      string   // names the password that sudo asks for, for Options.SudoPassword; empty: sudo must ask for none
	HostKeys  []string // pinned host keys (authorized_keys form); empty is refused unless Options.TrustOnFirstUse is set
	Via       []Host   // jump hosts, of which one is used; empty: reached directly
}

// addr is what to dial.
func (h Host) addr() string {
	port := h.Port
	if port == 0 {
		port = 22
	}
	return net.JoinHostPort(h.Address, strconv.Itoa(port))
}

func (h Host) user() string {
	if h.User == "" {
		return "root"
	}
	return h.User
}

// where names the host in errors.
func (h Host) where() string {
	if h.Name == "" {
		return h.addr()
	}
	return h.Name + " (" + h.addr() + ")"
}

// key tells cached connections apart. Host keys and jump hosts belong to it: pins that change must not meet an old connection.
func (h Host) key() string {
	parts := []string{h.user(), h.addr(), h.KeyFile, strings.Join(h.MoreKeys, ","), strings.Join(h.HostKeys, ",")}
	for _, v := range h.Via {
		parts = append(parts, v.key())
	}
	return strings.Join(parts, "|")
}
