package validation

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // makes time zones independent of the host on which Naupegos runs

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/machine/items"
)

var (
	sysctlForm    = regexp.MustCompile(`^[a-z0-9_]+([./][A-Za-z0-9_:*-]+)+$`)
	moduleForm    = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	fileOwner     = regexp.MustCompile(`^[a-z0-9_][a-z0-9_-]*:[a-z0-9_][a-z0-9_-]*$`)
	fileMode      = regexp.MustCompile(`^[0-7]?[0-7]{3}$`)
	plainPackage  = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]+$`)
	oneshot       = regexp.MustCompile(`(?m)^\s*Type\s*=\s*oneshot\s*$`)
	remains       = regexp.MustCompile(`(?m)^\s*RemainAfterExit\s*=\s*(yes|true|on|1)\s*$`)
	suiteForm     = regexp.MustCompile(`^\.?/$|^(\./)?[A-Za-z0-9][A-Za-z0-9._/-]*$`)
	componentForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]*$`)
)

// maxHookTimeout is the longest time limit of a hook.
const maxHookTimeout = time.Hour

// checkMachineSettings checks machine settings in every part of the document.
func checkMachineSettings(c *v1alpha1.Cluster, r *findings) {
	for _, p := range c.SettingsPlaces() {
		s := p.Settings
		checkSysctls(r, p.Path+".sysctls", s.Sysctls)
		for i, m := range s.Modules {
			checkModule(r, strict.Item(p.Path+".modules", i), m)
		}
		checkKernelArguments(r, p.Path+".kernelArguments", s.KernelArguments, c.Spec.Provider)
		checkFiles(r, p.Path+".files", s.Files)
		checkUnits(r, p.Path+".units", s.Units)
		for i, name := range s.Packages {
			checkPackage(r, strict.Item(p.Path+".packages", i), name)
		}
		checkRepositories(r, p.Path+".repositories", s.Repositories)
		for i, server := range s.NTP.Servers {
			checkHostOrAddress(r, strict.Item(p.Path+".ntp.servers", i), server, "a time server")
		}
		checkDNS(r, p.Path+".dns", s.DNS)
		for i, text := range s.TrustedCAs {
			checkAuthority(r, strict.Item(p.Path+".trustedCAs", i), text)
		}
		if z := s.TimeZone; z != "" {
			if _, err := time.LoadLocation(z); err != nil || z == "Local" {
				r.Add(p.Path+".timeZone", strict.Quote(z)+" is not a time zone", "as Europe/Berlin, or Etc/UTC")
			}
		}
		for moment, hooks := range s.Hooks.AtMoments() {
			checkHooks(c, r, p.Path+".hooks."+moment, hooks)
		}
	}
}

func checkSysctls(r *findings, at string, all map[string]string) {
	seen := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		field, value, name := at+"["+strict.Clip(key)+"]", all[key], items.SysctlName(key)
		why := items.ReservedSysctl(name)
		other, again := seen[name]
		switch {
		case !sysctlForm.MatchString(key):
			r.Add(field, strict.Quote(key)+" is not the name of a kernel setting", "as vm.max_map_count")
		case why != "":
			r.Add(field, "is not for documents to set: "+why, "remove it")
		case again:
			r.Add(field, "is the same setting as "+strict.Quote(other), "keep one of them")
		case strings.TrimSpace(value) == "" || hasControl(value, '\t'):
			r.Add(field, "the value must be one line of text and not empty", `as "262144"`)
		}
		seen[name] = key
	}
}

// hasControl reports whether text has control characters other than the allowed ones.
func hasControl(s string, allowed ...rune) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return (r < ' ' || r == 0x7f) && !slices.Contains(allowed, r) })
}

func checkModule(r *findings, at, name string) {
	switch {
	case !moduleForm.MatchString(name):
		r.Add(at, strict.Quote(name)+" is not the name of a kernel module", "as nvme_tcp, without path and .ko")
	case items.ReservedModule(name):
		r.Add(at, "Naupegos loads "+name+" itself", "remove it")
	}
}

