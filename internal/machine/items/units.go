package items

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"sync"
)

// UnitTypes lists the types of units that a document may have.
func UnitTypes() []string {
	return []string{"service", "socket", "timer", "mount", "automount", "swap", "path", "target", "slice"}
}

// unitName matches names of units. systemd writes characters of a path that a name may not have as \xNN.
var unitName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([A-Za-z0-9:_.@-]|\\x[0-9a-f]{2})+\.[a-z]+$`) })

// IsUnit reports whether a text is the name of a unit of one of the UnitTypes.
func IsUnit(name string) bool {
	for _, t := range UnitTypes() {
		if strings.HasSuffix(name, "."+t) {
			return unitName().MatchString(name)
		}
	}
	return false
}

// keyOfName is the setting of a unit's file that decides the unit's name.
var keyOfName = map[string]string{".mount": "Where", ".automount": "Where", ".swap": "What"}

// MisnamedUnit reports what systemd refuses about the name of a mount, an automount or a swap whose file has this content, and what to do; empty if it
// accepts the name. systemd demands the name that follows from the path.
func MisnamedUnit(name, content string) (problem, hint string) {
	ext := path.Ext(name)
	key := keyOfName[ext]
	if key == "" || content == "" {
		return "", ""
	}
	m := regexp.MustCompile(`(?m)^[ \t]*`+key+`[ \t]*=[ \t]*(.*?)[ \t\r]*$`).FindAllStringSubmatch(content, -1)
	switch {
	case len(m) == 0:
		return "has no " + key + "=, which names its path", ""
	case strings.Contains(name, "@"):
		return "is a template, and systemd has none of mounts and swaps", "write a unit for each path"
	}
	at := m[len(m)-1][1] // the last one counts
	if strings.Contains(at, "%") {
		return "", "" // a specifier, which systemd replaces
	}
	if !strings.HasPrefix(at, "/") {
		if ext == ".swap" {
			return "", "" // as UUID=…: only the machine knows which device that is
		}
		return fmt.Sprintf("%s=%s is not an absolute path", key, at), ""
	}
	if want := EscapePath(at) + ext; want != name {
		return fmt.Sprintf("systemd does not load the unit by this name, for it has %s=%s", key, at), "call it " + want
	}
	return "", ""
}

// EscapePath returns the name that systemd gives a path, without a type, as systemd-escape --path does.
func EscapePath(at string) string {
	at = strings.Trim(path.Clean(at), "/")
	if at == "" {
		return "-"
	}
	var b strings.Builder
	for i := range len(at) {
		switch c := at[i]; {
		case c == '/':
			b.WriteByte('-')
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == ':' || c == '_' || c == '.' && i > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, `\x%02x`, c)
		}
	}
	return b.String()
}
