package shell

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/logs"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/remote"
	"github.com/naupegos/naupegos/internal/tool"
)

// Limits for reading logs.
const (
	mostMachines = 200
	longestLine  = 1 << 20 // bytes of JSON a line from a machine
	again        = 2 * time.Second
)

// asked is a machine whose logs are read.
type asked struct {
	name string
	// read runs the agent's verb logs with a request, and writes its output to w until it ends.
	read func(ctx context.Context, request string, w io.Writer) error
}

// find returns the named machines, or all running ones.
func (v *logsVerb) find(ctx context.Context, s *operate.Session, names []string) ([]asked, error) {
	found, _, err := s.Cluster.MachineList(ctx)
	if err != nil {
		return nil, err
	}
	state := map[string]provider.Machine{}
	for _, m := range found {
		state[m.Name] = m
	}
	all := len(names) == 0
	if all {
		for _, m := range found {
			names = append(names, m.Name)
		}
	}
	var out []asked
	seen := map[string]bool{}
	for _, name := range names {
		full := name
		if !all {
			if full, err = s.Cluster.MachineNamed(ctx, name); err != nil {
				return nil, err
			}
		}
		m, known := state[full]
		if seen[full] {
			continue
		}
		seen[full] = true
		if known && !m.MayRun() && all {
			fmt.Fprintf(v.Err, "%s is %s: its logs are not shown\n", full, m.State)
			continue
		}
		out = append(out, asked{full, func(ctx context.Context, request string, w io.Writer) error {
			h, err := s.Cluster.Host(ctx, full)
			if err != nil {
				return err
			}
			return stream(ctx, s, h, w, request)
		}})
	}
	switch {
	case len(out) == 0:
		return nil, fail.New(fail.NotFound, "no machine of cluster %s runs", s.Record.Name).Do("naupegos apply creates and starts them")
	case len(out) > mostMachines:
		return nil, fail.New(fail.Invalid, "%d machines are meant, and the logs of at most %d are shown at once", len(out), mostMachines).Do("name machines")
	}
	return out, nil
}

func stream(ctx context.Context, s *operate.Session, h remote.Host, w io.Writer, request string) error {
	return s.Cluster.Dialer.AgentStream(ctx, h, w, "logs", request)
}

// show prints the lines of all machines in the order of time.
func (v *logsVerb) show(ctx context.Context, from []asked) (r result) {
	ctx, cancel := context.WithCancel(ctx)
	out := newPrinter(v, from)
	var readers sync.WaitGroup
	var mu sync.Mutex
	problem := func(name string, err error) {
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() != nil {
			return
		}
		fmt.Fprintf(v.Err, "naupegos: %s: %s\n", name, tool.Printable(strings.TrimPrefix(err.Error(), name+": ")))
		if r.failed == nil {
			r.failed = err
		}
	}
	sources := make([]<-chan logs.Line, len(from))
	for i, m := range from {
		c := make(chan logs.Line, 64)
		sources[i] = c
		readers.Go(func() {
			defer close(c)
			(&reader{verb: v, from: m, to: c, problem: problem}).run(ctx)
		})
	}
	defer func() {
		cancel()
		readers.Wait()
	}()
	open, err := logs.Merge(ctx, sources, out.print)
	if err == nil {
		err = out.flush()
	}
	if err == nil && v.Follow && len(open) > 0 {
		err = logs.Follow(ctx, together(ctx, open), out.printNow)
	}
	r.err = err
	return r
}

// together merges several sources into one, as lines arrive.
func together(ctx context.Context, sources []<-chan logs.Line) <-chan logs.Line {
	c := make(chan logs.Line)
	var all sync.WaitGroup
	for _, s := range sources {
		all.Go(func() {
			for l := range s {
				if l.Present { // sent again after a lost connection
					continue
				}
				select {
				case c <- l:
				case <-ctx.Done():
					return
				}
			}
		})
	}
	go func() {
		all.Wait()
		close(c)
	}()
	return c
}

// reader reads the lines of one machine.
type reader struct {
	verb    *logsVerb
	from    asked
	to      chan<- logs.Line
	problem func(machine string, err error)

	present bool      // the machine has sent its existing lines
	last    time.Time // of its last line
}

// final lists the kinds of errors that a retry can't cure.
var final = []fail.Kind{fail.Invalid, fail.Refused, fail.Unauthorized, fail.NotFound}

// run reads until the machine has sent all its lines. With --follow it reads until ctx ends; after a lost connection it continues after the last line.
func (r *reader) run(ctx context.Context) {
	since, said := time.Time{}, false
	for {
		err := r.once(ctx, since)
		if ctx.Err() != nil {
			return
		}
		if r.last.After(since) {
			since, said = r.last.Add(time.Microsecond), false
		}
		if err != nil && !said {
			r.problem(r.from.name, err)
			said = true
		}
		// Until the machine has sent its existing lines, all others wait for it: no retry.
		if !r.verb.Follow || !r.present || slices.Contains(final, fail.KindOf(err)) {
			return
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return
		}
	}
}

// once reads until the connection ends.
func (r *reader) once(ctx context.Context, since time.Time) error {
	request, err := r.verb.request(since)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := r.from.read(ctx, request, in)
		_ = in.CloseWithError(err) // nil means EOF
		ended <- err
	}()
	read := r.lines(ctx, out)
	cancel()
	_ = out.CloseWithError(io.ErrClosedPipe)
	err = <-ended
	if read != nil {
		return read
	}
	return err
}

func (r *reader) lines(ctx context.Context, in io.Reader) error {
	began := time.Now()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, longestLine)
	for lines.Scan() {
		l, err := logs.Parse(lines.Bytes())
		if err != nil {
			return err
		}
		l.Machine = r.from.name
		select {
		case r.to <- l:
		case <-ctx.Done():
			return ctx.Err()
		}
		if r.last = l.Time; l.Present {
			r.present, r.last = true, began // the machine had no line, or only older ones
		}
	}
	return lines.Err()
}

// stamp is the layout of times for people.
const stamp = "2006-01-02T15:04:05.000Z"

// printer writes lines for people or programs.
type printer struct {
	out    *bufio.Writer
	json   bool
	width  int // of the longest machine name
	colour map[string]string
}

// colours are the colours of the machines, in turn.
var colours = []string{"36", "33", "32", "35", "34", "96", "93", "92", "95", "94"}

func newPrinter(v *logsVerb, from []asked) *printer {
	p := &printer{out: bufio.NewWriter(v.Out), json: v.output == "json", colour: map[string]string{}}
	for i, m := range from {
		p.width = max(p.width, len(m.name))
		if v.Color(v.Out) {
			p.colour[m.name] = colours[i%len(colours)]
		}
	}
	return p
}

func (p *printer) flush() error { return p.out.Flush() }

func (p *printer) printNow(l logs.Line) error {
	if err := p.print(l); err != nil {
		return err
	}
	return p.flush()
}

func (p *printer) print(l logs.Line) error {
	if p.json {
		return output.WriteLine(p.out, l)
	}
	machine := fmt.Sprintf("%-*s", p.width, l.Machine)
	if c := p.colour[l.Machine]; c != "" {
		machine = "\x1b[" + c + "m" + machine + "\x1b[0m"
	}
	_, err := fmt.Fprintf(p.out, "%s %s %s: %s\n", machine, l.Time.UTC().Format(stamp), tool.Printable(strings.TrimSuffix(l.Source(), ".service")), tool.Printable(l.Text))
	return err
}
