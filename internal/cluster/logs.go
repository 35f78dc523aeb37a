package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/remote"
)

// LogOptions says what goes into a support archive.
type LogOptions struct {
	Since   time.Duration     // how far back logs go; 0 means an hour
	Prefix  string            // the directory inside of the archive
	Extra   map[string][]byte // more files by name, redacted like all others
	Status  func(line string) // told what goes on; may be nil
	PerFile int64             // most bytes of each log, its end counts; 0 means 1 MiB
}

// LogProblem is something that is not in the archive, and why.
type LogProblem struct {
	Machine string `json:"machine,omitempty"`
	What    string `json:"what"`
	Error   string `json:"error"`
}

// logSource is how machines are asked.
type logSource interface {
	Stream(ctx context.Context, h remote.Host, stdin io.Reader, stdout io.Writer, argv ...string) error
	Agent(ctx context.Context, h remote.Host, stdin func() io.Reader, args ...string) ([]byte, error)
}

// consoler is a provider that keeps its machines' consoles.
type consoler interface {
	// Console returns the end of a machine's console log, at most limit bytes.
	Console(name string, limit int64) ([]byte, error)
}

// Bounds of a collection.
const (
	logMachines    = 8               // asked at once
	logMachineTime = 3 * time.Minute // for all of one machine
	logCommandTime = time.Minute     // for one command
	logPods        = 200             // logs of containers from one machine, the newest
	logPodBytes    = 128 << 10       // of each
)

// Logs writes a support archive (tar, gzip) about the whole cluster to w: what the machines' units and containers logged, what
// the machines are, the cluster's status and document. Whatever can't be had is listed and does not fail the rest. Everything
// is redacted: the cluster's own secrets and whatever looks like one.
func (c *Cluster) Logs(ctx context.Context, w io.Writer, o LogOptions) ([]LogProblem, error) {
	if o.Since <= 0 {
		o.Since = time.Hour
	}
	if o.PerFile <= 0 {
		o.PerFile = 1 << 20
	}
	r, err := newRedactor(ctx, c.secrets)
	if err != nil {
		return nil, err
	}
	col := &collection{options: o, archive: newArchive(w, o.Prefix, r), source: c.dialer}
	if err := c.collect(ctx, col); err != nil {
		return nil, err
	}
	return col.finish()
}

func (c *Cluster) collect(ctx context.Context, col *collection) error {
	inv, err := c.prov.Observe(ctx)
	if err != nil {
		return err
	}
	if err := c.loadTarget(ctx); err != nil {
		return err
	}
	var g errgroup.Group
	g.SetLimit(logMachines)
	for _, m := range inv.Machines {
		g.Go(func() error {
			if k, ok := c.prov.(consoler); ok {
				text, err := k.Console(m.Name, col.options.PerFile)
				col.add(m.Name, "console.log", text, err)
			}
			col.machine(ctx, m, func() (remote.Host, error) { return c.Host(ctx, m.Name) })
			return ctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for name, data := range col.options.Extra {
		col.add("", name, data, nil)
	}
	col.add("", "document.yaml", c.rec.Document, nil)
	col.json("facts.json", func() (any, error) { return c.facts.All(), nil })
	col.json("machines.json", func() (any, error) { return inv, nil })
	col.json("nodes.json", func() (any, error) { return c.NodeList(ctx) })
	// The last one, for it makes new slots.
	col.json("status.json", func() (any, error) { return c.Status(ctx) })
	return ctx.Err()
}

// collection fills one archive.
type collection struct {
	options  LogOptions
	archive  *archive
	source   logSource
	mu       sync.Mutex
	problems []LogProblem
}

// add puts a file in, or notes why it is missing.
func (col *collection) add(machine, name string, data []byte, err error) {
	if len(data) > 0 {
		path := name
		if machine != "" {
			path = "machines/" + machine + "/" + name
		}
		if e := col.archive.add(path, data); err == nil {
			err = e
		}
	}
	if err == nil {
		return
	}
	col.mu.Lock()
	defer col.mu.Unlock()
	col.problems = append(col.problems, LogProblem{Machine: machine, What: name, Error: string(col.archive.redactor.redact([]byte(err.Error())))})
}

// json puts in what f returns.
func (col *collection) json(name string, f func() (any, error)) {
	v, err := f()
	if err != nil {
		col.add("", name, nil, err)
		return
	}
	data, err := json.MarshalIndent(v, "", "  ")
	col.add("", name, append(data, '\n'), err)
}

// finish lists what is missing and ends the archive.
func (col *collection) finish() ([]LogProblem, error) {
	if len(col.problems) > 0 {
		col.json("problems.json", func() (any, error) { return col.problems, nil })
	}
	return col.problems, col.archive.close()
}

func (col *collection) status(format string, args ...any) {
	if col.options.Status != nil {
		col.mu.Lock()
		defer col.mu.Unlock()
		col.options.Status(fmt.Sprintf(format, args...))
	}
}

// machine asks one machine for everything.
func (col *collection) machine(ctx context.Context, m provider.Machine, host func() (remote.Host, error)) {
	ctx, cancel := context.WithTimeout(ctx, logMachineTime)
	defer cancel()
	if m.State != provider.Running {
		col.status("%s is %s", m.Name, m.State)
		col.add(m.Name, "everything", nil, fmt.Errorf("the machine is %s %s", m.State, m.Detail))
		return
	}
	h, err := host()
	if err == nil {
		var facts []byte
		facts, err = col.source.Agent(ctx, h, nil, "facts")
		col.add(m.Name, "facts.json", facts, nil)
	}
	if err != nil { // nor will it answer the rest
		col.status("%s does not answer", m.Name)
		col.add(m.Name, "everything", nil, err)
		return
	}
	col.status("asking %s", m.Name)
	status, err := col.source.Agent(ctx, h, nil, "status")
	col.add(m.Name, "agent-status.json", status, err)
	for name, argv := range commands(m.Role, col.options.Since) {
		text, err := col.run(ctx, h, col.options.PerFile, argv...)
		col.add(m.Name, name, text, err)
	}
	if m.Role != provider.Gateway {
		col.pods(ctx, m.Name, h)
	}
}
