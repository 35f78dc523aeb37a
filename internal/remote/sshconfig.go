package remote

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"
)

// KnownHosts renders a known_hosts file with the pinned keys of hosts and their jump hosts, by name and by address.
func KnownHosts(hosts []Host) []byte {
	var lines []string
	for _, h := range flatten(hosts) {
		names := h.Address
		if h.Port != 0 && h.Port != 22 {
			names = "[" + h.Address + "]:" + strconv.Itoa(h.Port)
		}
		if h.Name != "" {
			names = h.Name + "," + names
		}
		for _, text := range h.HostKeys {
			key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(text))
			if err != nil {
				continue // it pins nothing; connecting reports that
			}
			lines = append(lines, names+" "+string(ssh.MarshalAuthorizedKey(key)))
		}
	}
	slices.Sort(lines)
	return []byte(strings.Join(slices.Compact(lines), ""))
}

// SSHConfig renders an ssh_config(5) for hosts and their jump hosts, with a host's own key, else keyFile, as the only identity (without either,
// ssh chooses) and the file knownHosts as the only source of host keys. Of several jump hosts OpenSSH can take only one: the first.
func SSHConfig(hosts []Host, keyFile, knownHosts string) []byte {
	b := &bytes.Buffer{}
	fmt.Fprintf(b, "# Written by naupegos: `ssh -F THIS_FILE NAME`, or Include it in ~/.ssh/config.\n")
	for _, h := range flatten(hosts) {
		port := h.Port
		if port == 0 {
			port = 22
		}
		fmt.Fprintf(b, "\nHost %s\n  HostName %s\n  Port %d\n  User %s\n", h.alias(), h.Address, port, h.user())
		if h.Name != "" {
			fmt.Fprintf(b, "  HostKeyAlias %s\n", h.Name)
		}
		if key := cmp.Or(h.KeyFile, keyFile); key != "" {
			fmt.Fprintf(b, "  IdentityFile %q\n", key)
			for _, more := range h.MoreKeys {
				fmt.Fprintf(b, "  IdentityFile %q\n", more)
			}
			fmt.Fprintf(b, "  IdentitiesOnly yes\n")
		}
		for _, cert := range h.CertFiles {
			fmt.Fprintf(b, "  CertificateFile %q\n", cert)
		}
		if h.Agent != "" {
			fmt.Fprintf(b, "  IdentityAgent %q\n", h.Agent)
		}
		fmt.Fprintf(b, "  UserKnownHostsFile %q\n  GlobalKnownHostsFile /dev/null\n", knownHosts)
		fmt.Fprintf(b, "  StrictHostKeyChecking yes\n  UpdateHostKeys no\n  PasswordAuthentication no\n  ServerAliveInterval 5\n")
		if len(h.Via) > 0 {
			fmt.Fprintf(b, "  ProxyJump %s\n", h.Via[0].alias())
		}
	}
	return b.Bytes()
}

// alias returns a host's name in an ssh_config.
func (h Host) alias() string {
	if h.Name == "" {
		return h.Address
	}
	return h.Name
}

// flatten returns hosts and all their jump hosts once each, sorted by name.
func flatten(hosts []Host) []Host {
	var out []Host
	seen := map[string]bool{}
	var visit func([]Host)
	visit = func(list []Host) {
		for _, h := range list {
			if !seen[h.alias()] {
				seen[h.alias()] = true
				out = append(out, h)
				visit(h.Via)
			}
		}
	}
	visit(hosts)
	slices.SortStableFunc(out, func(a, b Host) int { return strings.Compare(a.alias(), b.alias()) })
	return out
}
