// Package dpkg reads what dpkg and apt write: which packages are installed, what an installation would do, and why one failed. It is pure: it runs no
// programs and opens no files.
package dpkg

import (
	"iter"
	"slices"
	"strings"
)

// Installed returns the packages that are installed according to dpkg's database.
func Installed(status string) map[string]bool {
	have := map[string]bool{}
	for s := range stanzas(status) {
		if s.installed {
			have[s.name] = true
		}
	}
	return have
}

// Has reports whether a package is installed. It reads only that package's part of dpkg's database, which may have thousands.
func Has(status, name string) bool {
	begin := "Package: " + name + "\n"
	for rest := status; ; {
		at := strings.Index(rest, begin)
		if at < 0 {
			return false
		}
		from := 0
		if blank := strings.LastIndex(rest[:at], "\n\n"); blank >= 0 {
			from = blank + 2
		}
		paragraph, after, _ := strings.Cut(rest[from:], "\n\n")
		for s := range stanzas(paragraph) {
			if s.name == name && s.installed {
				return true
			}
		}
		rest = after // the package for another architecture
	}
}

// Provided returns the packages that installed ones of other names stand for.
func Provided(status string) map[string]bool {
	out := map[string]bool{}
	for s := range stanzas(status) {
		for _, p := range s.provides {
			out[p] = out[p] || s.installed
		}
	}
	return out
}

// Replaced returns the removed packages that a wanted one replaces in a role that only one package may have, as chrony does systemd-timesyncd. wanted
// are the stanzas of the wanted packages in apt's lists.
func Replaced(removed []string, status, wanted string) (names []string) {
	var roles []string
	for s := range stanzas(wanted) {
		roles = append(roles, s.roles()...)
	}
	for s := range stanzas(status) {
		taken := slices.ContainsFunc(s.roles(), func(r string) bool { return slices.Contains(roles, r) })
		if s.installed && taken && slices.Contains(removed, s.name) {
			names = append(names, s.name)
		}
	}
	return names
}

// Removed returns the packages that are removed according to the output of apt-get --simulate: "Remv NAME [VERSION]".
func Removed(foreseen string) (names []string) {
	for line := range strings.Lines(foreseen) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "Remv" {
			names = append(names, f[1])
		}
	}
	return names
}

// Brought returns the packages that are newly installed according to the output of apt-get --simulate: "Inst NAME (VERSION …)". A package that is
// upgraded has its present version in brackets before the parenthesis.
func Brought(foreseen string) (names []string) {
	for line := range strings.Lines(foreseen) {
		if f := strings.Fields(line); len(f) > 2 && f[0] == "Inst" && strings.HasPrefix(f[2], "(") {
			names = append(names, f[1])
		}
	}
	return names
}

// Locked reports whether apt or dpkg says that another program is at work.
func Locked(err error) bool {
	return says(err, "Could not get lock", "is another process using it", "Unable to acquire the dpkg frontend lock", "locked by another process")
}

// CutOff reports whether apt-get says that an installation was interrupted.
func CutOff(err error) bool {
	return says(err, "--fix-broken", "dpkg was interrupted", "Unmet dependencies")
}

func says(err error, any ...string) bool {
	return slices.ContainsFunc(any, func(text string) bool { return strings.Contains(err.Error(), text) })
}

// stanza is a package in dpkg's database or in apt's lists (deb-control(5)).
type stanza struct {
	name                string
	provides, conflicts []string
	installed           bool
}

// roles returns the virtual packages that s provides and that none but s may provide, such as time-daemon.
func (s stanza) roles() []string {
	return slices.DeleteFunc(slices.Clone(s.provides), func(p string) bool { return !slices.Contains(s.conflicts, p) })
}

// stanzas yields the packages that a control file describes.
func stanzas(text string) iter.Seq[stanza] {
	return func(yield func(stanza) bool) {
		for paragraph := range strings.SplitSeq(text, "\n\n") {
			var s stanza
			for line := range strings.Lines(paragraph) {
				key, value, _ := strings.Cut(strings.TrimRight(line, "\n"), ": ")
				switch key {
				case "Package":
					s.name = value
				case "Provides":
					s.provides = packageNames(value)
				case "Conflicts":
					s.conflicts = packageNames(value)
				case "Status":
					s.installed = value == "install ok installed" || value == "hold ok installed"
				}
			}
			if s.name != "" && !yield(s) {
				return
			}
		}
	}
}

// packageNames returns the names in a list of packages, whose items may have versions: NAME (= VERSION).
func packageNames(list string) (names []string) {
	for item := range strings.SplitSeq(list, ",") {
		if f := strings.Fields(item); len(f) > 0 {
			names = append(names, f[0])
		}
	}
	return names
}
