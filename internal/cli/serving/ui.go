package serving

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/server/follow"
	"github.com/naupegos/naupegos/internal/server/link"
	"github.com/naupegos/naupegos/internal/server/problem"
	"github.com/naupegos/naupegos/internal/server/work"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/web"
)

// uiFlags are the flags of naupegos ui.
type uiFlags struct {
	noOpen bool
	port   uint16
	health time.Duration
}

// NewUI returns naupegos ui.
func NewUI(h Host) *cobra.Command {
	var f uiFlags
	c := &cobra.Command{
		Use:   "ui",
		Short: "Open your clusters in the browser",
		Long: `Serve the web pages for your own store on this machine, and open them in your browser, signed in. There is no token and no
certificate to handle: the server listens on 127.0.0.1 alone, and the link signs in one browser, once, within five minutes.
If no browser can be opened, as in an SSH session, the command prints the link; ssh -L PORT:127.0.0.1:PORT carries it to
another machine.

The pages can do what your own commands can: jobs run in this process, as your user. Local machines need root, as for
naupegos apply. Another naupegos, also a server, may work on the same store.

Ctrl-C ends it, and signs the browser out. Running steps end first; the next naupegos ui continues a job that was left.`,
		Example: "  naupegos ui\n  naupegos ui --no-open --port 8090",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return h.ui(cmd.Context(), &f) },
	}
	c.Flags().BoolVar(&f.noOpen, "no-open", false, "print the link, and open no browser")
	c.Flags().Uint16Var(&f.port, "port", 0, "port on 127.0.0.1 (default a free one)")
	bindHealth(c.Flags(), &f.health)
	return c
}

// ui serves the pages on loopback until its context ends.
func (h Host) ui(ctx context.Context, f *uiFlags) error {
	log := slog.New(slog.NewTextHandler(shared(h.Err), &slog.HandlerOptions{Level: slog.LevelWarn}))
	st, err := h.OpenStore(ctx)
	if err != nil {
		return err
	}
	defer st.Close()
	soft, hard, stop := plan.Interruptible(ctx)
	defer stop()
	at, err := server.Bind(ctx, net.JoinHostPort("127.0.0.1", strconv.Itoa(int(f.port))), "--port")
	if err != nil {
		return err
	}
	defer at.Close()
	here, err := appear(ctx, st, h.Version, &flags{http: at.Addr().String()}, log)
	if err != nil {
		return err
	}
	defer here.leave(ctx)
	door, key := link.New(uiUser(), time.Now())
	defer func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err := door.End(bounded, st); err != nil {
			log.Warn("the browser's session stays in the store until it expires; nothing accepts it", "error", err.Error())
		}
	}()
	running, end := context.WithCancel(hard)
	defer end()
	parts, err := h.uiParts(running, st, door, at, log)
	if err != nil {
		return err
	}
	watching, err := h.watching(st, f.health, log)
	if err != nil {
		return err
	}
	s, err := server.Listen(ctx, server.Config{HTTP: at, Around: onlyLoopback, Parts: append(parts, watching, here.part()), Log: log, Drain: 3 * time.Second})
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(running) }()
	uninvite, err := h.invite(ctx, "http://"+at.Addr().String()+link.Path+"#"+key, at, f)
	defer uninvite()
	if err != nil { // without a link, the server is useless
		end()
		return errors.Join(err, <-served)
	}
	select {
	case err := <-served:
		return err
	case <-soft:
		fmt.Fprintln(h.Err, "Stopping.")
	}
	end()
	return <-served
}

