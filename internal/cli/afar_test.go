package cli

import (
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestEveryVerbWithAServer: each command works through a server, needs no store, or is refused with an alternative; the refused ones are listed
// here and on the docs' page about the server.
func TestEveryVerbWithAServer(t *testing.T) {
	want := strings.Split("autoscale,backup key,kubectl,server audit export,server audit key,server backup,server credential add,server credential list,server credential remove,server follow add,server follow approve,server follow list,server follow now,server follow remove,server follow show,server import-matchbox,server restore,server session end,server session list,server token create,server token list,server token revoke,server webhook add,server webhook list,server webhook remove,server webhook test,ssh,ssh-config,store backup,store move,store protect,store restore,store rotate,ui", ",")
	page := string(testkit.Value(os.ReadFile("../../docs/how-to/server.md"))(t))
	a := &App{Out: io.Discard, Err: io.Discard}
	root := New(a)
	a.where.Server = "https://192.0.2.1:8443"
	var refused []string
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		if c.HasSubCommands() || c.Hidden {
			return
		}
		name := strings.TrimPrefix(c.CommandPath(), "naupegos ")
		err := checkServer(c, a)
		if err == nil {
			return
		}
		refused = append(refused, name)
		testkit.Fails(t, err, fail.Refused, "does not go through a server")
		if strings.Contains(err.Error(), "without --server") {
			t.Errorf("%s: the error has no remedy: %v", name, err)
		}
		verb, _, _ := strings.Cut(name, " ")
		if verb != "store" && verb != "server" {
			verb = name
		}
		if !strings.Contains(page, "\n| `"+verb+"` | ") {
			t.Errorf("the page about the server does not say that %s is refused, and the alternative", verb)
		}
	}
	walk(root)
	slices.Sort(refused)
	if !slices.Equal(refused, want) {
		t.Errorf("refused are %q, not %q", refused, want)
	}
}
