package site

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/machine"
)

// AuthoritiesDir holds the CA certificates that a machine trusts in addition to the system's own; update-ca-certificates(8) reads them there.
const AuthoritiesDir = "/usr/local/share/ca-certificates"

// Settings renders a document's settings of one machine. The settings must be valid.
func Settings(s v1alpha1.MachineSettings, f machine.Facts) machine.Config {
	c := machine.Config{Sysctls: s.Sysctls, Modules: s.Modules, Packages: slices.Clone(s.Packages), KernelArguments: s.KernelArguments}
	for _, file := range s.Files {
		c.Files = append(c.Files, machine.File{Path: file.Path, Mode: fileMode(file.Mode), Owner: file.Owner, Content: []byte(file.Content)})
	}
	c.Units = units(s)
	for _, r := range s.Repositories {
		c.Files = append(c.Files, repository(r)...)
	}
	addTime(&c, s)
	addDNS(&c, s.DNS, f)
	c.Files = append(c.Files, Authorities(s)...)
	if len(s.TrustedCAs) > 0 {
		c.Packages = append(c.Packages, "ca-certificates")
	}
	moments := s.Hooks.AtMoments()
	for _, moment := range []string{machine.BeforeInstall, machine.AfterInstall, machine.BeforeUpgrade, machine.AfterUpgrade, machine.BeforeReset, machine.AfterReset} {
		for _, h := range moments[moment] {
			c.Hooks = append(c.Hooks, machine.Hook{When: moment, Name: h.Name, Script: h.Run, Seconds: int(h.Timeout.Seconds())})
		}
	}
	return c
}

// Authorities renders the files of the CA certificates that machines trust.
func Authorities(s v1alpha1.MachineSettings) (files []machine.File) {
	for _, text := range s.TrustedCAs {
		files = append(files, machine.File{Path: AuthoritiesDir + "/naupegos-" + fingerprint(text) + ".crt", Mode: 0o644, Content: []byte(strings.TrimSpace(text) + "\n")})
	}
	return files
}

// fileMode reads an octal mode.
func fileMode(text string) fs.FileMode {
	n, err := strconv.ParseUint(text, 8, 12)
	if err != nil {
		return 0o644 // validation accepts only octal modes
	}
	mode := fs.FileMode(n & 0o777)
	for bit, flag := range map[uint64]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if n&bit != 0 {
			mode |= flag
		}
	}
	return mode
}

// units renders units. A unit watches the files of its restartOn, and those of the document that its content mentions. A service that a timer, socket or path of the same name
// starts, and a mount that an automount makes, is neither started nor stopped by the agent.
func units(s v1alpha1.MachineSettings) []machine.Unit {
	var out []machine.Unit
	for _, u := range s.Units {
		m := machine.Unit{Name: u.Name, Content: u.Content, Enabled: u.Enabled == nil || *u.Enabled, Active: u.Started == nil || *u.Started, Watches: slices.Clone(u.RestartOn)}
		for _, f := range s.Files {
			if mentions(u.Content, f.Path) && !slices.Contains(m.Watches, f.Path) {
				m.Watches = append(m.Watches, f.Path)
			}
		}
		base := strings.TrimSuffix(u.Name, path.Ext(u.Name))
		triggers := map[string][]string{".service": {".timer", ".socket", ".path"}, ".mount": {".automount"}}[path.Ext(u.Name)]
		m.OnDemand = !m.Active && slices.ContainsFunc(s.Units, func(o v1alpha1.MachineUnit) bool {
			return slices.Contains(triggers, path.Ext(o.Name)) && strings.TrimSuffix(o.Name, path.Ext(o.Name)) == base
		})
		out = append(out, m)
	}
	return out
}

// mentions reports whether a text has a path, and not as the beginning of a longer one.
func mentions(content, file string) bool {
	for rest := content; ; {
		i := strings.Index(rest, file)
		if i < 0 {
			return false
		}
		before, after := rest[:i], rest[i+len(file):]
		if (before == "" || !pathPart(before[len(before)-1])) && (after == "" || !pathPart(after[0]) || after[0] == '.' && (len(after) == 1 || !pathPart(after[1]))) {
			return true
		}
		rest = rest[i+1:]
	}
}

func pathPart(b byte) bool {
	return b == '/' || b == '.' || b == '-' || b == '_' || b == '@' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}

