// Package serving holds the verbs that run and administer a server. They parse flags, make one call and print its result.
//
// It assembles the server from parts, which other packages implement.
package serving

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/netbooting"
	"github.com/naupegos/naupegos/internal/cli/wholefile"
	"github.com/naupegos/naupegos/internal/client"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/server/api"
	"github.com/naupegos/naupegos/internal/server/authority"
	"github.com/naupegos/naupegos/internal/server/follow"
	"github.com/naupegos/naupegos/internal/server/forward"
	"github.com/naupegos/naupegos/internal/server/front"
	oidc "github.com/naupegos/naupegos/internal/server/issuer"
	"github.com/naupegos/naupegos/internal/server/metrics"
	"github.com/naupegos/naupegos/internal/server/work"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/userdir"
	"github.com/naupegos/naupegos/internal/web"
)

// caFile is the file in the state directory with the authority that clients need.
const caFile = "server-ca.crt"

// Host holds the parts of the operator's command that the server needs.
type Host struct {
	Out, Err  io.Writer
	OpenStore func(context.Context) (store.Store, error)     // creates a missing store
	Options   func(operate.Asked, work.Need) operate.Options // for a session that plans or executes
	Look      func(cluster string) operate.Options           // for a session that only observes
	HasBundle operate.HasBundle                              // of the library on this host
	Backup    Backup
	Agent     func() (string, error)         // path of naupegos-agent on this host
	Remote    func() (*client.Client, error) // for the server that the user named; nil if none
	Verbs     []*cobra.Command               // verbs for the store's owner: backup and restore
	StateDir  func() (string, error)         // directory of this user's store, which may not exist yet
	Version   string
}

// flags are the flags of naupegos server.
type flags struct {
	http, https, cert, key string
	names                  []string
	logFormat              string
	drain                  time.Duration
	limits                 server.Limits
	machine                machineFlags
	issuer                 issuerFlags
	bounds                 access.Bounds
	proxies                []string // trusted proxies
	auditTo                []string // targets of the forwarded audit log
	boot                   netbooting.Flags
	policy                 policyFlags
	health                 time.Duration
}

// New returns naupegos server.
func New(h Host) *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "server",
		Short: "Serve operators, web pages and machines that boot over the network",
		Long: `Run the server until it is stopped: HTTP for machines that boot from the network, HTTPS for everything else. /healthz on
both reports whether it is healthy.

The server works on the store in its --state-dir, or on a PostgreSQL database (--store), which several servers may share.
When it first starts, it creates a certificate authority of its own, stored encrypted in the store, and a certificate for
the names and addresses of this host, which it renews while it runs. It writes the authority, which clients need, to
server-ca.crt in the state directory. --tls-cert and --tls-key serve another certificate; the files are read again when
they change.

Machines that boot get answers from the groups and profiles in boot/ of the state directory. --netboot-interface also
leads machines there from power-on: with DHCP, or ProxyDHCP beside an existing DHCP server, TFTP with iPXE, and router
advertisements. Machines that match no group then boot the discovery image, which is made when the server first starts
(this needs root and Debian): they report what they are, and wait until an operator approves them. Installed machines start
from their disk.

Operators authenticate with tokens (naupegos server token create), or sign in with an OpenID Connect provider: naupegos
login, and the web pages with --oidc-pages. With --server or $NAUPEGOS_SERVER, commands are carried out by a server.

Operators' documents cannot use files, variables and services of this host: they use credentials, which naupegos server
credential add defines. --policy and --providers allow more.

SIGTERM and Ctrl-C stop the server: it takes no new connections, and running requests have --drain to finish. A second
signal ends it at once.`,
		Example: `  naupegos server
  naupegos server --state-dir /var/lib/naupegos/server --listen-http 10.0.0.1:8080
  naupegos server --listen-http :8080 --listen-https :443 --name boot.example.com
  naupegos server --listen-http 10.0.0.1:8080 --netboot-interface eth1`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return h.serve(cmd.Context(), &f) },
	}
	c.Flags().StringVar(&f.http, "listen-http", ":8080", "address for machines that boot: HOST:PORT, or :PORT for all addresses")
	c.Flags().StringVar(&f.https, "listen-https", "", "address for everything else (default the host of --listen-http, port 8443)")
	c.Flags().StringSliceVar(&f.names, "name", nil, "another name or address of this host, for the certificate (repeatable)")
	c.Flags().StringVar(&f.cert, "tls-cert", "", "file with the certificate to serve with (PEM, with its chain)")
	c.Flags().StringVar(&f.key, "tls-key", "", "file with the key of --tls-cert")
	c.Flags().StringVar(&f.logFormat, "log-format", "text", "format of the log on standard error: text or json")
	c.Flags().DurationVar(&f.drain, "drain", 30*time.Second, "how long running requests and steps may take to finish after a stop")
	c.Flags().IntVar(&f.limits.Connections, "connections", 2048, "maximum number of connections of each of the two addresses; one that sends no complete request makes room for others")
	c.Flags().IntVar(&f.limits.PerAddress, "connections-per-address", 256, "maximum number of these from one address, or from one IPv6 /64")
	c.Flags().DurationVar(&f.bounds.Fresh, "fresh-sign-in", 15*time.Minute, "how recent a sign-in with the OpenID Connect provider has to be for kubeconfig, handover, and verbs that give a cluster or its data up: destroy, release, reset, backup restore, etcd recover")
	c.Flags().DurationVar(&f.bounds.Idle, "idle-sign-out", time.Hour, "after how long without a request a session of the web pages ends")
	c.Flags().StringSliceVar(&f.proxies, "trusted-proxy", nil, "address or network of a proxy whose X-Forwarded-For header names the client, such as 10.0.0.5 or 10.0.0.0/24 (repeatable)")
	c.Flags().StringArrayVar(&f.auditTo, "audit-to", nil, "forward the audit log as it grows: syslog://HOST:PORT (RFC 5424 over TCP; udp with ?transport=udp), syslogs://HOST:PORT (TLS), otlp+http://HOST:PORT or otlp+https://HOST:PORT (repeatable)")
	bindHealth(c.Flags(), &f.health)
	f.machine.bind(c)
	f.issuer.bind(c)
	f.boot.Bind(c.Flags())
	f.policy.bind(c.Flags())
	c.AddCommand(newStatusCmd(h), newTokenCmd(h), newCredentialCmd(h), newWebhookCmd(h), newFollowCmd(h), newSessionCmd(h), newAuditCmd(h), netbooting.NewImport(h.Out, h.StateDir), newFrontCmd(h), newRenderCmd())
	c.AddCommand(h.Verbs...)
	return c
}

