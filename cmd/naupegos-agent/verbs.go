package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/agent"
	"github.com/naupegos/naupegos/internal/agent/approver"
	"github.com/naupegos/naupegos/internal/agent/gatewaycheck"
	"github.com/naupegos/naupegos/internal/agent/host"
	"github.com/naupegos/naupegos/internal/agent/turns"
	"github.com/naupegos/naupegos/internal/agent/vrrp"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
)

const help = `naupegos-agent makes the machine it runs on match a configuration. It is started by naupegos over SSH.

  naupegos-agent apply [--dry-run]        write what this machine is (JSON, one line), read a configuration for it (JSON) from standard input, make the
                                          machine match it, write a report (JSON); with --dry-run only say what would change
  naupegos-agent facts                    what this machine is (JSON)
  naupegos-agent status                   what was applied last, and since when the machine and its units run (JSON)
  naupegos-agent blob has DIGEST          exit 0 where the blob sha256:… is here, 9 where it is not
  naupegos-agent blob put DIGEST [--size N]
                                          receive a blob on standard input, check it, keep it
  naupegos-agent reset [--keep-blobs] [--keep-etcd] [--keep PATH]…
                                          undo everything: containers, mounts, networks, files, units
  naupegos-agent release [--keep-agent]   leave everything as it is and forget it: programs become files, the agent's state goes, and,
                                          without --keep-agent, all agents
  naupegos-agent adopt CLUSTER            note that this host, which kubeadm has made a node of, is a machine of the cluster with this ID
  naupegos-agent gateway-check --url URL [--timeout 1s]
                                          exit 0 where URL answers 200
  naupegos-agent gateway-relay ADDRESS ADDRESS…
                                          pass the VRRP adverts of each gateway on to all others; runs until it is stopped
  naupegos-agent settled [--patience 30s] PROGRAM=FILE…
                                          exit 0 if every PROGRAM, which another program starts from FILE, has begun since FILE was
                                          written, or FILE is older than that; 5 where not
  naupegos-agent pause [--for 2s] PROGRAM stop PROGRAM as it is, print "paused", and let it go on where standard input ends, or after that time
  naupegos-agent credentials              what pods on this machine are given: which keys have signed their tokens, which authorities
                                          they know the API by (JSON)
  naupegos-agent admit [--for 24h] TABLE SET ADDRESS…
                                          add addresses to a set of an nftables table of family inet, where there is that table
  naupegos-agent logs REQUEST             write the lines of the journal and of containers' logs that REQUEST (JSON) selects, one JSON object each
  naupegos-agent updates [--reboot-only] [--hold PACKAGE]…
                                          fetch the lists of packages; which ones could be newer, and why a reboot is needed (JSON)
  naupegos-agent update                   read such an answer from standard input, bring its packages to those versions, write what is left
  naupegos-agent approver --kubeconfig FILE --machines FILE
                                          approve kubelets' serving certificates whose names and addresses are the
                                          machine's own; runs until it is stopped
  naupegos-agent images --listen ADDRESS --index FILE --blobs DIR… --cert FILE --key FILE --ca FILE --group NAME…
                                          serve the container images of an index to clients whose certificate has one of the groups; runs
                                          until it is stopped
  naupegos-agent registries               read registries and mirrors (JSON) from standard input, try each, write those that can't be used (JSON)
  naupegos-agent discover [--server URL] [--authority FILE] [--key FILE] [--mac ADDRESS] [--lldp 35s] [--for 1h] [--set-clock]
                                          look what this machine is, say so to a server of Naupegos, signed by a key that is made here, and
                                          wait until an operator approves the machine; prints its certificate (JSON). Without --server only
                                          print what the machine is
  naupegos-agent keep [--dir DIR] [--every 1m]
                                          on a machine that naupegos has installed: report what is installed, confirm a system that runs
                                          for the first time, take updates; a unit of installed machines starts this
  naupegos-agent backup --settings FILE   see to it that there is a backup of the schedule's last time: make it, or wait until another machine
                                          has; a timer starts this on control-plane machines
  naupegos-agent version [--sha256]       version, or the digest of this very binary

Errors are one line of JSON on standard error: {"kind","what","where","hint"}. Exit status: 1 internal error, 3 invalid input,
4 refused, 5 not ready, 6 conflict, 7 unreachable, 8 unauthorized, 9 not found, 130 interrupted.
`

