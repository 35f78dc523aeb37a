package verbs

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/naupegos/naupegos/internal/fail"
)

// TakeOneFile makes every command refuse a second -f: one document is one cluster, and the last one would win silently.
func TakeOneFile(c *cobra.Command) {
	if f := c.Flags().ShorthandLookup("f"); f != nil && f.Name == "file" && f.Value.Type() == "string" {
		f.Value = &once{f.Value, f}
	}
	for _, sub := range c.Commands() {
		TakeOneFile(sub)
	}
}

// once is the value of a flag that can be given once.
type once struct {
	pflag.Value
	flag *pflag.Flag
}

// Set implements pflag.Value.
func (o *once) Set(text string) error {
	if o.flag.Changed {
		return fail.New(fail.Invalid, "it is given twice: one document is one cluster").Do("run the command once for each document")
	}
	return o.Value.Set(text)
}

// AsksJSON reports whether arguments that could not be parsed ask for JSON output.
func AsksJSON(args []string) bool {
	for i, arg := range args {
		switch arg {
		case "--":
			return false
		case "-ojson", "-o=json", "--output=json":
			return true
		case "-o", "--output":
			if i+1 < len(args) && strings.EqualFold(args[i+1], "json") {
				return true
			}
		}
	}
	return false
}
