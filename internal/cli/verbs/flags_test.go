package verbs

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// TestWaiting is stumble 11: --wait as users of kubectl and helm type it.
func TestWaiting(t *testing.T) {
	for typed, want := range map[string]time.Duration{
		"demo": 0, "demo --wait": 10 * time.Minute, "demo --wait=5s": 5 * time.Second, "demo --wait 5s": 5 * time.Second, "demo --wait --timeout 5m": 5 * time.Minute, "demo --timeout 5m": 0, "--wait demo": 10 * time.Minute, "--wait 1d demo": -1,
	} {
		var wait, timeout time.Duration
		var names []string
		root := &cobra.Command{Use: "naupegos", SilenceErrors: true, SilenceUsage: true}
		c := &cobra.Command{Use: "status [NAME]", Args: cobra.MaximumNArgs(1), RunE: func(_ *cobra.Command, args []string) error { names = args; return nil }}
		c.Flags().DurationVar(&wait, "wait", 0, "")
		c.Flags().Lookup("wait").NoOptDefVal = "10m"
		c.Flags().DurationVar(&timeout, "timeout", time.Second, "")
		root.AddCommand(c)
		TakeDays(root)
		CheckArguments(root, &Names{Default: func() (string, string, error) { return "", "", nil }, Server: func() bool { return false }})
		root.SetArgs(append([]string{"status"}, strings.Fields(typed)...))
		if err := root.Execute(); (err != nil) != (want < 0) || want >= 0 && (wait != want || len(names) != 1 || names[0] != "demo") {
			t.Errorf("%q: %s, %v, %v; want %s", typed, wait, names, err, want)
		}
	}
}

// TestReleases is stumble 20: a release without its v, and texts that are no release.
func TestReleases(t *testing.T) {
	for typed, want := range map[string]string{"1.37.2": "v1.37.2", "v1.37.2": "v1.37.2", "1.37": "", "latest": "", "v1.37.2-rc.1": "", "": ""} {
		var to string
		root, c := &cobra.Command{Use: "naupegos"}, &cobra.Command{Use: "upgrade NAME"}
		c.Flags().StringVar(&to, "to", "", "")
		root.AddCommand(c)
		TakeReleases(root)
		if err := c.ParseFlags([]string{"--to", typed}); to != want || (err == nil) != (want != "") || err != nil && !strings.Contains(err.Error(), "write it as v1.37.2") {
			t.Errorf("%q: %q, %v", typed, to, err)
		}
	}
}

// TestImagesWithoutKubernetes: only machine install takes none for a release, because a system image may be without Kubernetes.
func TestImagesWithoutKubernetes(t *testing.T) {
	for path, want := range map[string]bool{"machine install": true, "image build": false} {
		parent, child, _ := strings.Cut(path, " ")
		root, group, c := &cobra.Command{Use: "naupegos"}, &cobra.Command{Use: parent}, &cobra.Command{Use: child}
		c.Flags().String("kubernetes", "", "")
		root.AddCommand(group)
		group.AddCommand(c)
		TakeReleases(root)
		if err := c.ParseFlags([]string{"--kubernetes", "none"}); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestFormerFlags is stumble 18: old names of flags still work, and help shows the new ones only.
func TestFormerFlags(t *testing.T) {
	var at string
	var dry bool
	c := &cobra.Command{Use: "restore NAME"}
	c.Flags().StringVar(&at, "backups", "", "directory")
	DryRun(c, &dry)
	TakeFormerFlags(c)
	if err := c.ParseFlags([]string{"--to", "x", "--plan"}); err != nil || at != "x" || !dry {
		t.Errorf("%q, %v, %v", at, dry, err)
	}
	if text := c.Flags().FlagUsages(); strings.Contains(text, "--to") || strings.Contains(text, "--plan") {
		t.Error(text)
	}
}

// TestAsPlugin: help names the command that the user types, and only as a plugin.
func TestAsPlugin(t *testing.T) {
	for program, want := range map[string]string{"/usr/local/bin/kubectl-naupegos": "kubectl naupegos status demo", "/usr/local/bin/naupegos": "  naupegos status demo"} {
		var out bytes.Buffer
		root, c := &cobra.Command{Use: "naupegos"}, &cobra.Command{Use: "status [NAME]", Example: "  naupegos status demo", RunE: func(*cobra.Command, []string) error { return nil }}
		root.AddCommand(c)
		AsPlugin(root, program)
		LayOutHelp(root)
		root.SetOut(&out)
		root.SetArgs([]string{"status", "--help"})
		if err := root.Execute(); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v: %s", program, err, &out)
		}
	}
}
