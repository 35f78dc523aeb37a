// Package flags knows which flags, feature gates, admission plugins and configuration fields the programs of each supported Kubernetes minor accept,
// and which flags Naupegos sets itself. hack/flags generates the tables from the programs, and its integration test compares them with a bundle. The
// package is pure data: it opens no files and knows nothing of documents or machines.
package flags

import (
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
)

// The programs that a cluster's document may configure.
const (
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kubelet           = "kubelet"
	KubeProxy         = "kube-proxy"
	Etcd              = "etcd"
)

// Programs returns the names of all programs that have a table.
func Programs() []string {
	return []string{APIServer, ControllerManager, Scheduler, Kubelet, KubeProxy, Etcd}
}

// Flag is one flag of a program.
type Flag struct {
	Type       string // as pflag prints it: "int", "duration", "strings"; "bool" for a flag without an argument
	Deprecated bool
}

// Gate is one feature gate.
type Gate struct {
	Stage   string // "alpha", "beta", "ga" or "deprecated"
	Default bool
	Locked  bool // the program does not start if the gate is set to anything but Default
	needs   []string
}

// Unmet is a feature gate that is on, and one that it needs and that is off: a program does not start with them.
type Unmet struct{ Gate, Needs string }

// Repeats reports whether a flag of a program may appear several times, each occurrence adding to the previous ones.
func (f Flag) Repeats(program string) bool {
	if program == Etcd {
		return false
	}
	for _, part := range []string{"strings", "stringArray", "Slice", "ToString", "mapString", "Multimap", "namedCertKey"} {
		if strings.Contains(f.Type, part) {
			return true
		}
	}
	return false
}

// Table lists what the programs of one minor accept.
type Table struct {
	Minor     string // "1.37"
	Release   string // release from whose programs the table was generated
	flags     map[string]map[string]Flag
	gates     map[string]Gate
	etcdGates map[string]Gate
	fields    map[string]map[string]string
	plugins   map[string]bool
	apis      map[string]bool
}

// Flag returns a flag of a program by its name without dashes.
func (t Table) Flag(program, name string) (Flag, bool) {
	f, ok := t.flags[program][name]
	return f, ok
}

// Flags lists the names of a program's flags.
func (t Table) Flags(program string) []string { return slices.Sorted(maps.Keys(t.flags[program])) }

// Gate returns a feature gate of a program.
func (t Table) Gate(program, name string) (Gate, bool) {
	g, ok := t.gatesOf(program)[name]
	return g, ok
}

// Unmet lists what the feature gates of a program lack if a document sets these.
func (t Table) Unmet(program string, set map[string]bool) (out []Unmet) {
	all := t.gatesOf(program)
	on := func(name string) bool {
		g := all[name]
		if v, ok := set[name]; ok {
			return v
		}
		if v, ok := set[map[string]string{"alpha": "AllAlpha", "beta": "AllBeta"}[g.Stage]]; ok {
			return v
		}
		return g.Default
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, needs := range all[name].needs {
			if on(name) && !on(needs) {
				out = append(out, Unmet{name, needs})
			}
		}
	}
	return out
}

// Explain returns the problem, the remedy, and the gate of the document to which they belong; at is empty if AllAlpha or AllBeta decides.
func (u Unmet) Explain(set map[string]bool) (at, problem, hint string) {
	if _, ok := set[u.Gate]; ok {
		return u.Gate, fmt.Sprintf("the feature gate %s needs %s, which is off", u.Gate, u.Needs), "set " + u.Needs + " to true, too"
	}
	if _, ok := set[u.Needs]; ok {
		return u.Needs, fmt.Sprintf("the feature gate %s, which is on, needs %s", u.Gate, u.Needs), "set " + u.Gate + " to false, too"
	}
	return "", fmt.Sprintf("the feature gate %s, which is on, needs %s, which is off", u.Gate, u.Needs), "set " + u.Gate + " to false, or " + u.Needs + " to true"
}

