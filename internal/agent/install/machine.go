// Package install installs a machine according to its server's order: it chooses the disk, writes systems and boot loaders, verifies what it has
// written, makes the system the machine's own, and reports the outcome. On an installed machine it writes the slot that does not run.
//
// It does only what the order says, touches only the disk that the order's rule selects, and knows nothing of clusters.
package install

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/naupegos/naupegos/internal/agent/disks"
	"github.com/naupegos/naupegos/internal/agent/host"
	"github.com/naupegos/naupegos/internal/agent/install/ask"
	"github.com/naupegos/naupegos/internal/agent/install/slots"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/order"
)

// Options are the machine to install and its server.
type Options struct {
	UUID, MAC   string
	Server      string            // https:// URL
	Authority   []byte            // PEM of the authority of the server's certificate
	Key         *ecdsa.PrivateKey // the machine's approved key
	Certificate []byte            // PEM
	Say         func(string)      // writes to the machine's consoles; nil: nothing is written
	Pause       time.Duration     // first pause before the server is asked again; 0: 5 s. It doubles up to a minute
	Dir         string            // directory for temporary mounts; empty: /run/naupegos-install
	Root        host.Root         // root of the machine's file system; empty: /
}

// Done is the outcome of an installation.
type Done struct {
	Next     string // order.Reboot, order.Kexec or order.Poweroff; with Kexec, the kernel is loaded
	HostKeys []string
	Order    *order.Order
}

// installation is one attempt.
type installation struct {
	Options
	server *ask.Server
	order  *order.Order
	log    []string
	told   time.Time // when the server last got a report
}

