// Package strict reads YAML into tagged Go structs and reports everything that does not fit, with field, line and column.
//
// It refuses what YAML allows and people rarely mean: unknown and repeated keys, aliases, merge keys, tags, and values of another type. The tags
// json and jsonschema of a struct are the one source of keys, defaults, limits and suggestions.
// The package is pure: it opens no file and knows no document.
package strict
