package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/fail"
)

// Runner follows one cloud until Stop.
type Runner struct {
	opts  Options
	log   *slog.Logger
	cloud *cloud
	meta  *metadata
	lib   *bundle.Library
	state *state
	lock  *os.File
	proxy *haproxy

	cancel context.CancelFunc
	done   sync.WaitGroup
	boots  chan struct{} // one token for each booting machine

	// used only by the loop
	nets     map[string]*network   // by Neutron's ID
	ignored  map[string]bool       // networks whose servers stay fake
	seen     map[string]lastSeen   // running servers, by ID
	external []subnet              // the networks of floating IPs
	skipped  map[netip.Prefix]bool // external networks that were skipped and logged
	rules    string                // the packet filter's rules as applied
	balance  reading
	troubles map[string]string

	mu       sync.Mutex
	where    map[string]place  // of servers; zero if a server has no address
	known    map[string]server // by ID
	tasks    map[string]*task  // running tasks, by server ID
	retries  map[string]retry
	consoles map[string]console // of machines, by server ID
}

// Start starts to follow the cloud; ctx applies only to the start. It removes or takes over what a killed runner left. Errors: fail.Conflict if
// another runner serves the bed, fail.Unreachable if the cloud does not answer, fail.Refused without root.
func Start(ctx context.Context, opts Options) (*Runner, error) {
	if err := opts.setDefaults(); err != nil {
		return nil, err
	}
	if os.Geteuid() != 0 {
		return nil, fail.New(fail.Refused, "making machines needs root").Do("run it with sudo")
	}
	lock, err := takeLock(opts.lockFile())
	if err != nil {
		return nil, err
	}
	r := &Runner{
		opts: opts, log: opts.Log, lock: lock, boots: make(chan struct{}, opts.Parallel),
		nets: map[string]*network{}, ignored: map[string]bool{}, troubles: map[string]string{}, seen: map[string]lastSeen{}, skipped: map[netip.Prefix]bool{},
		where: map[string]place{}, known: map[string]server{}, tasks: map[string]*task{}, retries: map[string]retry{},
		consoles: map[string]console{},
	}
	if err := r.begin(ctx); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	r.log.Info("following the cloud", "cloud", opts.Cloud, "only networks", opts.Networks, "taken over", len(r.nets))
	loop, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	r.done.Go(func() { r.loop(loop) })
	r.done.Go(func() { r.followConsoles(loop) })
	return r, nil
}

// begin connects to the cloud and cleans up after an earlier runner. It takes over the machines; the first round removes those whose servers no
// longer exist.
func (r *Runner) begin(ctx context.Context) (err error) {
	o := r.opts
	if err := os.MkdirAll(o.Consoles, 0o755); err != nil {
		return err
	}
	if r.state, err = readState(o.stateFile()); err != nil {
		return err
	}
	if r.cloud, err = connect(ctx, o); err != nil {
		return err
	}
	if r.meta, err = newMetadata(o.MetadataURL, o.MetadataSecret); err != nil {
		return err
	}
	if r.lib, err = bundle.OpenLibrary(o.Bundles); err != nil {
		return err
	}
	r.proxy = &haproxy{dir: o.dir(), note: func(p process) error { return r.state.change(func() { r.state.HAProxy = p }) }}
	if err := r.sweepProxy(); err != nil { // the rules stay until the first round replaces them atomically
		return err
	}
	for _, sub := range r.state.Networks {
		n, err := newNetwork(o, sub, r.meta, r.whoIn(sub.Network))
		if err != nil {
			return err
		}
		r.nets[sub.Network] = n
	}
	return pruneConsoles(o.Consoles, 24*time.Hour)
}

// sweepProxy ends a HAProxy process that outlived its runner.
func (r *Runner) sweepProxy() error {
	if err := r.state.HAProxy.end(); err != nil {
		return err
	}
	return r.state.change(func() { r.state.HAProxy = process{} })
}

// Stop removes everything from this host: machines, networks, addresses, rules, HAProxy. Only the console logs stay, as evidence. Stop can be
// called again after a failure.
func (r *Runner) Stop(ctx context.Context) error {
	r.cancel()
	r.done.Wait()
	errs := []error{r.proxy.stop(), r.sweepProxy(), r.sweepFilter(ctx)}
	for id, n := range r.nets {
		if err := n.remove(ctx); err != nil {
			errs = append(errs, err)
			continue
		}
		delete(r.nets, id)
		errs = append(errs, r.forget(id))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("stop the runner: %w", err)
	}
	if err := os.Remove(r.opts.stateFile()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	r.log.Info("stopped; nothing is left")
	return r.lock.Close()
}

// loop runs one round after another. After a long round it pauses for the same time, because the cloud shares this host's processors.
func (r *Runner) loop(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		if err := r.look(ctx); ctx.Err() == nil {
			r.trouble("the cloud", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(max(r.opts.Pace-time.Since(began), time.Since(began), r.opts.Pace/4)):
		}
	}
}

// look runs one round: it reads the cloud's state and applies it.
func (r *Runner) look(ctx context.Context) error {
	list, err := r.cloud.servers(ctx)
	if err != nil {
		return err
	}
	if err := r.locate(ctx, list); err != nil {
		return err
	}
	if err := r.settle(ctx, list); err != nil {
		return err
	}
	balances, floatings := r.carryBalancers(ctx), r.carryFloatings(ctx)
	if ctx.Err() == nil {
		r.trouble("load balancers", balances)
		r.trouble("floating IPs", floatings)
	}
	return nil
}

// trouble logs an error unless it equals the last one logged for the same subject. A nil error logs the recovery.
func (r *Runner) trouble(what string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if was := r.troubles[what]; was == text {
		return
	} else if text == "" {
		r.log.Info("well again: " + what)
	}
	r.troubles[what] = text
	if err != nil && fail.KindOf(err) != fail.Interrupted {
		r.log.Error(what, "error", err)
	}
}

// whoIn returns a function that finds the server with an address on a network.
func (r *Runner) whoIn(network string) func(netip.Addr) (server, bool) {
	return func(a netip.Addr) (server, bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for id, p := range r.where {
			if p.Network == network && p.Address == a {
				s, known := r.known[id]
				return s, known
			}
		}
		return server{}, false
	}
}