// Machine installs the machine once its server permits it, and reports the outcome. It retries a failed installation as often as the server permits.
// It returns when the installation is done, when ctx ends, or when the server no longer knows the machine.
func Machine(ctx context.Context, o Options) (*Done, error) {
	if o.Say == nil {
		o.Say = func(string) {}
	}
	if o.Dir == "" {
		o.Dir = "/run/naupegos-install"
	}
	if o.Root == "" {
		o.Root = "/"
	}
	usual := 5 * time.Second
	if o.Pause > 0 {
		usual = o.Pause
	}
	server, err := ask.New(ask.Identity{UUID: o.UUID, Server: o.Server, Authority: o.Authority, Key: o.Key, Certificate: o.Certificate})
	if err != nil {
		return nil, err
	}
	said := ""
	for pause := usual; ; pause = min(2*pause, time.Minute) {
		i := &installation{Options: o, server: server}
		i.order, err = server.Begin(ctx)
		if err == nil {
			done, failed := i.attempt(ctx)
			if failed == nil {
				return done, nil
			}
			err, pause, said = failed, usual, ""
		}
		switch kind := fail.KindOf(err); {
		case ctx.Err() != nil:
			return nil, fail.Wrap(fail.Interrupted, context.Cause(ctx), "install the machine").At(o.UUID)
		case kind == fail.Unauthorized, kind == fail.Invalid:
			return nil, err
		}
		if err.Error() != said {
			said = err.Error()
			o.Say(said)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// reporting is how long Machine tries to report the outcome of an installation.
const reporting = 10 * time.Minute

// attempt carries out the order and reports the outcome. If no report of a failed attempt reaches the server, the attempt ends with its
// authorization.
func (i *installation) attempt(ctx context.Context) (*Done, error) {
	i.say("installing %s as %s", i.order.System.Kubernetes, i.order.Hostname)
	done, err := i.install(ctx)
	if err != nil {
		i.say("the installation failed: %v", err)
	} else {
		i.say("installed")
	}
	var keys []string
	if done != nil {
		keys = done.HostKeys
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reporting)
	defer cancel()
	for {
		told := i.server.Finish(ctx, err == nil, keys, i.log)
		if told == nil || !fail.Waitable(told) {
			return done, errors.Join(err, told)
		}
		select {
		case <-time.After(min(i.pause(), time.Minute)):
		case <-ctx.Done():
			return nil, errors.Join(err, told)
		}
	}
}

func (i *installation) pause() time.Duration {
	if i.Pause > 0 {
		return i.Pause
	}
	return 5 * time.Second
}

// say writes a line to the machine's consoles and remembers it for the server.
func (i *installation) say(format string, a ...any) {
	text := fmt.Sprintf(format, a...)
	i.log = append(i.log, time.Now().UTC().Format(time.RFC3339)+" "+text)
	i.Say(text)
}

// progress reports the progress to the server from time to time, which renews the authorization. Only the server's refusal ends the installation.
func (i *installation) progress(ctx context.Context, stage string, total int64) func(done int64) error {
	return func(done int64) error {
		if done != total && time.Since(i.told) < 10*time.Second {
			return context.Cause(ctx)
		}
		i.told = time.Now()
		err := i.server.Progress(ctx, stage, done, total)
		if kind := fail.KindOf(err); err != nil && (kind == fail.Conflict || kind == fail.Unauthorized) {
			return err
		}
		return context.Cause(ctx)
	}
}

func (i *installation) install(ctx context.Context) (*Done, error) {
	o := i.order
	all, owner := disks.List(i.Root), Owners(i.Root, filepath.Join(i.Dir, "owner")) // the discovery may be days old
	disk, err := Choose(o, all, owner)
	if err != nil {
		return nil, err
	}
	i.say("the disk is %s, %d MiB", disk.Title(), disk.SizeBytes>>20)
	if err := i.progress(ctx, "partition", 0)(0); err != nil {
		return nil, err
	}
	if err := clearDisk(i.Root, disk, mayOverwrite(o, all, disk, owner(disk))); err != nil {
		return nil, err
	}
	table, err := partition(ctx, disk, o.Slot())
	if err != nil {
		return nil, err
	}
	dev := func(number int) string { return slots.Device(disk.Path, number) }
	if err := putKey(dev(slots.NumberB), i.Key); err != nil {
		return nil, err
	}
	if err := i.writeTo(ctx, dev(slots.NumberA), "write root", o.System.Root, false); err != nil {
		return nil, err
	}
	p := Partitions{Slot: id(table, slots.NumberA), ESP: id(table, slots.NumberESP), State: id(table, slots.NumberState)}
	done := &Done{Next: o.Begin(), Order: o}
	err = inSlot(dev(slots.NumberA), filepath.Join(i.Dir, "slot"), func(root string) (err error) {
		if err := seat(root, o, p, i.MAC); err != nil {
			return err
		}
		if done.HostKeys, err = hostKeys(ctx, root); err != nil {
			return err
		}
		if _, err := run(ctx, root, "", "mke2fs", "-q", "-F", "-t", "ext4", "-L", "naupegos-state", dev(slots.NumberState)); err != nil {
			return err
		}
		if o.Begin() == order.Kexec {
			return loadKernel(root, slots.A, p.Slot, false)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := i.saveState(dev(slots.NumberState)); err != nil {
		return nil, err
	}
	if err := dropKey(dev(slots.NumberB)); err != nil {
		return nil, err
	}
	// Write the boot loaders last: an interrupted installation does not boot.
	if err := i.writeTo(ctx, disk.Path, "write head", o.System.Head, true); err != nil {
		return nil, err
	}
	return done, setBoot(dev(slots.NumberESP), filepath.Join(i.Dir, "esp"), slots.Env{Good: slots.A, A: p.Slot, B: id(table, slots.NumberB)})
}

func id(table []slots.Partition, number int) string {
	for _, p := range table {
		if p.Number == number {
			return p.ID
		}
	}
	return ""
}

// writeTo fetches an image and writes it to a device.
func (i *installation) writeTo(ctx context.Context, dev, stage string, b order.Blob, head bool) error {
	return writeBlob(ctx, i.server, dev, b, head, func(text string) { i.say("%s", text) }, i.progress(ctx, stage, b.RawSize))
}

func writeBlob(ctx context.Context, from files, dev string, b order.Blob, head bool, say func(string), told func(int64) error) error {
	say(fmt.Sprintf("writing %s, %d MiB, to %s", b.Path, b.RawSize>>20, dev))
	f, err := os.OpenFile(dev, os.O_RDWR, 0)
	if err != nil {
		return fail.Wrap(fail.Refused, err, "open the disk for writing")
	}
	var to device = f
	if head {
		to = headOf{f}
	}
	s := newStream(ctx, from, b, say)
	defer s.Close()
	err = write(s, b, to, told)
	if e := f.Close(); err == nil && e != nil {
		err = fail.Wrap(fail.Refused, e, "write to %s", dev)
	}
	return err
}

// saveState writes the machine's identity to the state partition.
func (i *installation) saveState(dev string) (err error) {
	dir := filepath.Join(i.Dir, "state")
	undo, err := mount(dev, dir, "ext4", 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, undo()) }()
	for _, d := range []string{"etcd", "kubelet"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			return fail.Wrap(fail.Refused, err, "make the directories that outlast a system")
		}
	}
	return SaveIdentity(dir, Identity{UUID: i.UUID, MAC: i.MAC, Server: i.Server, Authority: string(i.Authority), Key: i.Key, Certificate: string(i.Certificate)})
}
