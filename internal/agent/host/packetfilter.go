package host

import (
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// packetFilter returns the service that loads rules at boot which drop packets to the machine unless a rule accepts them; or nothing.
func (r Root) packetFilter() string {
	for _, f := range []struct {
		service string
		drops   func() bool
	}{
		{"nftables", func() bool { return nftDrops(r.nftRules("/etc/nftables.conf", map[string]bool{}), nftInput()) }},
		{"netfilter-persistent", func() bool { return iptablesDrop(r.Read("/etc/iptables/rules.v4")) }},
		{"shorewall", func() bool { return shorewallDrops().MatchString(r.Read("/etc/shorewall/policy")) }},
		{"ferm", func() bool { return fermDrops().MatchString(r.Read("/etc/ferm/ferm.conf")) }},
	} {
		if r.enabled(f.service+".service") && f.drops() {
			return f.service
		}
	}
	return ""
}

// ForwardDrops returns the file of a service that loads rules at boot which drop forwarded packets unless a rule accepts them; or nothing.
func (r Root) ForwardDrops() string {
	switch {
	case r.enabled("nftables.service") && nftDrops(r.nftRules("/etc/nftables.conf", map[string]bool{}), nftForward()):
		return "/etc/nftables.conf"
	case r.enabled("netfilter-persistent.service") && forwardPolicy().MatchString(r.Read("/etc/iptables/rules.v4")):
		return "/etc/iptables/rules.v4"
	}
	return ""
}

// enabled reports whether a target starts a unit.
func (r Root) enabled(unit string) bool {
	found, err := filepath.Glob(filepath.Join(r.Path("/etc/systemd/system"), "*.wants", unit))
	return err == nil && len(found) > 0
}

var (
	// shorewallDrops matches a policy from another zone than the firewall's own.
	shorewallDrops = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?m)^[ \t]*(?:[a-eg-z]|f[a-vx-z])\S*[ \t]+\S+[ \t]+(?:DROP|REJECT|BLACKLIST)\b`)
	})
	fermDrops      = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^[^#\n]*\bINPUT\b[^#}]*\bpolicy[ \t]+DROP\b`) })
	iptablesPolicy = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^:INPUT[ \t]+DROP\b`) })
	iptablesRule   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^-A INPUT .*$`) })
	iptablesLast   = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^-A INPUT(?: -m comment --comment (?:"[^"]*"|\S+))? -j (?:DROP|REJECT)\b`)
	})
	nftInclude    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^[ \t]*include[ \t]+"([^"\n]+)"`) })
	nftComment    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`#[^\n]*`) })
	nftInput      = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\bhook[ \t]+input\b`) })
	nftForward    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\bhook[ \t]+forward\b`) })
	forwardPolicy = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^:FORWARD[ \t]+DROP\b`) })
	nftPolicy     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\bpolicy[ \t]+drop\b`) })
	nftLast       = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:counter(?: packets \d+ bytes \d+)?\s+|log\s+(?:prefix\s+"[^"]*"\s+)?)*(?:drop|reject(?: with .*)?)$`)
	})
)

// iptablesDrop reports whether saved rules drop packets that no rule of INPUT accepts: by the policy, or by the last rule.
func iptablesDrop(text string) bool {
	rules := iptablesRule().FindAllString(text, -1)
	return iptablesPolicy().MatchString(text) || len(rules) > 0 && iptablesLast().MatchString(rules[len(rules)-1])
}

// nftRules reads a file of nftables with the files that it includes, each once: files may include each other.
func (r Root) nftRules(file string, read map[string]bool) string {
	if read[file] {
		return ""
	}
	read[file] = true
	text := nftComment().ReplaceAllString(r.Read(file), "")
	for _, m := range nftInclude().FindAllStringSubmatch(text, -1) {
		pattern := m[1]
		if !filepath.IsAbs(pattern) {
			pattern = filepath.Join("/etc", pattern)
		}
		files, err := filepath.Glob(r.Path(pattern))
		if err != nil {
			continue // nft refuses the file, too
		}
		for _, f := range files {
			if inside, err := filepath.Rel(r.Path("/"), f); err == nil {
				text += "\n" + r.nftRules("/"+inside, read)
			}
		}
	}
	return text
}

// nftDrops reports whether a chain of the hook drops packets that none of its rules accepts: by its policy, or by its last rule.
func nftDrops(text string, hook *regexp.Regexp) bool {
	for _, at := range hook.FindAllStringIndex(text, -1) {
		chain := untilClosed(text[at[1]:])
		rules := strings.FieldsFunc(strings.TrimSpace(chain), func(c rune) bool { return c == '\n' || c == ';' })
		last := ""
		for _, rule := range rules {
			if rule = strings.TrimSpace(rule); rule != "" {
				last = rule
			}
		}
		if nftPolicy().MatchString(chain) || nftLast().MatchString(last) {
			return true
		}
	}
	return false
}

// untilClosed returns the text before the brace that closes the block in which it begins.
func untilClosed(text string) string {
	open := 0
	for i, c := range text {
		switch c {
		case '{':
			open++
		case '}':
			if open--; open < 0 {
				return text[:i]
			}
		}
	}
	return text
}