// repository renders a package source in the format of deb822(5), and its key.
func repository(r v1alpha1.PackageRepository) []machine.File {
	components := r.Components
	if len(components) == 0 && !strings.HasSuffix(r.Suite, "/") {
		components = []string{"main"}
	}
	text := fmt.Sprintf("Types: deb\nURIs: %s\nSuites: %s\n", r.URL, r.Suite)
	if len(components) > 0 {
		text += "Components: " + strings.Join(components, " ") + "\n"
	}
	source := machine.File{Path: "/etc/apt/sources.list.d/naupegos-" + r.Name + ".sources", Mode: 0o644}
	if r.Key == "" {
		source.Content = []byte(text)
		return []machine.File{source}
	}
	key := machine.File{Path: "/etc/apt/keyrings/naupegos-" + r.Name + ".asc", Mode: 0o644, Content: []byte(strings.TrimSpace(r.Key) + "\n")}
	source.Content = []byte(text + "Signed-By: " + key.Path + "\n")
	return []machine.File{key, source}
}

const chronyPath = "/etc/chrony/chrony.conf"

// chronyConf takes the place of the distribution's file, which names servers of its own. What others put beside it stays, such as a clock of the machine.
const chronyConf = `# Managed by Naupegos: the servers are in /etc/chrony/sources.d/naupegos.sources.
sourcedir /etc/chrony/sources.d
confdir /etc/chrony/conf.d
keyfile /etc/chrony/chrony.keys
driftfile /var/lib/chrony/chrony.drift
ntsdumpdir /var/lib/chrony
logdir /var/log/chrony
maxupdateskew 100.0
rtcsync
makestep 1 3
`

// addTime adds time zone and time servers. It writes the files of both time daemons; a file whose daemon is not installed has no effect.
func addTime(c *machine.Config, s v1alpha1.MachineSettings) {
	if s.TimeZone != "" {
		c.Links = append(c.Links, machine.Link{Path: "/etc/localtime", Target: "/usr/share/zoneinfo/" + s.TimeZone})
		c.Files = append(c.Files, text("/etc/timezone", s.TimeZone+"\n"))
		c.Packages = append(c.Packages, "tzdata")
	}
	if len(s.NTP.Servers) == 0 {
		return
	}
	var chrony strings.Builder
	for _, server := range s.NTP.Servers {
		fmt.Fprintf(&chrony, "server %s iburst\n", server)
	}
	c.Files = append(c.Files,
		text("/etc/systemd/timesyncd.conf.d/90-naupegos.conf", "[Time]\nNTP="+strings.Join(s.NTP.Servers, " ")+"\nFallbackNTP=\n"),
		text("/etc/chrony/sources.d/naupegos.sources", chrony.String()))
	if !slices.ContainsFunc(s.Files, func(f v1alpha1.MachineFile) bool { return f.Path == chronyPath }) {
		c.Files = append(c.Files, text(chronyPath, chronyConf))
	}
}

// addDNS adds name servers: to systemd-resolved if it runs, otherwise to resolv.conf, which DHCP clients are then kept from overwriting.
func addDNS(c *machine.Config, d v1alpha1.DNS, f machine.Facts) {
	if len(d.Servers) == 0 {
		return
	}
	if f.ResolvConf != "" {
		domains := append(slices.Clone(d.SearchDomains), "~.") // all other names are resolved by these servers, too
		c.Files = append(c.Files, text("/etc/systemd/resolved.conf.d/90-naupegos.conf",
			"[Resolve]\nDNS="+strings.Join(d.Servers, " ")+"\nDomains="+strings.Join(domains, " ")+"\n"))
		return
	}
	var b strings.Builder
	b.WriteString("# Managed by Naupegos.\n")
	for _, server := range d.Servers {
		b.WriteString("nameserver " + server + "\n")
	}
	if len(d.SearchDomains) > 0 {
		b.WriteString("search " + strings.Join(d.SearchDomains, " ") + "\n")
	}
	c.Files = append(c.Files, text("/etc/resolv.conf", b.String()),
		text("/etc/dhcp/dhclient-enter-hooks.d/naupegos-resolv-conf", "make_resolv_conf() { :; } # Naupegos manages resolv.conf\n"),
		text("/etc/NetworkManager/conf.d/90-naupegos.conf", "[main]\ndns=none\n"))
}

// fingerprint returns a name for a certificate that does not depend on white space.
func fingerprint(text string) string {
	data := []byte(text)
	if block, _ := pem.Decode(data); block != nil {
		data = block.Bytes
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

func text(path, content string) machine.File {
	return machine.File{Path: path, Mode: 0o644, Content: []byte(content)}
}