// logger returns the server's log.
func (h Host) logger(format string) (*slog.Logger, error) {
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(h.Err, nil)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(h.Err, nil)), nil
	}
	return nil, fail.New(fail.Invalid, "--log-format %q", format).Do("choose text or json")
}

// gate returns the gate to the server's data.
func (f *flags) gate(st store.Store, signIn *oidc.Issuer, log *slog.Logger) *access.Gate {
	gate := access.NewGate(st, log)
	gate.Bound(f.bounds)
	if signIn != nil {
		gate.Believe(signIn)
	}
	return gate
}

// settle reads the files that the flags name, and fills in the address for operators. It returns the host under its policy, and the provider of sign-ins.
func (h Host) settle(f *flags) (Host, *oidc.Issuer, error) {
	if f.https == "" {
		var err error
		if f.https, err = server.BesideHTTP(f.http); err != nil {
			return h, nil, err
		}
	}
	rules, err := f.policy.read()
	if err != nil {
		return h, nil, err
	}
	signIn, err := f.issuer.open()
	return h.under(rules), signIn, err
}

// serve runs the server until its context ends.
func (h Host) serve(ctx context.Context, f *flags) error {
	h.Err = shared(h.Err)
	log, err := h.logger(f.logFormat)
	if err != nil {
		return err
	}
	h, signIn, err := h.settle(f)
	if err != nil {
		return err
	}
	st, err := h.openOwn(ctx)
	if err != nil {
		return err
	}
	defer st.Close()
	here, err := appear(ctx, st, h.Version, f, log)
	if err != nil {
		return err
	}
	defer here.leave(ctx)
	serving, err := f.certificate(ctx, st, log)
	if err != nil {
		return err
	}
	soft, hard, stop := plan.Interruptible(ctx)
	defer stop()
	running, end := context.WithCancel(hard)
	defer end()
	site, err := netbooting.Open(&f.boot, st.Dir(), f.http, log)
	if err != nil {
		return err
	}
	boot := site.Part()
	told := h.metrics(st, log)
	machines, reg, known, err := h.machines(ctx, st, f, site, &boot, told, end, log)
	if err != nil {
		return err
	}
	if err := h.discovery(site, f, serving.Root(), reg, &machines, log); err != nil {
		return err
	}
	gate := f.gate(st, signIn, log)
	parts, err := h.parts(running, st, gate, signIn, reg, told, log, f)
	if err != nil {
		return err
	}
	outward, err := h.outward(f, st, gate, here.info.ID, told, log)
	if err != nil {
		return err
	}
	parts = append(append(parts, outward...), machines, boot, here.part(), told.Part(), signIn.Part())
	facing, err := h.face(ctx, f, site, parts, log)
	if err != nil {
		return err
	}
	defer facing.Close() //nolint:errcheck // the listeners are closed already when the parts have ended
	var s *server.Server
	parts = append(parts, facing.part(func() error {
		at := server.Addresses{HTTP: facing.address(), HTTPS: s.Addresses().HTTPS}
		log.Info("serving", "http", at.HTTP, "https", at.HTTPS, "store", st.Where(), "version", h.Version, "pid", os.Getpid())
		_, err := fmt.Fprintf(h.Out, "Serving machines at http://%s and operators at https://%s.\n", shown(at.HTTP), shown(at.HTTPS))
		return err
	}))
	s, err = server.Listen(ctx, server.Config{
		HTTP: facing.Listener(), OfFront: true, Around: front.Believe, ListenHTTPS: f.https, Serving: serving, Clients: known, Guard: gate.Guard, Observe: told.Request, Log: log,
		Drain: f.drain, Limits: f.limits, Parts: parts, Proxies: facing.proxies,
		Ping: storePing(st),
	})
	if err != nil {
		return err
	}
	go f.endSoftly(running, soft, end, log)
	here.info.HTTP, here.info.HTTPS = facing.address(), s.Addresses().HTTPS
	err = s.Serve(running)
	log.Info("stopped")
	return err
}

