package machine

import (
	"encoding/json"
	"strings"

	"github.com/coreos/ignition/v2/config/v3_4/types"

	"github.com/naupegos/naupegos/internal/fail"
)

// Ignition renders the same user-data as CloudInit for images with Ignition (Fedora CoreOS, Flatcar), as a configuration of spec 3.4. It has no place
// for a fully qualified name.
//
// Such images update and reboot themselves. Ignition switches this off, because a cluster's machines must reboot one at a time, after a drain.
func Ignition(o UserData) ([]byte, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	c := types.Config{Ignition: types.Ignition{Version: types.MaxVersion.String()}}
	root := types.PasswdUser{Name: "root"}
	for _, k := range o.SSHKeys {
		root.SSHAuthorizedKeys = append(root.SSHAuthorizedKeys, types.SSHAuthorizedKey(strings.TrimSpace(k)))
	}
	c.Passwd.Users = []types.PasswdUser{root}
	c.Storage.Files = []types.File{
		ignitionFile("/etc/hostname", o.Hostname+"\n"),
		ignitionFile("/etc/ssh/sshd_config.d/10-naupegos.conf", "PermitRootLogin prohibit-password\nPasswordAuthentication no\n"),
		ignitionFile("/etc/zincati/config.d/90-naupegos.toml", "[updates]\nenabled = false\n"),
		ignitionFile("/etc/flatcar/update.conf", "REBOOT_STRATEGY=off\n"),
	}
	if o.HostKeysToConsole {
		enabled, unit := true, hostKeysUnit
		c.Systemd.Units = []types.Unit{{Name: "naupegos-host-keys.service", Enabled: &enabled, Contents: &unit}}
	}
	out, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "write the Ignition configuration").At(o.Hostname)
	}
	return append(out, '\n'), nil
}

// hostKeysUnit prints the same as cloud-init's keys-to-console. If the journal wrote to the console, it would prefix each line. "ssh-keygen -A"
// creates only missing keys.
const hostKeysUnit = `[Unit]
Description=Print the SSH host key on the console, for Naupegos to pin
After=sshd-keygen.target sshd-keygen.service sshd.service ssh.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStartPre=/usr/bin/ssh-keygen -A
ExecStart=/bin/sh -c 'k=$$(cat /etc/ssh/ssh_host_ed25519_key.pub) && printf "\\n%%s\\n%%s\\n%%s\\n" "-----BEGIN SSH HOST KEY KEYS-----" "$$k" "-----END SSH HOST KEY KEYS-----" >/dev/console'

[Install]
WantedBy=multi-user.target
`

// ignitionFile returns a world-readable file.
func ignitionFile(path, content string) types.File {
	mode, overwrite, source := 0o644, true, dataURL(content)
	return types.File{
		Node:          types.Node{Path: path, Overwrite: &overwrite},
		FileEmbedded1: types.FileEmbedded1{Mode: &mode, Contents: types.Resource{Source: &source}},
	}
}

// dataURL returns a data URL with text, in which every byte except plain letters and digits is escaped.
func dataURL(text string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	b.WriteString("data:,")
	for _, c := range []byte(text) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._", c) >= 0 {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
	}
	return b.String()
}
