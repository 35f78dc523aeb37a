package serving

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/internal/cli/netbooting"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/image"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/registry/bmc"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/registry/order"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/server/authority"
	"github.com/naupegos/naupegos/internal/server/metrics"
	"github.com/naupegos/naupegos/internal/server/routes"
	"github.com/naupegos/naupegos/internal/store"
)

// machineFlags are the flags about physical machines.
type machineFlags struct {
	approve    []string
	installs   int
	installTTL time.Duration
	reboots    int
	rebootTTL  time.Duration
	pending    registry.Limits
}

func (f *machineFlags) bind(c *cobra.Command) {
	c.Flags().StringSliceVar(&f.approve, "approve", nil, "approve new physical machines whose facts match, FACT=PATTERN,…: uuid, mac, manufacturer, product, serial, chassis (repeatable); they can become a control plane, and anybody on the provisioning network can report such facts")
	c.Flags().IntVar(&f.installs, "installs", 5, "maximum number of physical machines that are installed at once")
	c.Flags().DurationVar(&f.installTTL, "install-time", 20*time.Minute, "how long the installation of a physical machine may take before others may take its turn")
	c.Flags().IntVar(&f.reboots, "reboots", 1, "maximum number of physical machines of a group that reboot at once")
	c.Flags().DurationVar(&f.rebootTTL, "reboot-time", 24*time.Hour, "how long the reboot of a physical machine may take before others may take its turn")
	c.Flags().IntVar(&f.pending.Total, "pending-machines", 2000, "maximum number of physical machines that wait for approval; a new one takes the place of the one not heard of for longest")
	c.Flags().IntVar(&f.pending.PerAddress, "pending-per-address", 64, "maximum number of these from one address, or from one IPv6 /64")
	c.Flags().IntVar(&f.pending.Size, "pending-size", 64<<10, "maximum bytes of the facts of a physical machine that waits for approval")
	c.Flags().DurationVar(&f.pending.Age, "pending-time", 24*time.Hour, "how long a physical machine waits for approval after it was heard of last")
	c.Flags().Float64Var(&f.pending.Rate, "discovery-rate", 1, "how many discoveries a second one address, or IPv6 /64, may send, beside those of approved keys")
	c.Flags().IntVar(&f.pending.Burst, "discovery-burst", 100, "how many of them it may send at once")
}

// check refuses limits that are too small to work.
func (f *machineFlags) check() error {
	for flag, ok := range map[string]bool{
		"--pending-machines": f.pending.Total > 0, "--pending-per-address": f.pending.PerAddress > 0, "--pending-size": f.pending.Size >= 1024, "--pending-time": f.pending.Age >= time.Minute,
		"--discovery-rate": f.pending.Rate > 0, "--discovery-burst": f.pending.Burst > 0, "--reboot-time": f.rebootTTL >= time.Minute,
	} {
		if !ok {
			return fail.New(fail.Invalid, "%s is too small", flag).Do("leave it away for the usual value: naupegos server --help")
		}
	}
	return nil
}

// machineLife is the validity of a machine's certificate. A machine must enrol again if it is silent for that long.
const machineLife = 5 * 365 * 24 * time.Hour

// issuer signs the certificates of machines.
type issuer struct{ ca *authority.Authority }

