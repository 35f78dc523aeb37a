package contexts

import (
	"cmp"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store/filelock"
)

// Flags are the global flags that say where clusters are kept. The environment, and then the context, supply the settings that flags omit.
type Flags struct {
	Server, CA, Context string
	Store, StateDir     *string // bound by the caller
	StoreWait           time.Duration

	path   string // of the configuration file; empty: Path
	read   bool
	now    Context
	file   *File
	failed error
}

// Bind adds --server, --server-ca, --context and --store-wait.
func (f *Flags) Bind(c *cobra.Command) {
	c.PersistentFlags().StringVar(&f.Server, "server", "", "Naupegos server that carries the command out, https://HOST:PORT (default $NAUPEGOS_SERVER, else the context's, else it runs here); the token is read from $NAUPEGOS_TOKEN or $NAUPEGOS_TOKEN_FILE")
	c.PersistentFlags().StringVar(&f.CA, "server-ca", "", "file with the certificate authority of the server (default $NAUPEGOS_SERVER_CA, else the context's, else this host's authorities)")
	c.PersistentFlags().DurationVar(&f.StoreWait, "store-wait", filelock.Limit, "how long to wait while another process makes or updates the store")
	c.PersistentFlags().StringVar(&f.Context, "context", "", "context of the configuration file to use (default $NAUPEGOS_CONTEXT, else the one that naupegos use chose)")
}

// given returns the place that flags or the environment name, and the flag or variable; it wins over a context's place.
func (f *Flags) given() (flag, value string) {
	for _, at := range []struct{ flag, value string }{
		{"--server", f.Server}, {"--store", *f.Store}, {"--state-dir", *f.StateDir}, {"$NAUPEGOS_SERVER", os.Getenv("NAUPEGOS_SERVER")}, {"$NAUPEGOS_STORE", os.Getenv("NAUPEGOS_STORE")},
	} {
		if at.value != "" {
			return at.flag, at.value
		}
	}
	return "", ""
}

// Now returns the context in use, with its settings replaced by flags and the environment. If these name a place other than the context's, no
// setting of the context applies and Name is empty: its token and its cluster belong to its own place.
func (f *Flags) Now() (Context, error) {
	if f.read {
		return f.now, f.failed
	}
	f.read = true
	f.now, f.failed = f.choose()
	c := &f.now
	for _, one := range []struct {
		at        *string
		flag, env string
	}{
		{&c.Server, f.Server, "NAUPEGOS_SERVER"}, {&c.ServerCA, f.CA, "NAUPEGOS_SERVER_CA"}, {&c.TokenFile, "", "NAUPEGOS_TOKEN_FILE"},
		{&c.Store, *f.Store, "NAUPEGOS_STORE"}, {&c.StateDir, *f.StateDir, ""},
	} {
		*one.at = cmp.Or(one.flag, os.Getenv(one.env), *one.at)
	}
	return f.now, f.failed
}

func (f *Flags) choose() (c Context, err error) {
	if f.file, err = Read(cmp.Or(f.path, Path())); err != nil {
		return c, err
	}
	at, place := f.given()
	asked := cmp.Or(f.Context, os.Getenv("NAUPEGOS_CONTEXT"))
	name := cmp.Or(asked, f.file.Current, own)
	known := f.file.context(name)
	switch {
	case known == nil && name == own:
		return Context{Name: own}, nil
	case known == nil:
		from := "--context"
		if f.Context == "" {
			from = "$NAUPEGOS_CONTEXT"
		}
		return c, fail.New(fail.Invalid, "%s: there is no context %q%s", from, name, f.file.known(name)).Do("naupegos use lists the contexts")
	case place == "" || !known.located():
		return *known, nil
	case place == known.Server || place == known.Store || place == known.StateDir:
		return *known, nil
	case f.Context != "" && at[0] == '-':
		return c, fail.New(fail.Invalid, "--context %s names %s, and %s another place", name, known.place(), at).Do("leave one of the two out")
	}
	return Context{}, nil
}

// Cluster returns the default cluster, and the setting that chose it; empty: no default.
func (f *Flags) Cluster() (cluster, from string, err error) {
	if cluster = os.Getenv("NAUPEGOS_CLUSTER"); cluster != "" {
		return cluster, "$NAUPEGOS_CLUSTER", nil
	}
	c, err := f.Now()
	return c.Cluster, "naupegos use", err
}

// Forget makes the next call read the configuration file again.
func (f *Flags) Forget() { f.read = false }
