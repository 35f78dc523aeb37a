package adopt

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
)

// parsed returns the value of a flag in the form of a field of a part of the document; nil if the text has another form.
func parsed(part reflect.Type, field, text string) any {
	var typ reflect.Type
	for i := range part.NumField() {
		if name, _, _ := strings.Cut(part.Field(i).Tag.Get("json"), ","); name == field {
			typ = part.Field(i).Type
		}
	}
	switch typ {
	case nil:
		return nil
	case reflect.TypeFor[int](), reflect.TypeFor[*bool]():
		var value any
		if json.Unmarshal([]byte(text), &value) != nil {
			return nil
		}
		return value
	case reflect.TypeFor[[]string]():
		return strings.Split(text, ",")
	case reflect.TypeFor[string](), reflect.TypeFor[v1alpha1.Duration]():
		return text
	}
	out := map[string]any{}
	for _, pair := range strings.Split(text, ",") {
		at := strings.IndexAny(pair, "=<#")
		switch {
		case at < 0 && typ == reflect.TypeFor[map[string]bool]():
			out[pair] = true // runtime-config
		case at < 0:
			return nil
		case typ == reflect.TypeFor[map[string]string]():
			out[pair[:at]] = pair[at+1:]
		default:
			var value any
			if json.Unmarshal([]byte(strings.ToLower(pair[at+1:])), &value) != nil {
				return nil
			}
			out[pair[:at]] = value
		}
	}
	return out
}

// wholeGiB returns a number of bytes in GiB; nil if it is no whole number of them.
func wholeGiB(text string) any {
	n, err := strconv.Atoi(text)
	if err != nil || n <= 0 || n%(1<<30) != 0 {
		return nil
	}
	return n >> 30
}

// lists are flags whose value is a list in which the order makes no difference.
var lists = []string{"enable-admission-plugins", "disable-admission-plugins", "feature-gates", "runtime-config", "watch-cache-sizes"}

// same reports whether two values of a flag or a field mean the same.
func same(name, a, b string) bool {
	if a == b {
		return true
	}
	if slices.Contains(lists, name) {
		return slices.Equal(inOrder(a), inOrder(b))
	}
	x, err := time.ParseDuration(a)
	y, other := time.ParseDuration(b)
	return err == nil && other == nil && x == y
}

// inOrder splits a list and sorts it. Admission plugins that are always on do not count.
func inOrder(list string) []string {
	parts := slices.DeleteFunc(strings.Split(list, ","), func(p string) bool { return slices.Contains(usualPlugins, p) })
	for i, p := range parts {
		parts[i] = strings.TrimSuffix(p, "=true") // which runtime-config may leave out
	}
	slices.Sort(parts)
	return slices.Compact(parts)
}
