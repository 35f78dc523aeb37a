// Command openstack measures, side by side in one run, how long naupegos and OpenTofu with its OpenStack provider take for a cluster's
// infrastructure in a real OpenStack, and how many API calls they make: to create it, to find nothing to change, and to destroy it.
//
// Both sides create the same objects, which the bench compares in the cloud's own listing. Both use the same counting proxy and a project without
// limits that this command creates and removes. Servers never boot (Nova's fake hypervisor): the bench measures the tools and the cloud's API. It
// prints `create ratio: X`, `no-change ratio: X` and `destroy ratio: X`: the time of naupegos divided by that of OpenTofu; and `floor ratio: X`:
// its time to create divided by that of the services alone.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Values of -only.
const (
	onlyNaupegos = "naupegos"
	onlyTofu     = "tofu"
)

// options are the flags.
type options struct {
	size
	few, looks            int
	parallelism           []int
	ownVolumes, onlyBuild bool
	verbose               bool
	adminFile, adminCloud string
	limit                 time.Duration
	tofu, provider, only  string
}

func main() {
	o := options{parallelism: []int{10, 32}}
	flag.IntVar(&o.controlPlanes, "control-planes", 3, "control-plane machines")
	flag.IntVar(&o.workers, "workers", 50, "workers")
	flag.IntVar(&o.few, "few", 10, "workers of a first run of naupegos, which reports whether a no-change run's API calls depend on them; 0: no such run")
	flag.IntVar(&o.looks, "looks", 5, "how often each side looks whether there is something to do; the median counts, for one look of a second says little")
	flag.Func("parallelism", "of OpenTofu, one run each; the best counts (default 10,32)", func(s string) (err error) {
		o.parallelism, err = numbers(s)
		return err
	})
	flag.StringVar(&o.flavor, "flavor", "m1.small", "flavor of the machines")
	flag.StringVar(&o.image, "image", "debian-12", "image of the machines")
	flag.IntVar(&o.volume, "volume", 2, "GiB of each root volume; 0: root disks of the hypervisors, as of documents that do not ask for volumes")
	flag.StringVar(&o.external, "external-network", "public", "network that floating IPs are from")
	flag.BoolVar(&o.ownVolumes, "own-volumes", true, "OpenTofu makes the root volumes as resources of their own, with name and metadata as naupegos' have; false: Nova makes them, without")
	flag.StringVar(&o.adminFile, "clouds", "/var/lib/naupegos/openstack/clouds.yaml", "clouds.yaml with the administrator's credentials")
	flag.StringVar(&o.adminCloud, "admin-cloud", "naupegos-admin", "its cloud that may make projects")
	flag.DurationVar(&o.limit, "limit", 30*time.Minute, "longest time for one phase")
	flag.StringVar(&o.only, "only", "", "one side only: naupegos (and the services alone, for the floor ratio), or tofu (without rules in the security groups)")
	flag.BoolVar(&o.onlyBuild, "build", false, "only build OpenTofu and its provider, into the cache")
	flag.BoolVar(&o.verbose, "v", false, "also print which API calls there were, and when naupegos' steps ran")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench-openstack:", err)
		os.Exit(1)
	}
}

func numbers(s string) ([]int, error) {
	var out []int
	for _, f := range strings.Split(s, ",") {
		n, err := strconv.Atoi(f)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is not a positive number", f)
		}
		out = append(out, n)
	}
	return out, nil
}

func run(ctx context.Context, o options) (err error) {
	if o.only != onlyNaupegos || o.onlyBuild {
		if o.tofu, err = openTofu.ensure(ctx); err != nil {
			return err
		}
		if o.provider, err = openStackProvider.ensure(ctx); err != nil || o.onlyBuild {
			return err
		}
	}
	dir, err := os.MkdirTemp("", "naupegos-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) // a leftover in the temporary directory does no harm
	p, err := newProject(ctx, o.adminFile, o.adminCloud, dir)
	if err != nil {
		return err
	}
	defer func() {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, p.close(late))
	}()
	look, err := login(ctx, p.auth)
	if err != nil {
		return err
	}
	counter, err := newCounter()
	if err != nil {
		return err
	}
	defer counter.Close() //nolint:errcheck // an error loses nothing
	if err := os.Setenv("OS_CLIENT_CONFIG_FILE", p.file); err != nil {
		return err
	}
	through, err := login(ctx, p.auth)
	if err != nil {
		return err
	}
	if err := through.by(counter.url); err != nil {
		return err
	}
	b := &bench{look: look, through: through, counter: counter, out: os.Stdout, limit: o.limit, looks: o.looks, verbose: o.verbose}
	return b.sides(ctx, o, p.file, dir)
}

// sides measures all sides and prints the results.
func (b *bench) sides(ctx context.Context, o options, clouds, dir string) error {
	var results []result
	few := phase{}
	if o.few > 0 && o.few < o.workers && o.only != onlyTofu { // this also warms up the cloud, for all sides alike
		small := o.size
		small.workers = o.few
		fmt.Fprintf(b.out, "%d control-plane machines, %d workers:\n", small.controlPlanes, small.workers)
		r, err := b.measure(ctx, naupegos{small, b.counter.url, b.times()})
		if err != nil {
			return err
		}
		few = r.nothing
	}
	fmt.Fprintf(b.out, "%d control-plane machines, %d workers:\n", o.controlPlanes, o.workers)
	var n, least result
	if o.only != onlyTofu {
		var err error
		if least, err = b.measure(ctx, &bare{size: o.size, in: b.through}); err != nil {
			return err
		}
	}
	if o.only != onlyTofu {
		var err error
		if n, err = b.measure(ctx, naupegos{o.size, b.counter.url, b.times()}); err != nil {
			return err
		}
	}
	if o.only != onlyNaupegos {
		var err error
		if results, err = b.tofus(ctx, o, n, clouds, dir); err != nil {
			return err
		}
	}
	if o.only == onlyNaupegos {
		floorRatio(b.out, n, least)
	}
	if o.only != "" {
		return nil
	}
	fmt.Fprintf(b.out, "\nmade: %s\n\n", n.made.describe().kinds())
	if err := table(b.out, slices.Concat([]result{n}, results, []result{least})); err != nil {
		return err
	}
	if few.calls > 0 {
		fmt.Fprintf(b.out, "\nAPI calls of naupegos' no-change run: %d with %d workers, %d with %d workers\n", few.calls, o.few, n.nothing.calls, o.workers)
	}
	ratios(b.out, n, least, results)
	return nil
}

// tofus runs OpenTofu with each parallelism, and compares its objects with naupegos' objects.
func (b *bench) tofus(ctx context.Context, o options, n result, clouds, dir string) ([]result, error) {
	var results []result
	for _, parallelism := range o.parallelism {
		place := filepath.Join(dir, "tofu-"+strconv.Itoa(parallelism))
		if err := os.Mkdir(place, 0o700); err != nil {
			return nil, err
		}
		t, err := newTofu(ctx, place, o.tofu, o.provider, o.size, n.made.rules(), o.ownVolumes)
		if err != nil {
			return nil, err
		}
		t.parallelism, t.proxy, t.clouds = parallelism, b.counter.url, clouds
		r, err := b.measure(ctx, t)
		if err != nil {
			return nil, err
		}
		if err := same(n, r); err != nil && o.only == "" {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}

// times returns the writer for the times of naupegos' steps.
func (b *bench) times() io.Writer {
	if b.verbose {
		return b.out
	}
	return nil
}