func checkKernelArguments(r *findings, at string, all []string, p v1alpha1.Provider) {
	switch {
	case len(all) == 0:
		return
	case p.Local != nil:
		r.Add(at, "local machines are containers: they share this host's kernel", "remove them, or give them to this host")
		return
	case p.Metal != nil:
		r.Add(at, "installed machines boot two systems in turn, by a configuration of GRUB that no setting of a system changes", "remove them")
		return
	}
	var good []string
	for i, arg := range all {
		if problem, hint := items.KernelArgument(arg); problem != "" {
			r.Add(strict.Item(at, i), strict.Quote(arg)+" "+problem, hint)
			continue
		}
		if j := slices.IndexFunc(good, func(first string) bool { return items.ArgumentsClash(first, arg) }); j >= 0 {
			r.Add(strict.Item(at, i), fmt.Sprintf("%s sets what %s sets, and the kernel takes the last", strict.Quote(arg), strict.Quote(good[j])), "keep one of them")
		}
		good = append(good, arg)
	}
}

func checkFiles(r *findings, at string, files []v1alpha1.MachineFile) {
	seen := map[string]int{}
	for i, f := range files {
		p := strict.Item(at, i)
		if f.Path == "" {
			continue // reported as required
		}
		owner, taken := items.ReservedPath(path.Clean(f.Path))
		first, again := seen[f.Path]
		switch {
		case items.OddPath(f.Path):
			r.Add(p+".path", strict.Quote(f.Path)+" is not an absolute path without dots", "as /etc/motd")
		case taken:
			r.Add(p+".path", strict.Quote(f.Path)+" is taken: "+owner.Owner, owner.Hint)
		case again:
			r.Add(p+".path", fmt.Sprintf("%s is already the path of %s", strict.Quote(f.Path), strict.Item(at, first)), "keep one of them")
		default:
			for other, j := range seen {
				if strings.HasPrefix(f.Path, other+"/") || strings.HasPrefix(other, f.Path+"/") {
					r.Add(p+".path", fmt.Sprintf("%s and %s, of %s, can't both be files: one lies in the other", strict.Quote(f.Path), strict.Quote(other), strict.Item(at, j)), "")
				}
			}
		}
		seen[f.Path] = i
		if f.Mode != "" && (!fileMode.MatchString(f.Mode) || strings.Trim(f.Mode[len(f.Mode)-3:], "0") == "") {
			r.Add(p+".mode", strict.Quote(f.Mode)+" is not a mode", `octal, in quotes: "0640"`)
		}
		if f.Owner != "" && !fileOwner.MatchString(f.Owner) {
			r.Add(p+".owner", strict.Quote(f.Owner)+" is not an owner", "as root:root, or 1000:1000")
		}
		if strings.ContainsRune(f.Content, 0) {
			r.Add(p+".content", "has a NUL character", "content is text")
		}
	}
}

func checkUnits(r *findings, at string, units []v1alpha1.MachineUnit) {
	seen := map[string]int{}
	for i, u := range units {
		p := strict.Item(at, i)
		if u.Name == "" {
			continue
		}
		first, again := seen[u.Name]
		misnamed, rename := items.MisnamedUnit(u.Name, u.Content)
		switch {
		case !items.IsUnit(u.Name):
			r.Add(p+".name", strict.Quote(u.Name)+" is not the name of a unit", "as backup.service; known types: "+strings.Join(items.UnitTypes(), ", "))
		case items.ReservedUnit(u.Name):
			r.Add(p+".name", strict.Quote(u.Name)+" is a unit of Naupegos", "choose another name")
		case again:
			r.Add(p+".name", fmt.Sprintf("%s is already the name of %s", strict.Quote(u.Name), strict.Item(at, first)), "keep one of them")
		case misnamed != "":
			r.Add(p+".name", misnamed, rename, p+".content")
		case u.Content != "" && !strings.Contains(u.Content, "["):
			r.Add(p+".content", "is not a unit file", "it has sections, as [Service]")
		case hasControl(u.Content, '\n', '\t', '\r'):
			r.Add(p+".content", "has control characters", "a unit file is text")
		case u.Content != "" && (u.Enabled == nil || *u.Enabled) && !strings.Contains(u.Content, "[Install]"):
			r.Add(p+".enabled", "the unit has no [Install] section, so nothing starts it at boot", "add one, as WantedBy=multi-user.target, or set enabled to false", p+".content")
		}
		seen[u.Name] = i
		if j := slices.IndexFunc(u.RestartOn, items.OddPath); j >= 0 {
			r.Add(strict.Item(p+".restartOn", j), strict.Quote(u.RestartOn[j])+" is not an absolute path without dots", "as /etc/multipath.conf")
		}
		if (u.Started == nil || *u.Started) && oneshot.MatchString(u.Content) && !remains.MatchString(u.Content) {
			r.Add(p+".started", "the service ends at once, so that every apply would start it again", "add RemainAfterExit=yes to it, or set started to false", p)
		}
	}
}

