package machine

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// UserData holds everything that user-data may contain: settings that never change in a machine's life. It has no field for secrets.
type UserData struct {
	Hostname string   // a DNS label
	FQDN     string   // fully qualified name; may be empty
	SSHKeys  []string // public keys in authorized_keys form that may log in as root; at least one
	// HostKeysToConsole makes the machine print its SSH host keys on its console, which a cloud's API shows: an out-of-band source for pinning on
	// clouds. Elsewhere the host key is on the disk before the first boot.
	HostKeysToConsole bool
}

// CloudInit renders user-data for cloud-init (22.4 and later).
//
// Only root gets keys: the agent works as root anyway, and images need no sudo. Passwords stay locked, and sshd refuses them. Host keys that are
// already on the disk are neither deleted nor replaced. Only the necessary cloud-init modules run, because each costs boot time.
func CloudInit(o UserData) ([]byte, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	b := &bytes.Buffer{}
	line := func(format string, args ...any) { fmt.Fprintf(b, format+"\n", args...) }
	line("#cloud-config")
	line("hostname: %s", quote(o.Hostname))
	if o.FQDN != "" {
		line("fqdn: %s", quote(o.FQDN))
	}
	line("manage_etc_hosts: false")
	line("users:\n  - name: root\n    lock_passwd: true\n    ssh_authorized_keys:")
	for _, k := range o.SSHKeys {
		line("      - %s", quote(strings.TrimSpace(k)))
	}
	line("disable_root: false\nssh_pwauth: false\nssh_deletekeys: false\nssh_genkeytypes: [ed25519]")
	if o.HostKeysToConsole {
		line("ssh:\n  emit_keys_to_console: true")
	}
	line("package_update: false\npackage_upgrade: false")
	line("cloud_init_modules: [seed_random, growpart, resizefs, disk_setup, mounts, set_hostname, users-groups, ssh]")
	line("cloud_config_modules: [set-passwords]")
	if o.HostKeysToConsole {
		line("cloud_final_modules: [keys-to-console]")
	} else {
		line("cloud_final_modules: []")
	}
	return b.Bytes(), nil
}

// quote renders a string as a double-quoted YAML scalar, which has the form of a JSON string.
func quote(s string) string {
	data, err := json.Marshal(s)
	if err != nil {
		panic("machine: marshal string: " + err.Error()) // a string always marshals
	}
	return string(data)
}

func (o UserData) validate() error {
	label := regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	if !label.MatchString(o.Hostname) {
		return fail.New(fail.Invalid, "hostname %q is not a DNS label", o.Hostname)
	}
	for _, l := range strings.Split(o.FQDN, ".") {
		if o.FQDN != "" && !label.MatchString(l) {
			return fail.New(fail.Invalid, "fully qualified name %q is not a DNS name", o.FQDN).At(o.Hostname)
		}
	}
	if len(o.SSHKeys) == 0 {
		return fail.New(fail.Invalid, "user-data without an SSH key: no login would be possible").At(o.Hostname)
	}
	for i, k := range o.SSHKeys {
		if err := checkPublicKey(strings.TrimSpace(k)); err != nil {
			return fail.Wrap(fail.Invalid, err, "SSH key %d of user-data", i+1).At(o.Hostname)
		}
	}
	return nil
}

// checkPublicKey checks that k is "type base64 [comment]" and that the base64 names the same type, so that a private key can't pass. Errors never
// contain k.
func checkPublicKey(k string) error {
	if strings.ContainsAny(k, "\r\n") {
		return errors.New("is not one line: give a public key in authorized_keys form")
	}
	fields := strings.SplitN(k, " ", 3)
	if len(fields) < 2 {
		return errors.New(`is not of the form "type base64 [comment]"`)
	}
	raw, err := base64.StdEncoding.DecodeString(fields[1])
	if err != nil || len(raw) < 4 {
		return errors.New("has no base64 key after its type")
	}
	n := int(binary.BigEndian.Uint32(raw))
	if n < 1 || n > len(raw)-4 || string(raw[4:4+n]) != fields[0] {
		return errors.New("names another type than its base64 holds")
	}
	return nil
}