var errHelp = errors.New("help was asked for")

// dispatch runs the verb that args name.
func (c *command) dispatch(ctx context.Context, args []string) error {
	if len(args) == 0 {
		args = []string{"help"}
	}
	verbs := map[string]func(context.Context, []string) error{
		"apply": c.apply, "facts": c.facts, "status": c.status, "blob": c.blob, "reset": c.reset, "release": c.release, "adopt": c.adopt,
		"gateway-check": c.gatewayCheck, "gateway-relay": c.gatewayRelay, "logs": c.logs, "settled": c.settled, "pause": c.pause, "admit": c.admit, "credentials": c.credentials, "approver": c.approver,
		"updates": c.updates, "update": c.update, "images": c.serveImages, "registries": c.checkRegistries,
		"discover": c.discover, "keep": c.keep, "backup": c.backup, "version": c.version,
		"help": c.help, "--help": c.help, "-h": c.help,
	}
	verb, ok := verbs[args[0]]
	if !ok {
		return fail.New(fail.Invalid, "there is no verb %q", args[0]).Do("`naupegos-agent help` lists them")
	}
	return verb(ctx, args[1:])
}

// parse reads flags before or after the given number of words. A negative number allows any number of words.
func (c *command) parse(f *flag.FlagSet, args []string, words int) ([]string, error) {
	f.SetOutput(io.Discard)
	var rest []string
	for {
		if err := f.Parse(args); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				_, _ = io.WriteString(c.out, help)
				return nil, errHelp
			}
			return nil, fail.Wrap(fail.Invalid, err, "read the flags of %s", f.Name()).Do("`naupegos-agent help` lists them")
		}
		if f.NArg() == 0 {
			break
		}
		rest, args = append(rest, f.Arg(0)), f.Args()[1:]
	}
	if words >= 0 && len(rest) != words {
		return nil, fail.New(fail.Invalid, "%s takes %d arguments, not %d", f.Name(), words, len(rest)).Do("`naupegos-agent help` lists them")
	}
	return rest, nil
}

func (c *command) help(context.Context, []string) error {
	_, err := io.WriteString(c.out, help)
	return err
}

func (c *command) apply(ctx context.Context, args []string) error {
	ctx, cancel := c.untilHangup(ctx)
	defer cancel()
	debug.SetGCPercent(400) // it ends before it has made much garbage
	f := flag.NewFlagSet("apply", flag.ContinueOnError)
	dry := f.Bool("dry-run", false, "")
	if _, err := c.parse(f, args, 0); err != nil {
		return err
	}
	facts, err := c.agent.Facts(ctx)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(c.out).Encode(facts); err != nil {
		return fail.Wrap(fail.Internal, err, "write what this machine is")
	}
	var cfg machine.Config
	dec := json.NewDecoder(c.in)
	dec.DisallowUnknownFields()
	switch err := dec.Decode(&cfg); {
	case err == nil:
	case ctx.Err() != nil:
		return fail.Wrap(fail.Interrupted, ctx.Err(), "read the configuration")
	case errors.Is(err, io.EOF): // the caller has none for such a machine
		return nil
	default:
		return fail.Wrap(fail.Invalid, err, "read the configuration from standard input")
	}
	report, err := c.agent.Apply(ctx, cfg, *dry)
	if err != nil {
		return err
	}
	if !*dry && len(report.Missing) == 0 {
		if err := c.removeOldAgents(); err != nil {
			report.Warnings = append(report.Warnings, err.Error())
		}
	}
	return c.answer(report)
}

// removeOldAgents removes other agents. It runs after this agent has succeeded, which shows that this agent works.
func (c *command) removeOldAgents() error {
	self, err := os.Executable()
	if err != nil {
		return fail.Wrap(fail.Internal, err, "find this program")
	}
	return host.Root("/").RemoveOldAgents(self)
}

func (c *command) facts(ctx context.Context, args []string) error {
	if _, err := c.parse(flag.NewFlagSet("facts", flag.ContinueOnError), args, 0); err != nil {
		return err
	}
	facts, err := c.agent.Facts(ctx)
	if err != nil {
		return err
	}
	return c.answer(facts)
}

