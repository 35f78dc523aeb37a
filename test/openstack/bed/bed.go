package bed

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/tool"
)

// Bed is a running OpenStack.
type Bed struct {
	o       Options
	secrets secrets
	http    *http.Client
	all     []*Service
	began   time.Time
}

func open(o Options) (*Bed, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	b := &Bed{o: o, began: time.Now(), http: &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: 4, Proxy: nil}, Timeout: 2 * time.Minute,
	}}
	b.all = b.services()
	return b, nil
}

// Up starts all services that do not run yet, with the state of the last run, with cached state or from scratch, and returns when every service
// is ready. If all services run already, Up takes a second or two.
func Up(ctx context.Context, o Options) (*Bed, error) {
	b, err := open(o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, b.o.Timeout)
	defer cancel()
	versions, err := checkPlatform(ctx)
	if err != nil {
		return nil, err
	}
	release, err := b.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := b.up(ctx, versions); err != nil {
		return nil, err
	}
	b.say("all services serve")
	return b, nil
}

func (b *Bed) up(ctx context.Context, versions string) error {
	definition, err := definition(b, versions)
	if err != nil {
		return err
	}
	if content(b, seeded) != definition {
		if err := b.startOver(ctx); err != nil {
			return err
		}
	}
	if b.allRunning() {
		if err := b.loadSecrets(); err != nil {
			return err
		}
		return b.waitAll(ctx)
	}
	if err := b.prepare(ctx, versions); err != nil {
		return err
	}
	if err := b.startAll(ctx); err != nil {
		return err
	}
	b.say("services started")
	if err := seed(ctx, b, definition); err != nil {
		return err
	}
	return b.waitAll(ctx)
}

// startOver stops the services of a bed that has another definition or whose start was interrupted: services read their configuration only when
// they start.
func (b *Bed) startOver(ctx context.Context) error {
	if b.anyRunning() {
		b.say("another bed runs than the one that is wanted: it is stopped, and its state kept")
		if err := b.stop(ctx); err != nil {
			return err
		}
	}
	return unmark(b, seeded)
}

// prepare fills the state directory: address, configuration, databases.
func (b *Bed) prepare(ctx context.Context, versions string) error {
	if err := addAddress(ctx, b); err != nil {
		return err
	}
	if err := b.makeDirs(); err != nil {
		return err
	}
	if err := initialise(ctx, b, versions); err != nil {
		return err
	}
	if err := b.loadSecrets(); err != nil {
		return err
	}
	if err := tlsCertificate(ctx, b); err != nil {
		return err
	}
	if !b.anyRunning() {
		if err := configure(ctx, b); err != nil {
			return err
		}
	}
	return writeClouds(b)
}