// openOwn opens the server's store, unless another user could replace it or its keys.
func (h Host) openOwn(ctx context.Context) (store.Store, error) {
	dir, err := h.StateDir()
	if err != nil {
		return nil, err
	}
	if err := userdir.Strict(dir, store.DatabaseFile, store.DatabaseFile+"-wal", "identity.age"); err != nil {
		return nil, err
	}
	return h.OpenStore(ctx)
}

// endSoftly calls end, which lets requests finish, when soft closes.
func (f *flags) endSoftly(running context.Context, soft <-chan struct{}, end func(), log *slog.Logger) {
	select {
	case <-soft:
		log.Info("stopping", "drain", f.drain.String())
		end()
	case <-running.Done():
	}
}

// forwards returns the parts that forward the audit log as it grows.
func (f *flags) forwards(st store.Store, log *slog.Logger) (parts []server.Part, err error) {
	for _, to := range f.auditTo {
		sink, err := forward.Open(to, st, log)
		if err != nil {
			return nil, err
		}
		parts = append(parts, server.Part{Name: "audit forwarding", Run: sink.Run, Health: sink.Health})
	}
	return parts, nil
}

// parts returns the parts of the server for operators: jobs, the API and the pages. They run until ctx ends.
func (h Host) parts(ctx context.Context, st store.Store, gate *access.Gate, signIn *oidc.Issuer, reg *registry.Registry, told *metrics.Metrics, log *slog.Logger, f *flags) ([]server.Part, error) {
	here, _, err := net.SplitHostPort(f.https)
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "--listen-https %s", f.https).Do("give HOST:PORT, or :PORT for all addresses")
	}
	board := work.New(work.Config{Store: st, Open: h.OpenStore, Options: h.Options, Log: log, Version: h.Version, Drain: f.drain, Ended: ended(told), Attended: told.Unattended, Reviewed: follow.NewFollows(st.ServerSecrets()).Check,
		Here: here, Reached: func() ([]string, error) { return authority.HostNames(f.names) }})
	c := web.Config{Store: st, Gate: gate, Machines: reg, Look: h.Look, Open: h.OpenStore, Options: h.Options, Board: board, Version: h.Version, Log: log}
	if signIn.ForPages() {
		c.Provider = signIn
		signIn.Share(st.ServerSecrets())
	}
	pages, err := web.New(c)
	if err != nil {
		return nil, err
	}
	ui := server.Part{Name: "pages"}
	for _, r := range pages.Routes() {
		ui.Mounts = append(ui.Mounts, server.Mount{Pattern: r.Pattern, Handler: r.Handler, Need: r.Need, Scope: r.Scope, Pages: true, Stream: r.Stream, Timeout: r.Within})
	}
	following := follow.NewRunner(follow.Config{Store: st, Open: h.OpenStore, Options: h.Options, Board: board, Policy: f.policy.rules, Log: log, Ended: told.Unattended})
	watching, err := h.watching(st, f.health, log)
	if err != nil {
		return nil, err
	}
	return []server.Part{
		watching, {Name: "audit", Run: gate.Summarize}, {Name: "jobs", Run: board.Run}, {Name: "unattended", Run: board.Attend}, {Name: "follow", Run: following.Run}, ui,
		api.Part(ctx, api.Config{Store: st, Open: h.OpenStore, Options: h.Options, Look: h.Look, Board: board, Log: log, Version: h.Version}),
	}, nil
}

// certificate returns the server's certificate. If its own authority issues it, certificate also writes the authority to the file for clients.
func (f *flags) certificate(ctx context.Context, st store.Store, log *slog.Logger) (*authority.Serving, error) {
	switch {
	case (f.cert == "") != (f.key == ""):
		return nil, fail.New(fail.Invalid, "--tls-cert and --tls-key go together")
	case f.cert != "":
		return authority.Files(f.cert, f.key, log)
	}
	ca, err := authority.Open(ctx, st.ServerSecrets(), "server")
	if err != nil {
		return nil, err
	}
	if err := wholefile.Replace(filepath.Join(st.Dir(), caFile), ca.PEM(), 0o644); err != nil {
		return nil, err
	}
	return ca.Serve(f.names, log)
}

// shown returns an address as users on this host can use it.
func shown(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}
