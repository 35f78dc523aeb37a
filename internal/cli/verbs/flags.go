package verbs

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// formerFlags maps a flag's name to its former or alternative names, which still work but appear in no help.
var formerFlags = map[string][]string{"backups": {"to"}, "file": {"out"}}

// TakeFormerFlags makes flags of c and all commands below it accept their former names, unless the command has another flag of that name.
func TakeFormerFlags(c *cobra.Command) {
	set := c.Flags()
	is := map[string]string{}
	for now, former := range formerFlags {
		if f := set.Lookup(now); f == nil || now == "file" && strings.Contains(f.Usage, "document") { // its file is an input, not an output
			continue
		}
		for _, name := range former {
			if set.Lookup(name) == nil {
				is[name] = now
			}
		}
	}
	if len(is) > 0 {
		set.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
			if now, ok := is[name]; ok {
				name = now
			}
			return pflag.NormalizedName(name)
		})
	}
	for _, sub := range c.Commands() {
		TakeFormerFlags(sub)
	}
}

// DryRun binds --dry-run, and its hidden second name --plan, to dry.
func DryRun(c *cobra.Command, dry *bool) {
	c.Flags().BoolVar(dry, "dry-run", false, "print the plan and change nothing, with the output and exit status of naupegos plan")
	c.Flags().BoolVar(dry, "plan", false, "the same as --dry-run")
	c.Flags().Lookup("plan").Hidden = true
}

// release is the value of a flag that names a release of Kubernetes; it accepts 1.37.2 for v1.37.2.
type release struct {
	pflag.Value
	none bool // it also accepts none, for system images without Kubernetes
}

var bareRelease = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+$`)

// aRelease matches a release.
var aRelease = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+$`)

// Set implements pflag.Value.
func (r release) Set(text string) error {
	if bareRelease.MatchString(text) {
		text = "v" + text
	}
	if !aRelease.MatchString(text) && !(r.none && text == "none") {
		return fmt.Errorf("%q is no release of Kubernetes; write it as v1.37.2", text)
	}
	return r.Value.Set(text)
}

// TakeReleases makes all flags for a Kubernetes release, of c and all commands below it, accept a release without its v.
func TakeReleases(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		named := f.Name == "kubernetes" || f.Name == "to" && Path(c) == "upgrade"
		if _, done := f.Value.(release); named && !done && f.Value.Type() == "string" {
			f.Value = release{f.Value, Path(c) == "machine install"}
		}
	})
	for _, sub := range c.Commands() {
		TakeReleases(sub)
	}
}

// waiting accepts --wait as kubectl and helm write it, `--wait --timeout 5m`, and also `--wait 5m`, where cobra sees 5m as an argument. It
// returns the remaining arguments.
func waiting(c *cobra.Command, args []string) ([]string, error) {
	wait := c.Flags().Lookup("wait")
	if wait == nil || !wait.Changed || wait.Value.Type() != "duration" {
		return args, nil
	}
	if n := len(args); n > 0 {
		if _, err := time.ParseDuration(inHours(args[n-1])); err == nil {
			return args[:n-1], wait.Value.Set(args[n-1])
		}
	}
	if timeout := c.Flags().Lookup("timeout"); timeout != nil && timeout.Changed {
		return args, wait.Value.Set(timeout.Value.String())
	}
	return args, nil
}
