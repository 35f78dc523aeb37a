package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/tool"
)

const head = "machines   wall s   connected s   CPU s   MB   machines' CPU s"

// figures then describe one plan.
type figures struct {
	wall, connected, cpu, machines time.Duration // connected: the last login began; machines: CPU time of the machines' sshd and agents
	memory                         int64         // peak, in bytes
}

// bench is the cluster under test.
type bench struct {
	*lab
	program string
	cache   string // where this host's bundles are
	logins  logins
}

// measure brings up a cluster of so many machines and measures plans. It runs in its own namespaces.
func measure(ctx context.Context, o options) error {
	n, err := strconv.Atoi(o.sizes)
	if err != nil {
		return err
	}
	cache, err := os.UserCacheDir()
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
	b, err := library.Find(ctx, release.Default)
	if err != nil {
		return fmt.Errorf("make bundle: %w", err)
	}
	l, err := newLab(os.Getenv(inside), n, b, filepath.Join(filepath.Dir(o.naupegos), "naupegos-agent"))
	if err != nil {
		return err
	}
	c := &bench{lab: l, program: o.naupegos, cache: cache}
	if err := bridge(); err != nil {
		return err
	}
	first, err := connect(0, l.machines[:1], &c.logins)
	if err != nil {
		return err
	}
	for i, some := range slices.Collect(slices.Chunk(l.machines[1:], perNamespace)) {
		if _, err := connect(i+1, some, &c.logins); err != nil {
			return err
		}
	}
	began := time.Now()
	if err := c.bringUp(ctx, &plane{lab: l, host: l.machines[0], in: first, bundle: b, runs: map[string]*pod{}}); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%d machines were brought up in %.0f s\n", n, time.Since(began).Seconds())
	var all []figures
	for range o.runs {
		f, err := c.plan(ctx)
		if err != nil {
			return err
		}
		all = append(all, f)
	}
	slices.SortFunc(all, func(x, y figures) int { return int(x.wall - y.wall) })
	f := all[len(all)/2]
	mb := float64(f.memory) / (1 << 20)
	fmt.Printf("%8d %8.1f %13.1f %7.1f %4.0f %17.1f\n", n, f.wall.Seconds(), f.connected.Seconds(), f.cpu.Seconds(), mb, f.machines.Seconds())
	fmt.Printf("scale: %d machines: %.1f s, %.1f s of CPU, %.0f MB\n", n, f.wall.Seconds(), f.cpu.Seconds(), mb)
	return nil
}

// applies bounds the attempts to bring a cluster up: on a slow host an apply may lose its lease, and the next one continues.
const applies = 5

// bringUp writes the document and applies it.
func (c *bench) bringUp(ctx context.Context, p *plane) error {
	if err := put(c.path("cluster.yaml"), c.document(), 0o600); err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	kept := make(chan error, 1)
	go func() { kept <- p.keep(context.WithoutCancel(ctx)) }()
	registered := make(chan error, 1)
	go func() { registered <- p.register(ctx) }()
	log, err := os.Create(c.path("apply.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	for range applies {
		apply := c.naupegos(ctx, "apply", "-f", c.path("cluster.yaml"), "--yes", "--progress", "plain")
		apply.Stdout, apply.Stderr = log, log
		if err = apply.Run(); err == nil || ctx.Err() != nil {
			break
		}
	}
	if err == nil {
		select {
		case err = <-registered:
		case err = <-kept:
		}
		return err
	}
	err = fmt.Errorf("naupegos apply: %w: %s", err, c.said("apply.log", 25))
	for _, name := range programs {
		err = fmt.Errorf("%w\n%s: %s", err, name, c.said(name+".log", 3))
	}
	select {
	case e := <-registered: // the reason, if it has given up
		return errors.Join(err, e)
	default:
		return err
	}
}

// said returns the last lines of a log.
func (c *bench) said(log string, lines int) string {
	data, err := os.ReadFile(c.path(log))
	if err != nil {
		return err.Error()
	}
	return strings.ReplaceAll(tool.LastLines(string(data), lines), " / ", "\n")
}

// document names all machines. The times are for slow hosts.
func (c *bench) document() string {
	var b strings.Builder
	fmt.Fprintf(&b, `apiVersion: naupegos.dev/v1alpha1
kind: Cluster
metadata: {name: bench}
spec:
  kubernetes: {version: %s, podCIDR: 10.240.0.0/13}
  smokeTest: false
  endpoint: {kind: direct}
  timeouts: {connect: 2m, nodeReady: 30m, step: 1h}
  provider:
    hosts:
      user: root
      sshKeyFile: %s
      machines:
`, release.Default, c.path("key"))
	for _, h := range c.machines {
		fmt.Fprintf(&b, "        - {name: %s, address: %s, role: %s, hostKey: %s}\n", h.name, h.address, h.role, strings.TrimSpace(h.hostKey))
	}
	return b.String()
}

// naupegos is a call of the program. It finds no Go, so that it builds nothing.
func (c *bench) naupegos(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.program, append([]string{"--state-dir", c.path("state")}, args...)...)
	cmd.Env = append(tool.Env(), "HOME="+c.dir, "XDG_CACHE_HOME="+c.cache)
	return cmd
}

// plan measures one plan, which must find nothing to do.
func (c *bench) plan(ctx context.Context) (figures, error) {
	cmd := c.naupegos(ctx, "plan", "-f", c.path("cluster.yaml"))
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	before, began := c.logins.spent(), time.Now()
	err := cmd.Run()
	f := figures{wall: time.Since(began)}
	if err != nil || !strings.Contains(out.String(), "No changes.") {
		return f, fmt.Errorf("naupegos plan finds changes: %w\n%s%s", err, &out, &said)
	}
	f.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	f.connected = time.Unix(0, c.logins.last.Load()).Sub(began)
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		f.memory = usage.Maxrss << 10
	}
	f.machines = c.logins.spent() - before
	return f, nil
}
