package shell

import (
	"cmp"

	"github.com/spf13/pflag"
)

// passed are the flags of OpenSSH that the user gave, in order.
type passed []string

// openSSHFlags are the flags of ssh(1) that can be passed on. It omits the flags for the destination and the user, which Naupegos determines.
var openSSHFlags = []struct{ letter, name, value, usage string }{
	{"L", "local-forward", "[BIND:]PORT:HOST:PORT", "ssh: forward a port of this host to HOST:PORT, as the machine reaches it (repeatable)"},
	{"R", "remote-forward", "[BIND:]PORT:HOST:PORT", "ssh: forward a port of the machine to HOST:PORT, as this host reaches it (repeatable)"},
	{"D", "dynamic-forward", "[BIND:]PORT", "ssh: serve a SOCKS proxy on this host's PORT (repeatable)"},
	{"W", "stdio-forward", "HOST:PORT", "ssh: connect standard input and output with HOST:PORT"},
	{"N", "no-command", "", "ssh: run no command, only forward ports"},
	{"t", "tty", "", "ssh: give the command a terminal; twice, also if there is none here"},
	{"T", "no-tty", "", "ssh: give no terminal"},
	{"n", "no-stdin", "", "ssh: read nothing from standard input"},
	{"f", "background", "", "ssh: go to the background once connected"},
	{"A", "forward-agent", "", "ssh: let the machine use your ssh-agent"},
	{"a", "no-forward-agent", "", "ssh: do not let the machine use your ssh-agent"},
	{"X", "forward-x11", "", "ssh: forward X11"},
	{"C", "compress", "", "ssh: compress the connection"},
	{"4", "ipv4", "", "ssh: use IPv4 only"},
	{"6", "ipv6", "", "ssh: use IPv6 only"},
	{"q", "quiet", "", "ssh: show no warnings"},
	{"v", "verbose", "", "ssh: say what ssh does (up to three times)"},
	{"o", "ssh-option", "OPTION=VALUE", "ssh: option as in ssh_config (repeatable)"},
}

// bind adds the flags of OpenSSH to a verb.
func (p *passed) bind(f *pflag.FlagSet) {
	for _, o := range openSSHFlags {
		flag := f.VarPF(&one{p, "-" + o.letter, o.value}, o.name, o.letter, o.usage)
		if o.value == "" {
			flag.NoOptDefVal = "true"
		}
	}
}

// one is the value of one OpenSSH flag; it adds the flag to those passed on.
type one struct {
	to            *passed
	letter, value string
}

// String implements pflag.Value.
func (o *one) String() string { return "" }

// Type implements pflag.Value; the help shows it.
func (o *one) Type() string { return cmp.Or(o.value, "bool") }

// Set implements pflag.Value.
func (o *one) Set(value string) error {
	*o.to = append(*o.to, o.letter)
	if o.value != "" {
		*o.to = append(*o.to, value)
	}
	return nil
}