// IssueMachine implements registry.Issuer.
func (i issuer) IssueMachine(uuid string, public any) ([]byte, error) {
	der, err := i.ca.Sign(x509.Certificate{
		Subject:  pkix.Name{CommonName: uuid, Organization: []string{"naupegos machines"}},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, public, machineLife)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

// clusters finds the clusters of a store.
type clusters struct{ st store.Store }

// ClusterID implements registry.Clusters.
func (c clusters) ClusterID(ctx context.Context, name string) (string, error) {
	found, err := c.st.Cluster(ctx, name)
	if fail.KindOf(err) == fail.NotFound {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return found.ID, nil
}

// machines returns the part of the server that manages physical machines, their registry, and the authorities of their certificates. It
// wraps the boot endpoints so that the registry learns of requests and can compare a machine's configuration with the current one.
func (h Host) machines(ctx context.Context, st store.Store, f *flags, site netbooting.Site, boot *server.Part, told *metrics.Metrics, stop func(), log *slog.Logger) (server.Part, *registry.Registry, *x509.CertPool, error) {
	if err := f.machine.check(); err != nil {
		return server.Part{}, nil, nil, err
	}
	ca, err := authority.Open(ctx, st.ServerSecrets(), "machines")
	if err != nil {
		return server.Part{}, nil, nil, err
	}
	o := registry.Options{Installs: f.machine.installs, InstallTTL: f.machine.installTTL, Reboots: f.machine.reboots, RebootTTL: f.machine.rebootTTL,
		Limits: f.machine.pending, Issuer: issuer{ca},
		Power: bmc.Controllers{Allowed: f.policy.bmcs()}, Secrets: st.ServerSecrets(), Clusters: clusters{st}, Log: log}
	for _, text := range f.machine.approve {
		r, err := registry.ParseRule(text)
		if err != nil {
			return server.Part{}, nil, nil, err
		}
		log.Warn(r.Warning())
		o.Rules = append(o.Rules, r)
	}
	settings := map[string]any{"version": h.Version, "listen-http": f.http, "listen-https": f.https, "store": st.Where(), "approve": f.machine.approve,
		"installs": f.machine.installs, "reboots": f.machine.reboots}
	reg := registry.New(st.Metal(), o)
	boots, ignition := attach(reg, boot, log)
	mounts := routes.Mounts(routes.Options{Registry: reg, Shutdown: stop, Settings: settings, Log: log, Ignition: ignition,
		Systems: func() ([]order.System, error) { return image.Systems(image.SystemsDir(st.Dir())) },
		Who:     func(r *http.Request) string { return access.From(r.Context()).Name },
		Backup:  func(ctx context.Context) (any, error) { return h.backup(ctx, st) }})
	mounts = append(mounts, site.FrontMounts(boots.Asked, told.Request)...)
	run := func(ctx context.Context) error {
		g, ctx := errgroup.WithContext(ctx)
		g.Go(func() error { return boots.Run(ctx) })
		g.Go(func() error { return reg.Expire(ctx) })
		return g.Wait()
	}
	return server.Part{Name: "machines", Mounts: mounts, Run: run}, reg, ca.Pool(), nil
}

// discovery makes the server offer the discovery image to machines that match no group, and the local disk to installed machines. The image is
// built while the part machines runs.
func (h Host) discovery(site netbooting.Site, f *flags, authority string, reg *registry.Registry, machines *server.Part, log *slog.Logger) error {
	run, err := site.Discover(&f.boot, netbooting.Discovery{HTTPS: f.https, Authority: authority, Agent: h.Agent, Log: log,
		Disk: func(ctx context.Context, labels map[string]string) (bool, error) {
			s, err := facts.SelectorOf(url.Values{"uuid": {labels["uuid"]}, "mac": {labels["mac"]}})
			if err != nil {
				return false, nil //nolint:nilerr // it says nothing of which machine it is
			}
			m, err := reg.Selected(ctx, s)
			if fail.KindOf(err) == fail.NotFound {
				return false, nil
			}
			return err == nil && m.BootsFromDisk(), err
		}})
	if err != nil || run == nil {
		return err
	}
	notes := machines.Run
	machines.Run = func(ctx context.Context) error {
		g, ctx := errgroup.WithContext(ctx)
		g.Go(func() error { return notes(ctx) })
		g.Go(func() error { return run(ctx) })
		return g.Wait()
	}
	return nil
}

// attach makes the registry record requests to /ipxe, and returns a function that asks the boot endpoints for a machine's Ignition config.
func attach(reg *registry.Registry, boot *server.Part, log *slog.Logger) (*routes.Boots, func(context.Context, string) ([]byte, error)) {
	boots := routes.NewBoots(reg, log)
	var ignition func(context.Context, string) ([]byte, error)
	for i := range boot.Mounts {
		switch m := &boot.Mounts[i]; m.Pattern {
		case "/ipxe":
			m.Handler = boots.Watch(m.Handler)
		case "/ignition":
			ignition = routes.IgnitionOf(m.Handler)
		}
	}
	return boots, ignition
}

// backedUp is the answer to POST /backup/db.
type backedUp struct {
	File     string    `json:"dest_fs"`
	Size     int64     `json:"dest_size"`
	Duration float64   `json:"backup_duration"` // seconds; the backup blocks no other use of the store
	At       time.Time `json:"ts"`
}

// backup writes a copy of the store, encrypted to the store's own identity, into the directory backups beside the store.
func (h Host) backup(ctx context.Context, st store.Store) (*backedUp, error) {
	began := time.Now().UTC()
	dir := filepath.Join(st.Dir(), "backups")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fail.Wrap(fail.Refused, err, "make the directory of backups")
	}
	path := filepath.Join(dir, "store-"+began.Format("20060102-150405.000")+".age")
	tmp, err := os.CreateTemp(dir, ".store-*")
	if err != nil {
		return nil, fail.Wrap(fail.Refused, err, "write the backup").At(dir)
	}
	defer os.Remove(tmp.Name())
	if err := h.backupTo(ctx, st, tmp); err != nil {
		return nil, err
	}
	info, err := os.Stat(tmp.Name())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return nil, fail.Wrap(fail.Refused, err, "write the backup").At(path)
	}
	return &backedUp{File: path, Size: info.Size(), Duration: time.Since(began).Seconds(), At: began}, nil
}

// backupTo writes and closes a backup file.
func (h Host) backupTo(ctx context.Context, st store.Store, f *os.File) error {
	err := h.Backup(ctx, f, st.Recipient())
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("back the store up: %w", err)
	}
	return nil
}

// Backup writes a copy of the store to w, encrypted to a recipient.
type Backup func(ctx context.Context, w io.Writer, recipient string) error
