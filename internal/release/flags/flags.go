// Package flags knows which flags, feature gates, admission plugins and configuration fields the programs of each supported Kubernetes minor
// take, and which flags Naupegos sets itself. The tables come from the programs: hack/flags writes them, and its integration test compares them
// with a bundle. The package is data; it opens nothing and knows nothing of documents or machines.
package flags

import (
	"embed"
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
	Locked  bool // setting it to anything else than Default keeps the program from starting
}

// Repeats reports whether a flag of a program may appear several times, each adding to the former.
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

// Table is what the programs of one minor take.
type Table struct {
	Minor     string // "1.37"
	Release   string // the table was made of this release's programs
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

// Gates lists the feature gates of a program.
func (t Table) Gates(program string) []string { return slices.Sorted(maps.Keys(t.gatesOf(program))) }

func (t Table) gatesOf(program string) map[string]Gate {
	if program == Etcd {
		return t.etcdGates
	}
	return t.gates // the programs of one release share their gates
}

// Field returns the type of a field of a program's configuration file by its path, "logging.format"; items of lists have no index.
func (t Table) Field(program, field string) (string, bool) {
	typ, ok := t.fields[program][field]
	return typ, ok
}

// Fields lists the paths of the fields of a program's configuration file that lie directly in parent; empty means the file itself.
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

// API reports whether the API server knows a version of an API, "apps/v1".
func (t Table) API(version string) bool { return t.apis[version] }

// APIs lists the versions of APIs that the API server knows, served by default or not.
func (t Table) APIs() []string { return slices.Sorted(maps.Keys(t.apis)) }

//go:embed tables/*.txt
var files embed.FS

// Of returns the table of a minor, "1.37"; false if the minor is not supported.
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

// parse reads a table: one item a line, below a heading in brackets. hack/flags writes no other form, and a test reads every table.
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
			t.gatesOf(program)[words[0]] = Gate{Stage: words[1], Default: words[2] == "true", Locked: slices.Contains(words[3:], "locked")}
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