// startAll starts every service as soon as its dependencies are ready.
func (b *Bed) startAll(ctx context.Context) error {
	done := map[string]chan struct{}{}
	for _, s := range b.all {
		done[s.Name] = make(chan struct{})
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, s := range b.all {
		g.Go(func() error {
			for _, need := range s.needs {
				select {
				case <-done[need]:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			if err := s.Start(ctx); err != nil {
				return err
			}
			b.say("%s serves", s.Name)
			close(done[s.Name])
			return nil
		})
	}
	return g.Wait()
}

// waitAll returns when every service is ready and every hypervisor accepts servers.
func (b *Bed) waitAll(ctx context.Context) error {
	for _, s := range b.all {
		if err := s.wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (b *Bed) allRunning() bool {
	return !slices.ContainsFunc(b.all, func(s *Service) bool { return !s.Running() }) && content(b, seeded) != ""
}

func (b *Bed) anyRunning() bool {
	return slices.ContainsFunc(b.all, (*Service).Running)
}

// Open returns the bed that runs in the state directory. It fails with fail.NotFound if no service runs, and with fail.NotReady if only some do.
func Open(o Options) (*Bed, error) {
	b, err := open(o)
	if err != nil {
		return nil, err
	}
	var down []string
	for _, s := range b.all {
		if !s.Running() {
			down = append(down, s.Name)
		}
	}
	switch {
	case len(down) == len(b.all):
		return nil, fail.New(fail.NotFound, "no OpenStack test bed runs in %s", b.o.Root).Do("start it: make openstack-up")
	case len(down) > 0:
		return nil, fail.New(fail.NotReady, "services of the OpenStack test bed don't run: %s", strings.Join(down, ", ")).At(b.o.Root).Do("start them: make openstack-up")
	case content(b, seeded) == "":
		return nil, fail.New(fail.NotReady, "the OpenStack test bed is being started").At(b.o.Root).Do("wait for it: make openstack-up")
	}
	return b, b.loadSecrets()
}

// Services lists all services in the order of their start.
func (b *Bed) Services() []*Service { return slices.Clone(b.all) }

// Service returns a service by name, such as "cinder-volume". It panics if the name is unknown, which is a bug in the calling test.
func (b *Bed) Service(name string) *Service {
	for _, s := range b.all {
		if s.Name == name {
			return s
		}
	}
	panic("the OpenStack test bed has no service " + name)
}

// Stop stops all services and removes the address. The state stays for the next Up.
func (b *Bed) Stop(ctx context.Context) error {
	release, err := b.lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	return b.stop(ctx)
}

// stop stops the services in reverse order, so that dependencies stop last.
func (b *Bed) stop(ctx context.Context) error {
	base := []string{"rabbitmq", "memcached", "mariadb", "epmd"}
	ran := b.anyRunning()
	g, gctx := errgroup.WithContext(ctx)
	for _, s := range b.all {
		if !slices.Contains(base, s.Name) {
			g.Go(func() error { return s.Stop(gctx) })
		}
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, name := range base {
		if err := b.Service(name).Stop(ctx); err != nil {
			return err
		}
	}
	if ran {
		b.say("services stopped")
	}
	return dropAddress(ctx, b)
}

// Down stops the bed of the state directory, even a partly started one. With purge it also removes the state.
func Down(ctx context.Context, o Options, purge bool) error {
	b, err := open(o)
	if err != nil {
		return err
	}
	if _, err := os.Stat(b.o.Root); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	release, err := b.lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := b.stopRunner(ctx); err != nil {
		return err
	}
	if err := b.stop(ctx); err != nil || !purge {
		return err
	}
	return b.forget()
}

// forget removes everything that the bed created in its state directory, and keeps files of others, such as the runner's.
func (b *Bed) forget() error {
	for _, path := range []string{b.etc(), b.state(), b.plugins(), b.LogDir(), b.ConsoleDir(), b.CloudsYAML(), b.MetadataSecretFile(), b.run()} {
		if err := os.RemoveAll(path); err != nil {
			return fail.Wrap(fail.Internal, err, "remove the state of the test bed")
		}
	}
	if err := os.Remove(b.o.Root); err != nil && !errors.Is(err, unix.ENOTEMPTY) {
		return err
	}
	return nil
}

// lock prevents two programs from starting and stopping the same bed at once. The kernel releases the lock when its holder dies.
func (b *Bed) lock(ctx context.Context) (release func(), err error) {
	for _, d := range []struct {
		path string
		mode os.FileMode
	}{{filepath.Dir(b.o.Root), 0o755}, {b.o.Root, 0o711}, {b.run(), 0o700}} { // services of other users need to traverse all but the last
		if err := os.MkdirAll(d.path, d.mode); err != nil {
			return nil, fail.Wrap(fail.Refused, err, "make the state directory")
		}
	}
	path := filepath.Join(b.run(), "lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = tool.Until(ctx, 100*time.Millisecond, func() (bool, error) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		f.Close()
		return nil, fail.Wrap(fail.Conflict, err, "wait until another program is done with starting or stopping the test bed").At(path)
	}
	return func() { f.Close() }, nil
}

func (b *Bed) say(format string, args ...any) {
	fmt.Fprintf(b.o.Log, "openstack: %5.1fs %s\n", time.Since(b.began).Seconds(), fmt.Sprintf(format, args...))
}
