package boot

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// environment writes variables as sorted lines KEY=value. Nested ones get the keys of all levels: {"a": {"b": 1}} becomes A_B=1. It leaves out
// lists and null, which have no such form.
func environment(b *bytes.Buffer, prefix string, vars map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(vars)) {
		name := prefix + key
		switch v := vars[key].(type) {
		case string, bool, float64:
			fmt.Fprintf(b, "%s=%v\n", strings.ToUpper(name), v)
		case map[string]any:
			environment(b, name+"_", v)
		case map[string]string:
			for _, k := range slices.Sorted(maps.Keys(v)) {
				fmt.Fprintf(b, "%s=%s\n", strings.ToUpper(name+"_"+k), v[k])
			}
		}
	}
}
