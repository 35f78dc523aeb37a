// Package boot runs as the first process of a machine that has booted the discovery image: it mounts the kernel's file systems, loads modules, brings
// up the network, sets the clock, reports the machine to the server, waits until an operator approves it, and hands over to the installer.
//
// It does not know how to install a machine. Every outcome ends with a reboot, because no operator sits at the machine.
package boot

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/naupegos/naupegos/internal/agent/discover"
	"github.com/naupegos/naupegos/internal/agent/host"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/facts"
)

// Machine is the input of the installation of an approved machine.
type Machine struct {
	Server      string       // https:// URL
	HTTP        *http.Client // trusts only the server's authority, and presents the machine's certificate
	Authority   []byte       // the certificate of that authority, PEM
	Discovery   *facts.Discovery
	Key         *ecdsa.PrivateKey
	Certificate string          // PEM
	Say         func(string)    // writes to the machine's consoles
	Log         func() []string // all lines that Say has written since the machine booted
}

// End is the machine's next action.
type End int

// The ends.
const (
	Reboot   End = iota
	Kexec        // into the kernel that was loaded
	PowerOff     //
)

// Options are the settings of the boot of an approved machine.
type Options struct {
	Install func(context.Context, Machine) (End, error) // nil: Run asks until the machine may be installed, and does nothing else
	// Key returns the key from one of the machine's disks with which an earlier installation was approved; nil: create a new one.
	Key func([]facts.Disk) *ecdsa.PrivateKey
}

// boot is one boot of a machine.
type boot struct {
	Options
	settings
	root     host.Root
	consoles []console

	mu  sync.Mutex
	log []string
	ca  *x509.Certificate // of the server's authority, once known
}

// Run boots the machine and ends it; it never returns.
func Run(ctx context.Context, o Options) {
	b := &boot{Options: o, root: "/", settings: usual}
	if b.Install == nil {
		b.Install = ask
	}
	end, err := b.run(ctx)
	if err != nil {
		b.say(inWords(err))
		b.say(fmt.Sprintf("the machine reboots in %s", b.retry))
		time.Sleep(b.retry)
		end = Reboot
	}
	b.end(end)
}

// inWords renders an error for a console.
func inWords(err error) string {
	text := "can't go on: " + err.Error()
	if e := (*fail.Error)(nil); errors.As(err, &e) && e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}

// run does everything until the machine ends. It handles a panic like an error, because the kernel panics when its first process ends.
func (b *boot) run(ctx context.Context) (end End, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fail.New(fail.Internal, "the agent failed: %v", p)
		}
	}()
	if err := b.mount(); err != nil {
		return 0, err
	}
	if err := os.Setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"); err != nil { // the kernel gives its first process none, but an installation runs programs
		return 0, fail.Wrap(fail.Internal, err, "set the search path of programs")
	}
	b.openConsoles()
	b.say("naupegos: examining this machine")
	if b.settings, err = parse(b.root.Read("/proc/cmdline")); err != nil {
		return 0, err
	}
	waits, cancel := context.WithTimeoutCause(ctx, b.wait, fail.New(fail.NotReady, "%s are over (naupegos.wait)", b.wait))
	defer cancel()
	m, err := b.discovered(waits)
	if err != nil {
		return 0, err
	}
	b.say("the machine is approved")
	installs, cancel := context.WithTimeoutCause(ctx, b.install, fail.New(fail.NotReady, "%s are over (naupegos.install)", b.install))
	defer cancel()
	return b.Install(installs, *m)
}

// discovered returns once the server knows the machine and an operator has approved it.
func (b *boot) discovered(ctx context.Context) (*Machine, error) {
	b.loadModules()
	if err := b.network(ctx); err != nil {
		return nil, err
	}
	neighbours := make(chan []facts.Neighbour, 1)
	go func() { neighbours <- b.listen(ctx) }()
	if err := b.setClock(ctx); err != nil {
		return nil, err
	}
	d, err := discover.Look(b.root, "")
	if err != nil {
		return nil, err
	}
	for _, i := range d.Interfaces {
		b.say(fmt.Sprintf("interface %s, %s: %s", i.Name, i.MAC, strings.Join(i.Addresses, " ")))
	}
	d.LLDP.Data.Interfaces = <-neighbours
	d.LLDP.IsFile = len(d.LLDP.Data.Interfaces) > 0
	key, err := b.key(d.Disks)
	if err != nil {
		return nil, err
	}
	d.Journal = b.said()
	client, err := b.client(true, nil)
	if err != nil {
		return nil, err
	}
	e, err := discover.Enrol(ctx, d, key, discover.Options{Server: b.server, HTTP: client, Say: b.say, Pause: time.Second, Longest: b.pause})
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode([]byte(e.Certificate))
	if block == nil {
		return nil, fail.New(fail.Internal, "the server gave the machine no certificate")
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "read the machine's certificate")
	}
	own, err := b.client(true, &identity{leaf, key})
	return &Machine{Server: b.server, HTTP: own, Authority: b.believed(), Discovery: d, Key: key, Certificate: e.Certificate, Say: b.say, Log: b.said}, err
}

// key returns the machine's earlier key, or a new one.
func (b *boot) key(disks []facts.Disk) (*ecdsa.PrivateKey, error) {
	if b.Key != nil {
		if key := b.Key(disks); key != nil {
			b.say("the machine has a key from before")
			return key, nil
		}
	}
	return facts.NewKey()
}

// listen collects LLDP neighbours for the configured time.
func (b *boot) listen(ctx context.Context) []facts.Neighbour {
	ctx, cancel := context.WithTimeout(ctx, b.lldp)
	defer cancel()
	found, err := discover.Listen(ctx, b.links())
	if err != nil {
		b.say("not heard of any switch: " + err.Error())
		return []facts.Neighbour{}
	}
	return found
}

// say writes a line to the machine's consoles and remembers it.
func (b *boot) say(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		b.log = append(b.log, line)
		for _, c := range b.consoles {
			_, _ = fmt.Fprintf(c, "%s\r\n", line) // skip a console that can't be written
		}
	}
}

// said returns all lines so far.
func (b *boot) said() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.log)
}