func checkPackage(r *findings, at, name string) {
	switch {
	case items.ReservedPackage(name):
		r.Add(at, strict.Quote(name)+" would replace a program that the bundle brings", "remove it")
	case !plainPackage.MatchString(name):
		r.Add(at, strict.Quote(name)+" is not the name of a package", "as open-iscsi, without version and architecture")
	}
}

// names are the names of a list's items, with the position of each.
type names map[string]int

// check reports the name of item i of the list at a path if another item has it, or if it is no label.
func (n names) check(r *findings, at string, i int, name string) {
	p := strict.Item(at, i) + ".name"
	if first, again := n[name]; again && name != "" {
		r.Add(p, fmt.Sprintf("%s is already the name of %s", strict.Quote(name), strict.Item(at, first)), "")
	} else if name != "" && len(validation.IsDNS1123Label(name)) > 0 {
		r.Add(p, strict.Quote(name)+" is not a name", "lower-case letters, digits and dashes")
	}
	n[name] = i
}

func checkRepositories(r *findings, at string, repositories []v1alpha1.PackageRepository) {
	seen := names{}
	for i, s := range repositories {
		p := strict.Item(at, i)
		seen.check(r, at, i, s.Name)
		checkWebAddress(r, p+".url", s.URL, "https://packages.example.org/debian", "a repository")
		flat := strings.HasSuffix(s.Suite, "/")
		switch {
		case s.Suite == "":
		case !suiteForm.MatchString(s.Suite) || strings.Contains(s.Suite, ".."):
			r.Add(p+".suite", strict.Quote(s.Suite)+" is not a suite", "as bookworm")
		case flat && len(s.Components) > 0:
			r.Add(p+".components", "are given, but the suite "+strict.Quote(s.Suite)+" is a directory, which has none", "remove them", p+".suite")
		}
		for j, c := range s.Components {
			if !componentForm.MatchString(c) || strings.Contains(c, "..") {
				r.Add(strict.Item(p+".components", j), strict.Quote(c)+" is not a component", "as main")
			}
		}
		if s.Key != "" && (!strings.HasPrefix(strings.TrimSpace(s.Key), "-----BEGIN PGP PUBLIC KEY BLOCK-----") || !strings.HasSuffix(strings.TrimSpace(s.Key), "-----END PGP PUBLIC KEY BLOCK-----")) {
			r.Add(p+".key", "is not a public key in armor", "it begins with -----BEGIN PGP PUBLIC KEY BLOCK-----; gpg --armor --export prints it")
		}
	}
}

// checkWebAddress requires an http or https URL without credentials. It never shows credentials.
func checkWebAddress(r *findings, at, address, example, what string) {
	u, err := url.Parse(address)
	switch {
	case address == "":
	case err == nil && u.User != nil:
		r.Add(at, "holds credentials, and documents are not secret", "leave them away")
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" || strings.ContainsFunc(address, func(r rune) bool { return r <= ' ' || r == '"' || r == '\\' }):
		if strings.Contains(address, "@") { // it may hold a password
			r.Add(at, "is not the address of "+what, "as "+example)
			return
		}
		r.Add(at, strict.Quote(address)+" is not the address of "+what, "as "+example)
	}
}

func checkHostOrAddress(r *findings, at, host, what string) {
	if _, err := netip.ParseAddr(host); err == nil || len(validation.IsDNS1123Subdomain(host)) == 0 {
		return
	}
	r.Add(at, strict.Quote(host)+" is not the name or address of "+what, "")
}

func checkDNS(r *findings, at string, d v1alpha1.DNS) {
	for i, server := range d.Servers {
		a, err := netip.ParseAddr(server)
		switch {
		case err != nil || a.Zone() != "" || a.IsUnspecified() || a.IsMulticast():
			r.Add(strict.Item(at+".servers", i), strict.Quote(server)+" is not the address of a name server", "as 10.0.0.53")
		case a.IsLoopback():
			r.Add(strict.Item(at+".servers", i), strict.Quote(server)+" is the machine itself: pods would ask themselves", "give the address of a server that pods reach")
		}
	}
	for i, domain := range d.SearchDomains {
		if len(validation.IsDNS1123Subdomain(domain)) > 0 {
			r.Add(strict.Item(at+".searchDomains", i), strict.Quote(domain)+" is not a domain", "as example.org")
		}
	}
	if len(d.SearchDomains) > 0 && len(d.Servers) == 0 {
		r.Add(at+".searchDomains", "are given, but no servers", "add dns.servers", at+".servers")
	}
}

