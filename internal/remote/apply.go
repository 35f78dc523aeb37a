package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
)

// ApplyOptions tunes Dialer.Apply.
type ApplyOptions struct {
	DryRun   bool                                              // report what would change, change nothing
	Blob     func(digest string) (io.ReadCloser, int64, error) // opens a blob that the machine lacks, and returns its size; nil: missing blobs are only reported
	Progress func(status string)                               // receives status messages; may be nil
}

func (o ApplyOptions) progress(status string) {
	if o.Progress != nil {
		o.Progress(status)
	}
}

// Apply asks h for its facts, makes it match the configuration that render returns for them, and returns the agent's report. Apply uploads a missing
// agent, and missing blobs if o.Blob has them. If nothing is missing, Apply calls the agent once. It calls render at most once, and returns its error
// unchanged.
func (d *Dialer) Apply(ctx context.Context, h Host, render func(machine.Facts) (machine.Config, error), o ApplyOptions) (machine.Report, error) {
	args := []string{"apply"}
	if o.DryRun {
		args = append(args, "--dry-run")
	}
	var config []byte // as it was sent
	reply := func(facts []byte) (_ []byte, err error) {
		if config == nil {
			config, err = rendered(h, facts, render)
		}
		if err == nil {
			o.progress("applying the machine configuration")
		}
		return config, err
	}
	// The second answer may request images that are known to be missing only once containerd runs; the third must be the last.
	var report machine.Report
	for range 3 {
		var x *exchange
		out, err := d.call(ctx, h, func(out *limitedBuffer) (io.Reader, io.Writer, func()) {
			x = &exchange{out: out, reply: reply, sent: make(chan []byte, 1)}
			return x, x, x.end
		}, args...)
		if x != nil && x.err != nil {
			return machine.Report{}, x.err
		}
		if err != nil {
			return machine.Report{}, err
		}
		earlier := report.Changes
		report = machine.Report{}
		if err := answer(h, out[x.rest:], &report); err != nil {
			return machine.Report{}, err
		}
		report.Changes = append(earlier, report.Changes...)
		if len(report.Missing) == 0 || o.DryRun || o.Blob == nil {
			return report, nil
		}
		missing, err := askedFor(h, report.Missing, config)
		if err != nil {
			return machine.Report{}, err
		}
		for i, digest := range missing {
			o.progress(fmt.Sprintf("uploading blob %d of %d", i+1, len(missing)))
			if err := d.putBlob(ctx, h, digest, o.Blob); err != nil {
				return machine.Report{}, err
			}
		}
	}
	return report, fail.New(fail.Internal, "the machine lacks %d blobs after they were sent", len(report.Missing)).At(h.where())
}

// rendered renders the configuration for facts in the agent's format.
func rendered(h Host, facts []byte, render func(machine.Facts) (machine.Config, error)) ([]byte, error) {
	var f machine.Facts
	if err := answer(h, facts, &f); err != nil {
		return nil, err
	}
	c, err := render(f)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(c)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "write the configuration").At(h.where())
	}
	return data, nil
}

// exchange is the output and the input of one call of the agent that sends a line, reads the reply, and sends the rest.
type exchange struct {
	reply func(line []byte) ([]byte, error)
	out   *limitedBuffer // all output
	rest  int            // where the rest begins in out; 0 while the line is incomplete
	err   error          // of reply

	sent chan []byte   // the reply; holds one
	once sync.Once     // guards sent
	in   *bytes.Reader // what the agent reads; nil until the reply was sent
}

// Write receives the agent's output.
func (x *exchange) Write(p []byte) (int, error) {
	n, err := x.out.Write(p)
	if at := bytes.IndexByte(p[:n], '\n'); at >= 0 && x.rest == 0 {
		x.rest = x.out.Len() - n + at + 1
		var data []byte
		if data, x.err = x.reply(x.out.Bytes()[:x.rest]); x.err != nil {
			data = nil // without a configuration the agent ends
		}
		x.send(data)
	}
	return n, err
}

// Read returns the agent's input once it is known.
func (x *exchange) Read(p []byte) (int, error) {
	if x.in == nil {
		x.in = bytes.NewReader(<-x.sent)
	}
	return x.in.Read(p)
}

// WriteTo implements io.WriterTo, because the reply is already one block.
func (x *exchange) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(<-x.sent)
	return int64(n), err
}

func (x *exchange) send(data []byte) {
	x.once.Do(func() { x.sent <- data })
}

// end ends a Read that still waits for the reply.
func (x *exchange) end() { x.send(nil) }

// digestForm is the form of a blob's digest.
var digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// askedFor returns the blobs that a machine requests, each once. It refuses blobs that the configuration sent to the machine does not name: otherwise
// root on the machine could request any file of this host.
func askedFor(h Host, missing []string, config []byte) ([]string, error) {
	all := slices.Compact(slices.Sorted(slices.Values(missing)))
	for _, digest := range all {
		if !digestForm.MatchString(digest) || !bytes.Contains(config, []byte(`"`+digest+`"`)) {
			return nil, fail.New(fail.Refused, "naupegos-agent apply asks for %.100q, which its configuration does not name", digest).At(h.where()).
				Do("look at the machine: its agent is broken, or another program answers in its place")
		}
	}
	return all, nil
}

func (d *Dialer) putBlob(ctx context.Context, h Host, digest string, open func(string) (io.ReadCloser, int64, error)) error {
	var (
		opened []io.Closer
		size   int64
		failed error
	)
	defer func() {
		for _, c := range opened {
			_ = c.Close() // opened read-only
		}
	}()
	stdin := func() io.Reader {
		var r io.ReadCloser
		if r, size, failed = open(digest); failed != nil {
			return strings.NewReader("")
		}
		opened = append(opened, r)
		return r
	}
	first := stdin()
	if failed != nil {
		return fail.Wrap(fail.KindOf(failed), failed, "open blob %s", digest)
	}
	again := false
	_, err := d.Agent(ctx, h, func() io.Reader {
		if again {
			return stdin()
		}
		again = true
		return first
	}, "blob", "put", digest, "--size", fmt.Sprint(size))
	return err
}