// uiParts returns the parts of the server that naupegos ui runs: its pages, its own jobs, and the health of clusters. Unattended tasks run only
// in naupegos server.
func (h Host) uiParts(ctx context.Context, st store.Store, door *link.Door, at *net.TCPListener, log *slog.Logger) ([]server.Part, error) {
	gate := access.NewGate(st, log)
	gate.Bound(access.Bounds{Fresh: link.Life, Idle: link.Life})
	gate.Believe(door)
	board := work.New(work.Config{Store: st, Open: h.OpenStore, Options: h.Options, Log: log, Version: h.Version, Of: []string{door.Who()}, Reviewed: follow.NewFollows(st.ServerSecrets()).Check})
	_, port, err := net.SplitHostPort(at.Addr().String())
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "read the address of the listener")
	}
	pages, err := web.New(web.Config{Store: st, Gate: gate, Machines: registry.New(st.Metal(), registry.Options{Secrets: st.ServerSecrets()}), Look: h.Look, Open: h.OpenStore, Options: h.Options,
		Board: board, Version: h.Version, Log: log, Door: door, Port: port, Done: ctx.Done()})
	if err != nil {
		return nil, err
	}
	ui := server.Part{Name: "pages"}
	for _, r := range pages.Routes() {
		ui.Mounts = append(ui.Mounts, server.Mount{Pattern: r.Pattern, Handler: r.Handler, On: server.Boot, Need: r.Need, Scope: r.Scope, Pages: true, Stream: r.Stream, Timeout: r.Within})
	}
	return []server.Part{{Name: "audit", Run: gate.Summarize}, {Name: "jobs", Run: board.Run}, ui}, nil
}

// onlyLoopback refuses requests that name another host: a foreign page whose name resolves to 127.0.0.1 must reach nothing (DNS rebinding). It
// accepts any port, because ssh -L chooses its own.
func onlyLoopback(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
			p := problem.Of(fail.New(fail.Refused, "naupegos ui serves 127.0.0.1 alone").Do("open the link that it printed"))
			p.Status = http.StatusMisdirectedRequest
			p.Answer(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// uiUser returns the name of this host's user, for jobs and the audit.
func uiUser() string {
	name := "uid " + strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}

// invite opens the link in the user's browser, or prints it. The returned function removes the files that it left.
func (h Host) invite(ctx context.Context, to string, at *net.TCPListener, f *uiFlags) (uninvite func(), err error) {
	uninvite = func() {}
	why := "--no-open"
	if !f.noOpen {
		if why = unopenable(); why == "" {
			if uninvite, err = openBrowser(ctx, to); err != nil {
				why = err.Error()
			}
		}
	}
	if why == "" {
		_, err := fmt.Fprintf(h.Out, "Your browser opens the pages of this machine. If it does not, open this link; it works once, for five minutes:\n  %s\nCtrl-C ends it.\n", to)
		return uninvite, err
	}
	if _, err := fmt.Fprintf(h.Out, "Open this link; it works once, for five minutes:\n  %s\nCtrl-C ends it.\n", to); err != nil || f.noOpen {
		return uninvite, err
	}
	_, port, _ := net.SplitHostPort(at.Addr().String())
	_, err = fmt.Fprintf(h.Err, "No browser was opened: %s. From another machine: ssh -L %s:127.0.0.1:%s THIS-HOST, then open the link there.\n", why, port, port)
	return uninvite, err
}

// unopenable says why no browser can be opened here; empty if one can.
func unopenable() string {
	if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		if os.Getenv("SSH_CONNECTION") != "" {
			return "this is an SSH session"
		}
		return "there is no desktop"
	}
	if _, err := exec.LookPath("xdg-open"); err != nil {
		return "xdg-open is not installed"
	}
	return ""
}

// openBrowser opens the link through a file that only this user can read, because all users of a host can read the arguments of commands.
func openBrowser(ctx context.Context, to string) (remove func(), err error) {
	remove = func() {}
	dir, err := os.MkdirTemp(os.Getenv("XDG_RUNTIME_DIR"), "naupegos-ui-") // "" means the directory for temporary files
	if err != nil {
		return remove, err
	}
	remove = func() { _ = os.RemoveAll(dir) } // a file that stays contains only a link that no longer works
	file := filepath.Join(dir, "open.html")
	page := `<!doctype html><meta charset="utf-8"><title>Naupegos</title><meta http-equiv="refresh" content="0; url=` + to + `">`
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		return remove, err
	}
	c := exec.CommandContext(ctx, "xdg-open", file)
	if err := c.Start(); err != nil {
		return remove, err
	}
	go func() { _ = c.Wait() }() // if no browser opens, the user has the printed link
	return remove, nil
}
