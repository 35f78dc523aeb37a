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
	User      string   // empty means root; any other user must be able to use sudo
	KeyFile   string   // the private key that logs in, for Options.Signers; empty: that of most hosts
	MoreKeys  []string // files of further keys, offered after it if they need no passphrase
	CertFiles []string // of keys; they are offered before the keys themselves
	Agent     string   // the SSH agent of Options.Signers, as IdentityAgent names it; empty: that of most hosts
	Sudo      string   // names sudo's password, for Options.SudoPassword; empty: sudo must not ask for one
	HostKeys  []string // pinned host keys (authorized_keys form); empty is refused unless Options.TrustOnFirstUse is set
	Via       []Host   // jump hosts, one of which is used; empty: direct
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

// key identifies a cached connection. It includes host keys and jump hosts, because changed pins must not reuse an old connection.
func (h Host) key() string {
	parts := []string{h.user(), h.addr(), h.KeyFile, strings.Join(h.MoreKeys, ","), strings.Join(h.HostKeys, ",")}
	for _, v := range h.Via {
		parts = append(parts, v.key())
	}
	return strings.Join(parts, "|")
}
