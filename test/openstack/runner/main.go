// Command runner boots real machines on this host for the servers of the test bed's Nova until it is interrupted. Then it removes everything that
// it created. See the package runner below.
//
//	go run ./test/openstack/runner [flags]      (root)
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/naupegos/naupegos/internal/provider/local"
	"github.com/naupegos/naupegos/test/openstack/runner/runner"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "runner:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 2 && args[0] == local.SupervisorCommand { // this program is also the machines' supervisor
		return local.Supervise(context.Background(), args[1])
	}
	opts, stopWithin, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	r, err := runner.Start(ctx, opts)
	if err != nil {
		return err
	}
	<-ctx.Done()
	cancel() // a second signal ends this program at once; the next runner cleans up
	opts.Log.Info("stopping; removing what was made")
	stop, done := context.WithTimeout(context.Background(), stopWithin)
	defer done()
	return r.Stop(stop)
}

func parse(args []string) (o runner.Options, stopWithin time.Duration, err error) {
	f := flag.NewFlagSet("runner", flag.ContinueOnError)
	f.StringVar(&o.State, "state", "", "the bed's state directory (default $NAUPEGOS_OPENSTACK_ROOT or /var/lib/naupegos/openstack)")
	f.StringVar(&o.CloudsYAML, "clouds", "", "clouds.yaml (default in the state directory)")
	f.StringVar(&o.Cloud, "cloud", "", "cloud with an administrator's rights (default naupegos-admin)")
	f.StringVar(&o.MetadataURL, "metadata", "", "nova-api-metadata (default http://192.0.2.10:8775)")
	f.StringVar(&o.Machines.AgentBinary, "agent", "", "naupegos-agent to put into images that carry a bundle")
	f.StringVar(&o.Machines.Root, "root", "", "where machines lie (default /var/lib/naupegos/local)")
	f.StringVar(&o.Machines.ImageRoot, "images", "", "where prepared images lie (default /var/lib/naupegos/images)")
	f.StringVar(&o.Machines.Cache, "cache", "", "where base images lie (default the user's cache directory)")
	f.StringVar(&o.Bundles, "bundles", "", "the bundle library (default the user's)")
	f.IntVar(&o.Parallel, "parallel", 0, "machines that boot at the same time (default 8)")
	f.Func("network", "serve only this Neutron network (name, beginning of names as in demo-*, or ID); may be given again", func(s string) error {
		o.Networks = append(o.Networks, s)
		return nil
	})
	f.DurationVar(&stopWithin, "stop-within", 5*time.Minute, "time for removing everything at the end")
	verbose := f.Bool("v", false, "log what steps have to say, too")
	if err := f.Parse(args); err != nil {
		return o, 0, err
	}
	if f.NArg() > 0 {
		return o, 0, fmt.Errorf("unknown argument %q", f.Arg(0))
	}
	level := slog.LevelInfo
	if *verbose {
		level = slog.LevelDebug
	}
	o.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	return o, stopWithin, nil
}
