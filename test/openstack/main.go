// Command openstack starts and stops the OpenStack test bed: a real OpenStack on this machine, from Debian's packages.
//
// usage: go run ./test/openstack up | machines | run COMMAND... | status | down [--purge]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/test/openstack/bed"
)

const usage = `usage: openstack VERB [flags]
  up      start all services (root); ready when it returns
  machines  have the fake hypervisor's servers run as real machines of this host, from the clone's root
  run COMMAND [ARGUMENT]...  run a command while all services run, and leave them as they were before (root)
  status  tell what runs and what it weighs
  down    stop all services; with --purge forget their state too
`

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "openstack:", err)
		os.Exit(fail.KindOf(err).ExitCode())
	}
}

func run(ctx context.Context, args []string) error {
	o := bed.Options{Log: os.Stdout}
	flags := flag.NewFlagSet("openstack", flag.ContinueOnError)
	flags.Usage = func() { fmt.Fprint(flags.Output(), usage); flags.PrintDefaults() }
	flags.StringVar(&o.Root, "root", "", "state directory (default $"+bed.RootVariable+", else "+bed.DefaultRoot+")")
	flags.StringVar(&o.Address, "address", "", "where all API services answer (default $"+bed.AddressVariable+", else "+bed.DefaultAddress+")")
	flags.DurationVar(&o.Timeout, "timeout", 0, "how long up may take (default 15m)")
	release := flags.String("kubernetes", release.Default, "machines: release whose bundle with the addons of OpenStack lies in them")
	purge := flags.Bool("purge", false, "down: remove the state directory too")
	if len(args) == 0 {
		flags.Usage()
		return fail.New(fail.Invalid, "a verb is needed")
	}
	if err := flags.Parse(args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return fail.Wrap(fail.Invalid, err, "read the flags")
	}
	switch args[0] {
	case "up":
		b, err := bed.Up(ctx, o)
		if err != nil {
			return err
		}
		fmt.Printf("ready: OS_CLIENT_CONFIG_FILE=%s OS_CLOUD=%s (or %s)\n", b.CloudsYAML(), bed.Cloud, bed.AdminCloud)
		return nil
	case "machines":
		return machines(ctx, o, *release)
	case "down":
		return bed.Down(ctx, o, *purge)
	case "run":
		return runOn(ctx, o, flags.Args())
	case "status":
		return bed.Status(o, os.Stdout)
	default:
		return fail.New(fail.Invalid, "unknown verb %q; there are up, machines, run, status and down", args[0])
	}
}

// machines starts the runner for a running bed.
func machines(ctx context.Context, o bed.Options, release string) error {
	b, err := bed.Open(o)
	if err != nil {
		return err
	}
	root, err := bundle.DefaultRoot()
	if err != nil {
		return err
	}
	library, err := bundle.OpenLibrary(root)
	if err != nil {
		return err
	}
	found, err := library.Find(ctx, release, bundle.AddonOpenStack)
	if err != nil {
		return err
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	if err := b.Machines(ctx, dir, filepath.Join(dir, "bin", "naupegos-agent"), found.ID); err != nil {
		return err
	}
	fmt.Printf("servers of image %s become machines with bundle %s\n", bed.MachineImage, found.ID)
	return nil
}