func (c *command) credentials(_ context.Context, args []string) error {
	if _, err := c.parse(flag.NewFlagSet("credentials", flag.ContinueOnError), args, 0); err != nil {
		return err
	}
	list, err := c.agent.Credentials()
	if err != nil {
		return err
	}
	return c.answer(list)
}

func (c *command) updates(ctx context.Context, args []string) error {
	ctx, cancel := c.untilHangup(ctx)
	defer cancel()
	f := flag.NewFlagSet("updates", flag.ContinueOnError)
	var hold []string
	reboot := f.Bool("reboot-only", false, "")
	f.Func("hold", "", func(name string) error { hold = append(hold, name); return nil })
	if _, err := c.parse(f, args, 0); err != nil {
		return err
	}
	if *reboot {
		return c.answer(c.agent.RebootReasons())
	}
	u, err := c.agent.Updates(ctx, hold)
	if err != nil {
		return err
	}
	return c.answer(u)
}

func (c *command) update(ctx context.Context, args []string) error {
	ctx, cancel := c.untilHangup(ctx)
	defer cancel()
	if _, err := c.parse(flag.NewFlagSet("update", flag.ContinueOnError), args, 0); err != nil {
		return err
	}
	var want machine.Updates
	if err := json.NewDecoder(c.in).Decode(&want); err != nil {
		return fail.Wrap(fail.Invalid, err, "read from standard input which packages are wanted")
	}
	u, err := c.agent.Update(ctx, want)
	if err != nil {
		return err
	}
	return c.answer(u)
}

func (c *command) status(ctx context.Context, args []string) error {
	if _, err := c.parse(flag.NewFlagSet("status", flag.ContinueOnError), args, 0); err != nil {
		return err
	}
	status, err := c.agent.Status(ctx)
	if err != nil {
		return err
	}
	return c.answer(status)
}

func (c *command) blob(ctx context.Context, args []string) error {
	ctx, cancel := c.untilHangup(ctx)
	defer cancel()
	f := flag.NewFlagSet("blob", flag.ContinueOnError)
	size := f.Int64("size", 0, "")
	words, err := c.parse(f, args, 2)
	if err != nil {
		return err
	}
	switch words[0] {
	case "has":
		has, err := c.agent.HasBlob(words[1], *size)
		if err == nil && !has {
			err = fail.New(fail.NotFound, "blob %s is not here", words[1])
		}
		return err
	case "put":
		return c.agent.PutBlob(ctx, words[1], *size, c.in)
	}
	return fail.New(fail.Invalid, "there is no verb blob %q", words[0]).Do("it is `blob has` or `blob put`")
}

func (c *command) reset(ctx context.Context, args []string) error {
	ctx, cancel := c.untilHangup(ctx)
	defer cancel()
	f := flag.NewFlagSet("reset", flag.ContinueOnError)
	var o agent.ResetOptions
	f.BoolVar(&o.KeepBlobs, "keep-blobs", false, "")
	f.BoolVar(&o.KeepEtcd, "keep-etcd", false, "")
	f.Func("keep", "", func(path string) error { o.Keep = append(o.Keep, path); return nil })
	if _, err := c.parse(f, args, 0); err != nil {
		return err
	}
	changes, err := c.agent.Reset(ctx, o)
	if err != nil {
		return err
	}
	return c.answer(machine.Report{Changes: changes})
}

func (c *command) gatewayCheck(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("gateway-check", flag.ContinueOnError)
	url := f.String("url", "http://127.0.0.1:8404/healthz", "")
	timeout := f.Duration("timeout", time.Second, "")
	if _, err := c.parse(f, args, 0); err != nil {
		return err
	}
	return gatewaycheck.Ask(ctx, *url, *timeout)
}

func (c *command) gatewayRelay(ctx context.Context, args []string) error {
	words, err := c.parse(flag.NewFlagSet("gateway-relay", flag.ContinueOnError), args, -1)
	if err != nil {
		return err
	}
	var gateways []netip.Addr
	for _, w := range words {
		a, err := netip.ParseAddr(w)
		if err != nil {
			return fail.Wrap(fail.Invalid, err, "address %q of a gateway", w)
		}
		gateways = append(gateways, a)
	}
	return vrrp.Relay(ctx, gateways, c.err)
}

