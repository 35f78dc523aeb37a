package verbs

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/fail"
)

// TestComplete: the default cluster is demo; clusters demo, prod and web exist, and demo has machines demo-cp-1 and demo-web.
func TestComplete(t *testing.T) {
	for _, c := range []struct{ use, typed, want string }{
		{"test NAME", "", "demo"},
		{"test NAME", "prod", "prod"},
		{"test NAME", "nope", "nope"},
		{"status [NAME]", "", "demo"},
		{"status [NAME]", "--all", ""},
		{"status [NAME]", "prod", "prod"},
		{"doctor [NAME]", "", ""},
		{"handover [NAME] DIR", "dir", "demo dir"},
		{"handover [NAME] DIR", "prod dir", "prod dir"},
		{"ssh NAME MACHINE [-- COMMAND...]", "cp-1", "demo cp-1"},
		{"ssh NAME MACHINE [-- COMMAND...]", "demo-cp-1", "demo demo-cp-1"},
		{"ssh NAME MACHINE [-- COMMAND...]", "prod cp-1", "prod cp-1"},
		{"ssh NAME MACHINE [-- COMMAND...]", "demo", "error MACHINE missing"},
		{"ssh NAME MACHINE [-- COMMAND...]", "prod", "error MACHINE missing"},
		{"ssh NAME MACHINE [-- COMMAND...]", "", "error MACHINE missing"},
		{"ssh NAME MACHINE [-- COMMAND...]", "cp-1 -- ls -l", "demo cp-1 ls -l"},
		{"ssh NAME MACHINE [-- COMMAND...]", "prod cp-1 -- ls", "prod cp-1 ls"},
		{"ssh NAME MACHINE [-- COMMAND...]", "cp-1 ls", "demo cp-1 ls"},
		{"ssh NAME MACHINE [-- COMMAND...]", "prodd cp-1", "error did you mean prod"},
		{"ssh NAME MACHINE [-- COMMAND...]", "web", "demo web"}, // as a cluster, it would lack a machine
		{"ssh NAME MACHINE [-- COMMAND...]", "web cp-1", "error web is a cluster, and a machine of demo"},
		{"drain NAME MACHINE...", "cp-1 web", "demo cp-1 web"},
		{"drain NAME MACHINE...", "prod a b", "prod a b"},
		{"reboot NAME [MACHINE...]", "", "demo"},
		{"reboot NAME [MACHINE...]", "prod", "prod"},
		{"reboot NAME [MACHINE...]", "cp-1", "demo cp-1"},
		{"reboot NAME [MACHINE...]", "web", "error web is a cluster, and a machine of demo"},
		{"show NAME [ID]", "prod", "prod"},
		{"show NAME [ID]", "20260101T000000Z", "demo 20260101T000000Z"},
		{"show NAME [ID]", "dmeo", "error did you mean demo"},
		{"show NAME [ID]", "prod x", "prod x"},
		{"history [NAME [RUN]]", "", "demo"},
		{"history [NAME [RUN]]", "last", "demo last"},
		{"kubectl NAME -- ARGS...", "get nodes", "demo get nodes"},
		{"kubectl NAME -- ARGS...", "-- get nodes", "demo get nodes"},
		{"kubectl NAME -- ARGS...", "prod get nodes", "prod get nodes"},
		{"renew NAME... | --all", "", "demo"},
		{"renew NAME... | --all", "--all", ""},
		{"renew NAME... | --all", "prod web", "prod web"},
		{"destroy NAME", "", "error NAME missing"},
		{"destroy NAME", "prod", "prod"},
		{"release NAME DIR", "dir", "error NAME missing"},
		{"release NAME DIR", "prod dir", "prod dir"},
		{"version", "", ""},
	} {
		root := &cobra.Command{Use: "naupegos"}
		var got []string
		verb := &cobra.Command{Use: c.use, Args: cobra.ArbitraryArgs, RunE: func(_ *cobra.Command, args []string) error { got = args; return nil }}
		verb.Args = func(_ *cobra.Command, args []string) error {
			if len(args) < len(requiredArguments(c.use)) && !strings.HasPrefix(c.use, "kubectl") && !strings.HasPrefix(c.use, "renew") {
				return io.ErrUnexpectedEOF
			}
			return nil
		}
		if strings.HasPrefix(c.use, "renew") {
			verb.Flags().Bool("all", false, "")
		}
		if strings.HasPrefix(c.use, "kubectl") {
			verb.Flags().SetInterspersed(false)
		}
		root.AddCommand(verb)
		root.SilenceErrors, root.SilenceUsage = true, true
		CheckArguments(root, &Names{Err: io.Discard,
			Default:  func() (string, string, error) { return "demo", "naupegos use", nil },
			Clusters: func(context.Context) ([]string, error) { return []string{"demo", "prod", "web"}, nil },
			Machines: func(_ context.Context, cluster string) []string {
				return map[string][]string{"demo": {"demo-cp-1", "demo-web"}}[cluster]
			},
			Server: func() bool { return false }})
		root.SetArgs(append([]string{verb.Name()}, strings.Fields(c.typed)...))
		err := root.ExecuteContext(t.Context())
		if want, ok := strings.CutPrefix(c.want, "error "); ok {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q: %v, %v; want %s", c.use, c.typed, got, err, want)
			}
			continue
		}
		if err != nil || !slices.Equal(got, strings.Fields(c.want)) {
			t.Errorf("%s: %q: %v, %v; want %s", c.use, c.typed, got, err, c.want)
		}
	}
}

// TestMisspelt: an unknown command is reported before its flags, which are unknown as well.
func TestMisspelt(t *testing.T) {
	root := &cobra.Command{Use: "naupegos"}
	root.PersistentFlags().String("store", "", "")
	root.PersistentFlags().BoolP("verbose", "v", false, "")
	run := func(*cobra.Command, []string) error { return nil }
	node := &cobra.Command{Use: "node"}
	node.AddCommand(&cobra.Command{Use: "remove NAME MACHINE...", RunE: run})
	root.AddCommand(&cobra.Command{Use: "apply [PLAN]", RunE: run}, &cobra.Command{Use: "destroy NAME", RunE: run}, &cobra.Command{Use: "status", RunE: run}, node)
	AddAliases(root)
	for typed, want := range map[string]string{
		"aply -f x": "did you mean apply?", "-v aply -f x": "did you mean apply?", "--store x aply": "did you mean apply?", "--store=x aply": "did you mean apply?",
		"node remov -y": "did you mean remove?", "node rm a b": "", "rm demo": "", "delete demo": "", "ls": "", "clusters": "", "create -f x": "did you mean apply?", "get": "did you mean status?",
		"--nonsense": "", "apply x -f y": "", "": "", "xyzzy -q": "see naupegos --help", "clutsers": "did you mean clusters?",
	} {
		err := Misspelt(root, strings.Fields(typed))
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || fail.KindOf(err) != fail.Invalid) {
			t.Errorf("%q: %v, want %q", typed, err, want)
		}
	}
}

// TestWrap: lines break at words at 60 columns, and keep their indentation.
func TestWrap(t *testing.T) {
	got := wrap("  naupegos server token create dashboard --expires 8760h with more text that goes on\nshort", 60)
	want := "  naupegos server token create dashboard --expires 8760h\n  with more text that goes on\nshort"
	if got != want {
		t.Errorf("%q", got)
	}
}
