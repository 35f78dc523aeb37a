package chart

import (
	"maps"
	"slices"
	"time"

	"github.com/Masterminds/sprig/v3"

	"github.com/naupegos/naupegos/internal/kube/manifest"
)

// apart is the time between the two clocks: years, months, days, hours, minutes and seconds all differ.
const apart = (400*24+1)*time.Hour + time.Minute + time.Second

// funcs replaces functions of templates whose result depends on more than their arguments. Each chart is rendered twice, now and as if later: the clock
// and random numbers differ for certain, so that charts whose objects depend on them are found. Lists of a mapping's keys and values are sorted.
func funcs(find lookup, later bool) map[string]any {
	now := time.Now
	if later {
		now = func() time.Time { return time.Now().Add(apart) }
	}
	// at is the time that sprig's functions take for an argument: now, if it is none.
	at := func(t any) any {
		switch t.(type) {
		case time.Time, *time.Time, int, int32, int64:
			return t
		}
		return now()
	}
	all := sprig.GenericFuncMap()
	out := map[string]any{
		"lookup": find,
		"repeat": repeat,
		"now":    now,
		"ago": func(t any) string {
			then, ok := at(t).(time.Time)
			if !ok {
				return "0s"
			}
			return now().Sub(then).Round(time.Second).String()
		},
		"keys": func(all ...map[string]any) []string {
			var out []string
			for _, m := range all {
				out = append(out, slices.Sorted(maps.Keys(m))...)
			}
			return out
		},
		"values": func(m map[string]any) []any {
			out := []any{}
			for _, k := range slices.Sorted(maps.Keys(m)) {
				out = append(out, m[k])
			}
			return out
		},
		"randInt": func(from, to int) int {
			if later && to > from {
				return to - 1
			}
			return from
		},
		"shuffle": func(s string) string {
			r := []rune(s)
			if later {
				slices.Reverse(r)
			}
			return string(r)
		},
	}
	for _, name := range []string{"date", "dateInZone", "date_in_zone", "htmlDate", "htmlDateInZone"} {
		switch f := all[name].(type) {
		case func(string, any) string:
			out[name] = func(layout string, t any) string { return f(layout, at(t)) }
		case func(string, any, string) string:
			out[name] = func(layout string, t any, zone string) string { return f(layout, at(t), zone) }
		case func(any) string:
			out[name] = func(t any) string { return f(at(t)) }
		case func(any, string) string:
			out[name] = func(t any, zone string) string { return f(at(t), zone) }
		}
	}
	return out
}

// same reports whether two renderings of a file have the same objects. What is not applied does not count: notes, helpers and test hooks.
func same(name, a, b string) bool {
	if isText(name) {
		return true
	}
	var digests [2]string
	for i, text := range []string{a, b} {
		objects, err := parse(name, []byte(text))
		if err != nil {
			return true // collect reports it
		}
		var out Rendered
		for _, u := range objects {
			if u.GetAnnotations()[annotationHook] == "" {
				out.Objects = append(out.Objects, u)
			} else if out.addHook(name, u) != nil {
				return true // collect reports it
			}
		}
		for _, h := range slices.Concat(out.Before, out.After) {
			out.Objects = append(out.Objects, h.Object)
		}
		if digests[i], err = manifest.DigestAll(out.Objects); err != nil {
			return false
		}
	}
	return digests[0] == digests[1]
}
