package shell

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// TestSplit: flags before the command are ssh's and flags after it are the command's, as with ssh.
func TestSplit(t *testing.T) {
	for _, c := range []struct{ args, names, flags, command string }{
		{"demo cp-1", "demo cp-1", "", ""},
		{"demo cp-1 uptime", "demo cp-1", "", "uptime"},
		{"demo cp-1 -- uptime -p", "demo cp-1", "", "uptime -p"},
		{"demo cp-1 ls -l", "demo cp-1", "", "ls -l"},
		{"demo cp-1 -t top", "demo cp-1", "-t", "top"},
		{"demo cp-1 -tt -- top -d 1", "demo cp-1", "-t -t", "top -d 1"},
		{"demo cp-1 -L 80:localhost:80 -N", "demo cp-1", "-L 80:localhost:80 -N", ""},
		{"demo -L80:localhost:80 cp-1 -NR 81:x:81", "demo cp-1", "-L 80:localhost:80 -N -R 81:x:81", ""},
		{"-A demo cp-1 -vvv true", "demo cp-1", "-A -v -v -v", "true"},
		{"demo cp-1 -o LogLevel=ERROR -o Ciphers=x", "demo cp-1", "-o LogLevel=ERROR -o Ciphers=x", ""},
		{"demo -- cp-1 -- echo --", "demo cp-1", "", "echo --"},
		{"demo cp-1 --state-dir /x -- echo --state-dir", "demo cp-1", "", "echo --state-dir"},
		{"demo", "demo", "", ""},
		{"", "", "", ""},
	} {
		var given passed
		f := pflag.NewFlagSet("ssh", pflag.ContinueOnError)
		f.String("state-dir", "", "")
		f.SetInterspersed(false)
		given.bind(f)
		if err := f.Parse(strings.Fields(c.args)); err != nil {
			t.Fatal(err)
		}
		names, rest, err := split(f, f.Args(), 2)
		if err != nil || strings.Join(names, " ") != c.names || strings.Join(given, " ") != c.flags || strings.Join(rest, " ") != c.command {
			t.Errorf("%q: machine %q, flags %q, command %q, %v", c.args, names, given, rest, err)
		}
	}
}

// TestUnknownFlag: an ssh flag that Naupegos sets itself is refused, and not taken for the command.
func TestUnknownFlag(t *testing.T) {
	for _, args := range []string{"demo cp-1 -p 2222", "demo cp-1 -F /dev/null", "demo cp-1 -J other", "demo cp-1 -L"} {
		var given passed
		f := pflag.NewFlagSet("ssh", pflag.ContinueOnError)
		f.SetInterspersed(false)
		given.bind(f)
		err := f.Parse(strings.Fields(args))
		if err == nil {
			_, _, err = split(f, f.Args(), 2)
		}
		if err == nil {
			t.Errorf("%q was accepted", args)
		}
	}
}