// Gates lists the feature gates of a program.
func (t Table) Gates(program string) []string { return slices.Sorted(maps.Keys(t.gatesOf(program))) }

func (t Table) gatesOf(program string) map[string]Gate {
	if program == Etcd {
		return t.etcdGates
	}
	return t.gates // the programs of one release share their gates
}

// Field returns the type of a field of a program's configuration file by its path, such as "logging.format"; list items have no index.
func (t Table) Field(program, field string) (string, bool) {
	typ, ok := t.fields[program][field]
	return typ, ok
}

// Fields lists the fields of a program's configuration file directly below parent; an empty parent means the file itself.
func (t Table) Fields(program, parent string) (names []string) {
	for _, p := range slices.Sorted(maps.Keys(t.fields[program])) {
		dir, name := path.Split(strings.ReplaceAll(p, ".", "/"))
		if strings.ReplaceAll(strings.TrimSuffix(dir, "/"), "/", ".") == parent {
			names = append(names, name)
		}
	}
	return names
}

// Plugin reports whether the API server has an admission plugin of this name.
func (t Table) Plugin(name string) bool { return t.plugins[name] }

// Plugins lists the admission plugins of the API server.
func (t Table) Plugins() []string { return slices.Sorted(maps.Keys(t.plugins)) }

// API reports whether the API server knows an API version, such as "apps/v1".
func (t Table) API(version string) bool { return t.apis[version] }

// APIs lists the API versions that the API server knows, whether or not it serves them by default.
func (t Table) APIs() []string { return slices.Sorted(maps.Keys(t.apis)) }

//go:embed tables/*.txt
var files embed.FS

// Of returns the table of a minor, such as "1.37"; false if the minor is not supported.
func Of(minor string) (Table, bool) {
	t, ok := tables()[minor]
	return t, ok
}

var tables = sync.OnceValue(func() map[string]Table {
	all := map[string]Table{}
	names, err := fs.Glob(files, "tables/*.txt")
	if err != nil {
		panic(err) // the pattern is constant
	}
	for _, name := range names {
		data, err := files.ReadFile(name)
		if err != nil {
			panic(err) // it is embedded
		}
		minor := strings.TrimSuffix(path.Base(name), ".txt")
		all[minor] = parse(minor, string(data))
	}
	return all
})

// parse reads a table: one item per line, below headings in brackets. It expects exactly the format that hack/flags writes; a test reads every table.
func parse(minor, text string) Table {
	t := Table{
		Minor: minor, flags: map[string]map[string]Flag{}, gates: map[string]Gate{}, etcdGates: map[string]Gate{},
		fields: map[string]map[string]string{}, plugins: map[string]bool{}, apis: map[string]bool{},
	}
	kind, program := "", ""
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || words[0] == "#":
		case strings.HasPrefix(line, "["):
			kind, program, _ = strings.Cut(strings.Trim(strings.TrimSpace(line), "[]"), " ")
		case kind == "" && words[0] == "release":
			t.Release = words[1]
		case kind == "flags":
			if t.flags[program] == nil {
				t.flags[program] = map[string]Flag{}
			}
			t.flags[program][words[0]] = Flag{Type: words[1], Deprecated: slices.Contains(words[2:], "deprecated")}
		case kind == "gates":
			g := Gate{Stage: words[1], Default: words[2] == "true", Locked: slices.Contains(words[3:], "locked")}
			for _, w := range words[3:] {
				if needs, ok := strings.CutPrefix(w, "needs="); ok {
					g.needs = strings.Split(needs, ",")
				}
			}
			t.gatesOf(program)[words[0]] = g
		case kind == "config":
			if t.fields[program] == nil {
				t.fields[program] = map[string]string{}
			}
			t.fields[program][words[0]] = words[1]
		case kind == "plugins":
			t.plugins[words[0]] = true
		case kind == "apis":
			t.apis[words[0]] = true
		}
	}
	return t
}
