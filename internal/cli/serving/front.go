package serving

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/netbooting"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/netboot"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/front"
)

// frontVerb is the verb of naupegos server that runs the front process.
const frontVerb = "front"

// frontSettings are the front process's settings for serving booting machines. They contain no secret.
type frontSettings struct {
	Boot      netboot.Config         `json:"boot"`
	Forwarded []netbooting.Forwarded `json:"forwarded"` // paths that the main process answers
	Limits    server.Limits          `json:"limits"`
	Proxies   []netip.Prefix         `json:"proxies"`
	LogFormat string                 `json:"log"`
	Drain     time.Duration          `json:"drain"`
}

// facing is the front process with its listener for machines.
type facing struct {
	*front.Supervisor
	plain   *net.TCPListener
	proxies []netip.Prefix
}

// face listens on the address for machines and starts the front process of a server with these parts.
func (h Host) face(ctx context.Context, f *flags, site netbooting.Site, parts []server.Part, log *slog.Logger) (*facing, error) {
	proxies, err := server.ParseProxies(f.proxies)
	if err != nil {
		return nil, err
	}
	leases, err := site.Leases()
	if err != nil {
		return nil, err
	}
	own := frontSettings{Boot: site.ForFront(), Forwarded: netbooting.ForwardedOf(parts), Limits: f.limits, Proxies: proxies, LogFormat: f.logFormat, Drain: f.drain}
	plain, err := server.Bind(ctx, f.http, "--listen-http")
	if err != nil {
		return nil, err
	}
	s, err := front.Start(ctx, front.Config{Args: []string{"server", frontVerb}, HTTP: plain, Leases: leases, Network: own.Boot.Interface != "", Own: own, Files: site.Assets(),
		Log: log, Stderr: h.Err, Drain: f.drain})
	if err != nil {
		return nil, errors.Join(err, plain.Close())
	}
	return &facing{s, plain, proxies}, nil
}

// address returns the address that machines use, with the port that the kernel chose.
func (f *facing) address() string { return f.plain.Addr().String() }

// Close closes the listener and the supervisor; the front process has its own descriptor.
func (f *facing) Close() error { return errors.Join(f.plain.Close(), f.Supervisor.Close()) }

// part keeps the front process running, and calls ready when it serves for the first time.
func (f *facing) part(ready func() error) server.Part {
	return server.Part{Name: "front", Health: f.Health, Run: func(ctx context.Context) error {
		context.AfterFunc(ctx, func() { _ = f.plain.Close() }) // the front process stops accepting connections then, and this process must not hold them either
		return f.Run(ctx, ready)
	}}
}

// newFrontCmd returns the verb that runs the front process.
func newFrontCmd(h Host) *cobra.Command {
	return &cobra.Command{
		Use: frontVerb, Hidden: true, Args: cobra.NoArgs,
		Short: "Serve machines that boot, for naupegos server, which starts this by itself",
		RunE: func(cmd *cobra.Command, _ []string) error {
			signal.Ignore(syscall.SIGINT, syscall.SIGTERM) // it ends with the server
			err := h.front(cmd.Context(), os.Stdin)
			if err != nil {
				front.Fail(err)
			}
			return err
		},
	}
}

// front serves machines until the main process ends it.
func (h Host) front(ctx context.Context, stdin io.Reader) error {
	p, err := front.Enter(stdin)
	if err != nil {
		return err
	}
	var own frontSettings
	if err := json.Unmarshal(p.Own, &own); err != nil {
		return fail.Wrap(fail.Internal, err, "read the server's message")
	}
	log, err := h.logger(own.LogFormat)
	if err != nil {
		return err
	}
	log = log.With("process", "front")
	site, err := netbooting.OpenFront(ctx, own.Boot, p.Main, log)
	if err != nil {
		return err
	}
	s, err := server.Listen(ctx, server.Config{HTTP: p.Listener, Around: front.Hide, Healthz: p.Main, Parts: []server.Part{site.Part(own.Forwarded)},
		Observe: site.Observe, Log: log, Limits: own.Limits, Proxies: own.Proxies, Drain: own.Drain})
	if err != nil {
		return err
	}
	gone, err := p.Serve()
	if err != nil {
		return err
	}
	running, end := context.WithCancel(ctx)
	defer end()
	go func() {
		<-gone
		end()
	}()
	return s.Serve(running)
}

// shared returns a writer that the log and the front process may use at the same time; a file is one already.
func shared(w io.Writer) io.Writer {
	if _, ok := w.(*os.File); ok {
		return w
	}
	return &together{w: w}
}

// together is a writer for several goroutines.
type together struct {
	mu sync.Mutex
	w  io.Writer
}

// Write implements io.Writer.
func (t *together) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.w.Write(b)
}
