package rootfs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// debianSources returns the host's package sources of a Debian suite as one-line entries, so that the machines use the host's mirrors and
// proxies. It leaves out third-party entries. On hosts with another system or suite it returns none, and mmdebstrap uses Debian's own sources.
func debianSources(etc, suite string) ([]string, error) {
	var lines []string
	files, err := sourceFiles(etc)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		if strings.HasSuffix(f, ".sources") {
			lines = append(lines, deb822Entries(string(data))...)
		} else {
			lines = append(lines, oneLineEntries(string(data))...)
		}
	}
	lines = slices.DeleteFunc(lines, func(l string) bool { return !debianEntry(l, suite) })
	slices.Sort(lines)
	lines = slices.Compact(lines)
	if !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, " "+suite+" ") }) {
		return nil, nil
	}
	return lines, nil
}

func sourceFiles(etc string) ([]string, error) {
	var out []string
	for _, pattern := range []string{"sources.list", "sources.list.d/*.list", "sources.list.d/*.sources"} {
		files, err := filepath.Glob(filepath.Join(etc, pattern))
		if err != nil {
			return nil, err
		}
		out = append(out, files...)
	}
	return out, nil
}

// oneLineEntries returns the "deb" lines of a sources.list, without their options except a key.
func oneLineEntries(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		if len(f) < 3 || f[0] != "deb" {
			continue
		}
		f = f[1:]
		key := ""
		if strings.HasPrefix(f[0], "[") {
			end := slices.IndexFunc(f, func(s string) bool { return strings.HasSuffix(s, "]") })
			if end < 0 {
				continue
			}
			for _, opt := range f[:end+1] {
				if k, ok := strings.CutPrefix(strings.Trim(opt, "[]"), "signed-by="); ok {
					key = k
				}
			}
			f = f[end+1:]
		}
		if len(f) >= 3 {
			out = append(out, entry(f[0], f[1], f[2:], key))
		}
	}
	return out
}

// deb822Entries returns the stanzas of a .sources file as one-line entries, one for each URI and suite.
func deb822Entries(text string) []string {
	var out []string
	for _, stanza := range strings.Split(text, "\n\n") {
		f := map[string][]string{}
		last := ""
		for line := range strings.Lines(stanza) {
			if strings.HasPrefix(line, "#") {
				continue
			}
			if name, value, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "\t") {
				last = strings.ToLower(strings.TrimSpace(name))
				f[last] = strings.Fields(value)
			} else {
				f[last] = append(f[last], strings.Fields(line)...)
			}
		}
		if !slices.Contains(f["types"], "deb") || slices.Contains(f["enabled"], "no") {
			continue
		}
		key := ""
		if k := f["signed-by"]; len(k) == 1 && filepath.IsAbs(k[0]) {
			key = k[0]
		}
		for _, uri := range f["uris"] {
			for _, suite := range f["suites"] {
				out = append(out, entry(uri, suite, f["components"], key))
			}
		}
	}
	return out
}

func entry(uri, suite string, components []string, key string) string {
	option := ""
	if key != "" {
		option = "[signed-by=" + key + "] "
	}
	return "deb " + option + uri + " " + suite + " " + strings.Join(components, " ")
}

// debianEntry reports whether an entry is one of Debian's own for suite.
func debianEntry(line, suite string) bool {
	f := strings.Fields(strings.TrimPrefix(line, "deb "))
	if len(f) > 0 && strings.HasPrefix(f[0], "[") {
		f = f[1:]
	}
	if len(f) < 3 || !strings.Contains(f[0], "debian") {
		return false
	}
	if !slices.Contains([]string{suite, suite + "-updates", suite + "-security"}, f[1]) {
		return false
	}
	for _, c := range f[2:] {
		if !slices.Contains([]string{"main", "contrib", "non-free", "non-free-firmware"}, c) {
			return false
		}
	}
	return true
}