// checkAuthority requires exactly one CA certificate.
func checkAuthority(r *findings, at, text string) {
	if rest, ok := checkFirstAuthority(r, at, text); ok && rest != "" {
		r.Add(at, "has something behind its certificate", "give each certificate an item of its own")
	}
}

// checkAuthorities requires CA certificates, if there is any text: while an authority is replaced, both the former and the next one count.
func checkAuthorities(r *findings, at, text string) {
	for rest, ok := text, true; ok && rest != ""; {
		rest, ok = checkFirstAuthority(r, at, rest)
	}
}

// checkFirstAuthority requires a CA certificate at the beginning of text and returns what follows it. ok is false if it reported a problem.
func checkFirstAuthority(r *findings, at, text string) (rest string, ok bool) {
	const hint = "certificates in PEM, each from -----BEGIN CERTIFICATE----- to -----END CERTIFICATE-----"
	block, after := pem.Decode([]byte(text))
	switch {
	case strings.Contains(text, "PRIVATE KEY-----"): // never shown
		r.Add(at, "holds a private key", "give the certificate alone; the key is no longer a secret, replace it")
		return "", false
	case block == nil || block.Type != "CERTIFICATE":
		r.Add(at, "is not a certificate in PEM", hint)
		return "", false
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	switch {
	case err != nil:
		r.Add(at, "is not a certificate in PEM: "+err.Error(), hint)
		return "", false
	case cert.BasicConstraintsValid && !cert.IsCA && !slices.Equal(cert.RawIssuer, cert.RawSubject): // Go accepts a self-signed certificate as the root of itself
		r.Add(at, "is the certificate of "+strict.Quote(cert.Subject.String())+", which is no authority", "give the certificate that signed it")
		return "", false
	}
	return strings.TrimSpace(string(after)), true
}

// checkHooks checks the hooks of one moment.
func checkHooks(c *v1alpha1.Cluster, r *findings, at string, hooks []v1alpha1.Hook) {
	seen := names{}
	for i, h := range hooks {
		p := strict.Item(at, i)
		seen.check(r, at, i, h.Name)
		if strings.ContainsRune(h.Run, 0) || h.Run != "" && strings.TrimSpace(h.Run) == "" {
			r.Add(p+".run", "is not a shell script", `as "systemctl restart my-agent"`)
		}
		switch d := h.Timeout.Duration; {
		case d < v1alpha1.MinDuration:
			// reported by its tag
		case d > maxHookTimeout || d%time.Second != 0:
			r.Add(p+".timeout", h.Timeout.String()+" is not in whole seconds between 10s and 1h", "")
		case d > c.Spec.Timeouts.Step.Duration:
			r.Add(p+".timeout", fmt.Sprintf("%s is longer than a step may take, %s", h.Timeout, c.Spec.Timeouts.Step), "raise spec.timeouts.step", "spec.timeouts.step")
		}
	}
}

// checkAuthoritiesLast reports CA certificates that have expired or are not valid yet, in a document that is about to be used. A stored document
// stays readable when one of its CA certificates expires.
func checkAuthoritiesLast(c *v1alpha1.Cluster, r *findings, now time.Time) {
	for _, p := range c.SettingsPlaces() {
		for i, text := range p.Settings.TrustedCAs {
			checkExpiry(r, strict.Item(p.Path+".trustedCAs", i), text, now)
		}
	}
}

// checkExpiry reports certificates of text that are not valid now. Of several, one that is suffices: while an authority is replaced, the next certificate
// may not be valid yet, and the former one may have expired.
func checkExpiry(r *findings, at, text string, now time.Time) {
	var first *x509.Certificate
	for block, rest := pem.Decode([]byte(text)); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil || now.After(cert.NotBefore) && now.Before(cert.NotAfter) {
			return // an error is reported elsewhere
		}
		if first == nil {
			first = cert
		}
	}
	switch cert := first; {
	case cert == nil:
	case now.After(cert.NotAfter):
		r.Add(at, fmt.Sprintf("the certificate of %s expired at %s", strict.Quote(cert.Subject.String()), cert.NotAfter.UTC().Format(time.RFC3339)), "give its successor, or remove it")
	case now.Before(cert.NotBefore):
		r.Add(at, fmt.Sprintf("the certificate of %s is valid only from %s", strict.Quote(cert.Subject.String()), cert.NotBefore.UTC().Format(time.RFC3339)), "")
	}
}
