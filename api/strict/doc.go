// Package strict reads YAML into tagged Go structs and reports everything that does not fit, with field, line and column.
//
// It refuses what YAML allows but people rarely mean: unknown and repeated keys, aliases, merge keys, tags, and values of another type. The struct
// tags json and jsonschema are the only source of keys, defaults, limits and suggestions. The package is pure: it opens no file and knows no
// particular document.
package strict