func (c *command) settled(_ context.Context, args []string) error {
	f := flag.NewFlagSet("settled", flag.ContinueOnError)
	patience := f.Duration("patience", agent.Patience, "")
	words, err := c.parse(f, args, -1)
	if err != nil {
		return err
	}
	programs := map[string]string{}
	for _, w := range words {
		program, file, ok := strings.Cut(w, "=")
		if !ok {
			return fail.New(fail.Invalid, "settled takes PROGRAM=FILE, not %q", w)
		}
		programs[program] = file
	}
	return c.agent.Settled(programs, *patience)
}

func (c *command) pause(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("pause", flag.ContinueOnError)
	longest := f.Duration("for", 2*time.Second, "")
	words, err := c.parse(f, args, 1)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func(in io.Reader) {
		_, _ = io.Copy(io.Discard, in) // any error ends the wait, too
		cancel()
	}(c.in)
	return host.Root("/").Pause(ctx, words[0], *longest, func() error { return c.println("paused") })
}

func (c *command) admit(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("admit", flag.ContinueOnError)
	long := f.Duration("for", 24*time.Hour, "")
	words, err := c.parse(f, args, -1)
	if err != nil {
		return err
	}
	if len(words) < 3 {
		return fail.New(fail.Invalid, "admit takes TABLE SET ADDRESS…")
	}
	return c.agent.Admit(ctx, words[0], words[1], *long, words[2:])
}

func (c *command) approver(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("approver", flag.ContinueOnError)
	kubeconfig, machines := f.String("kubeconfig", "", ""), f.String("machines", "", "")
	if _, err := c.parse(f, args, 0); err != nil {
		return err
	}
	if *kubeconfig == "" || *machines == "" {
		return fail.New(fail.Invalid, "approver needs --kubeconfig and --machines")
	}
	log := slog.New(slog.NewTextHandler(c.err, nil))
	return approver.Run(ctx, approver.Options{Kubeconfig: *kubeconfig, Machines: *machines, Log: log})
}

func (c *command) backup(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("backup", flag.ContinueOnError)
	settings := f.String("settings", "", "")
	if _, err := c.parse(f, args, 0); err != nil {
		return err
	}
	if *settings == "" {
		return fail.New(fail.Invalid, "backup needs --settings")
	}
	return turns.Run(ctx, turns.Options{Settings: *settings, Log: slog.New(slog.NewTextHandler(c.err, nil))})
}

func (c *command) version(_ context.Context, args []string) error {
	f := flag.NewFlagSet("version", flag.ContinueOnError)
	digest := f.Bool("sha256", false, "")
	if _, err := c.parse(f, args, 0); err != nil {
		return err
	}
	if !*digest {
		version := "(unknown)"
		if info, ok := debug.ReadBuildInfo(); ok {
			version = info.Main.Version
		}
		return c.println("naupegos-agent", version, runtime.Version())
	}
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return fail.Wrap(fail.Internal, err, "read this binary")
	}
	defer func() { _ = self.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, self); err != nil {
		return fail.Wrap(fail.Internal, err, "read this binary")
	}
	return c.println(hex.EncodeToString(sum.Sum(nil)))
}

func (c *command) release(ctx context.Context, args []string) error {
	ctx, cancel := c.untilHangup(ctx)
	defer cancel()
	f := flag.NewFlagSet("release", flag.ContinueOnError)
	var o agent.ReleaseOptions
	f.BoolVar(&o.KeepAgent, "keep-agent", false, "")
	if _, err := c.parse(f, args, 0); err != nil {
		return err
	}
	changes, err := c.agent.Release(ctx, o)
	if err != nil {
		return err
	}
	return c.answer(machine.Report{Changes: changes})
}

func (c *command) adopt(ctx context.Context, args []string) error {
	ctx, cancel := c.untilHangup(ctx)
	defer cancel()
	words, err := c.parse(flag.NewFlagSet("adopt", flag.ContinueOnError), args, 1)
	if err != nil {
		return err
	}
	return c.agent.Adopt(ctx, words[0])
}
