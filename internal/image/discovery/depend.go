package discovery

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// nameOf is the name of the module in a file.
func nameOf(file string) string {
	return strings.ReplaceAll(strings.TrimSuffix(path.Base(file), ".ko"), "-", "_")
}

// choose returns the files of the modules that match patterns, and of their dependencies.
func (k *kernel) choose(patterns []string) map[string]bool {
	names := k.names()
	chosen := map[string]bool{}
	for file := range k.modules {
		below := strings.TrimPrefix(file, "kernel/")
		if !slices.ContainsFunc(patterns, func(p string) bool { return strings.HasPrefix(below, p) }) {
			continue
		}
		chosen[file] = true
		for _, need := range k.closure(file, names) {
			chosen[need] = true
		}
	}
	return chosen
}

// names returns the files of modules by their names, and by aliases that are names, as crypto-crc32c is. A name has precedence over an alias.
func (k *kernel) names() map[string][]string {
	names := map[string][]string{}
	for _, file := range slices.Sorted(maps.Keys(k.modules)) {
		for _, a := range k.modules[file].aliases {
			if !strings.ContainsAny(a, ":*") {
				names[a] = append(names[a], file)
			}
		}
	}
	for file := range k.modules {
		names[nameOf(file)] = []string{file}
	}
	return names
}

// closure returns the files of a module's dependencies, each before its dependents.
func (k *kernel) closure(file string, names map[string][]string) (order []string) {
	seen := map[string]bool{file: true}
	var visit func(string)
	visit = func(f string) {
		m := k.modules[f]
		for _, need := range slices.Concat(m.needs, m.before) {
			for _, n := range slices.Concat(names[strings.ReplaceAll(need, "-", "_")], names[need]) {
				if !seen[n] {
					seen[n] = true
					visit(n)
					order = append(order, n)
				}
			}
		}
	}
	visit(file)
	return order
}

// lists returns modules.dep and modules.alias, as depmod(8) writes them, of the modules that were chosen.
func (k *kernel) lists() (deps, aliases []byte) {
	var d, a bytes.Buffer
	names := k.names()
	for _, file := range slices.Sorted(maps.Keys(k.content)) {
		fmt.Fprintf(&d, "%s:", file)
		for _, need := range slices.Backward(k.closure(file, names)) { // the deepest last
			fmt.Fprintf(&d, " %s", need)
		}
		d.WriteByte('\n')
		for _, alias := range k.modules[file].aliases {
			fmt.Fprintf(&a, "alias %s %s\n", alias, nameOf(file))
		}
	}
	return d.Bytes(), a.Bytes()
}
