package tool

import "github.com/naupegos/naupegos/internal/plan/words"

// Printable is words.Text: foreign text (a console, an error of a machine) without control sequences for terminals.
func Printable(s string) string { return words.Text(s) }
