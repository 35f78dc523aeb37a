package remote

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
)

// agentBinary is naupegos-agent on this side.
type agentBinary struct {
	path string
	once sync.Once
	hex  string
	err  error
}

// load computes the binary's digest once.
func (b *agentBinary) load() error {
	b.once.Do(func() {
		if b.path == "" {
			b.err = fail.New(fail.Internal, "the dialer has no path of naupegos-agent")
			return
		}
		file, err := b.open()
		if err != nil {
			b.err = err
			return
		}
		defer func() { _ = file.Close() }() // opened read-only
		sum := sha256.New()
		if _, err := io.Copy(sum, file); err != nil {
			b.err = b.unreadable(err)
			return
		}
		b.hex = hex.EncodeToString(sum.Sum(nil))
	})
	return b.err
}

func (b *agentBinary) open() (*os.File, error) {
	file, err := os.Open(b.path)
	if err != nil {
		return nil, b.unreadable(err)
	}
	return file, nil
}

func (b *agentBinary) unreadable(err error) error {
	return fail.Wrap(fail.NotFound, err, "read naupegos-agent").At(b.path).Do("build it with `make build`; it lies beside naupegos")
}

// AgentPath returns the path of this Dialer's agent on every machine. The path contains the agent's digest.
func (d *Dialer) AgentPath() (string, error) {
	if err := d.agent.load(); err != nil {
		return "", err
	}
	return path.Join(machine.AgentDir, d.agent.hex, "naupegos-agent"), nil
}

// maxAgentOutput bounds the output of a machine's agent. A snapshot of all logs is far smaller.
const maxAgentOutput = 256 << 20

// maxAgentErrors bounds the end of an agent's standard error that is kept.
const maxAgentErrors = 16 << 10

// Agent runs a verb of the agent on h and returns its standard output. It uploads a missing agent. It calls stdin again for each attempt; nil means
// no input. The agent's errors keep their kind and hint.
func (d *Dialer) Agent(ctx context.Context, h Host, stdin func() io.Reader, args ...string) ([]byte, error) {
	return d.call(ctx, h, func(out *limitedBuffer) (io.Reader, io.Writer, func()) {
		if stdin == nil {
			return nil, out, func() {}
		}
		return stdin(), out, func() {}
	}, args...)
}

// call runs a verb of the agent for Agent and Apply. talk, called for each attempt, returns what the agent reads, the writer of its output, which
// forwards everything to out, and a function that ends the attempt.
func (d *Dialer) call(ctx context.Context, h Host, talk func(out *limitedBuffer) (io.Reader, io.Writer, func()), args ...string) ([]byte, error) {
	bin, err := d.AgentPath()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for try := 0; ; try++ {
		out := &limitedBuffer{limit: d.most, full: cancel}
		stderr := &tailWriter{limit: maxAgentErrors}
		in, to, end := talk(out)
		status, err := d.exec(ctx, h, in, to, stderr, append([]string{bin}, args...))
		end()
		switch {
		case out.over:
			return nil, fail.New(fail.Refused, "naupegos-agent %s says more than %d MiB", args[0], d.most>>20).At(h.where()).
				Do("look at the machine: its agent is broken, or another program answers in its place")
		case err != nil:
			return nil, err
		case status == 0:
			return out.Bytes(), nil
		case try == 0 && (status == 127 || status == 126): // the wrapper's shell did not find it, or could not run it
			if err := d.upload(ctx, h, bin); err != nil {
				return nil, err
			}
		default:
			return out.Bytes(), agentError(h, args[0], status, stderr.String())
		}
	}
}

// AgentStream runs a verb of the agent on h, like Agent, and copies its output to stdout as it comes.
func (d *Dialer) AgentStream(ctx context.Context, h Host, stdout io.Writer, args ...string) error {
	bin, err := d.AgentPath()
	if err != nil {
		return err
	}
	for try := 0; ; try++ {
		stderr := &tailWriter{limit: maxAgentErrors}
		status, err := d.exec(ctx, h, nil, stdout, stderr, append([]string{bin}, args...))
		switch {
		case err != nil || status == 0:
			return err
		case try == 0 && (status == 127 || status == 126):
			if err := d.upload(ctx, h, bin); err != nil {
				return err
			}
		default:
			return agentError(h, args[0], status, stderr.String())
		}
	}
}

// agentError reads the agent's own error from the last line of its standard error.
func agentError(h Host, verb string, status int, stderr string) error {
	last := stderr[strings.LastIndexByte(stderr, '\n')+1:]
	var f struct{ Kind, What, Where, Hint string }
	if json.Unmarshal([]byte(last), &f) != nil || f.What == "" {
		exit := &ExitError{"naupegos-agent " + verb, status, stderr}
		if s := diagnose(h, stderr); s != nil {
			return fail.Wrap(s.kind, exit, "run the agent").At(h.where()).Do("%s: %s", s.means, s.advice)
		}
		return fail.Wrap(fail.Internal, exit, "run the agent").At(h.where())
	}
	e := fail.New(kindNamed(f.Kind), "%s", f.What).At(h.where())
	if f.Where != "" {
		e = e.At(h.where() + ": " + f.Where)
	}
	e.Hint = f.Hint
	return e
}

func kindNamed(name string) fail.Kind {
	for k := fail.Internal; k <= fail.NotFound; k++ {
		if k.String() == name {
			return k
		}
	}
	return fail.Internal
}

// upload installs the agent: it writes the agent beside its path, checks it by running it, and renames it.
func (d *Dialer) upload(ctx context.Context, h Host, bin string) error {
	file, err := d.agent.open()
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // opened read-only
	dir := path.Dir(bin)
	tmp := path.Join(dir, ".upload-"+rand.Text())
	steps := []struct {
		stdin io.Reader
		argv  []string
	}{
		{nil, []string{"mkdir", "-p", "-m", "0755", dir}},
		{file, []string{"dd", "of=" + tmp, "bs=64k", "conv=fsync", "status=none"}},
		{nil, []string{"chmod", "0755", tmp}},
	}
	for _, s := range steps {
		if _, err := d.Run(ctx, h, s.stdin, s.argv...); err != nil {
			return uploadError(h, err)
		}
	}
	out, err := d.Run(ctx, h, nil, tmp, "version", "--sha256")
	if err == nil && strings.TrimSpace(string(out)) != d.agent.hex {
		err = fail.New(fail.Unreachable, "the agent arrived damaged: the machine reads %q", oneLine(string(out))).At(h.where())
	}
	if err == nil {
		_, err = d.Run(ctx, h, nil, "mv", "-f", "-T", tmp, bin)
	}
	if err != nil {
		_, _ = d.Run(ctx, h, nil, "rm", "-f", tmp) // only wastes space
		return uploadError(h, err)
	}
	return nil
}

// Facts asks the agent about h.
func (d *Dialer) Facts(ctx context.Context, h Host) (machine.Facts, error) {
	var f machine.Facts
	out, err := d.Agent(ctx, h, nil, "facts")
	if err == nil {
		err = answer(h, out, &f)
	}
	return f, err
}

// Life asks the agent since when h and the units managed there have been running.
func (d *Dialer) Life(ctx context.Context, h Host) (machine.Life, error) {
	var l machine.Life
	out, err := d.Agent(ctx, h, nil, "status")
	if err == nil {
		err = answer(h, out, &l)
	}
	return l, err
}

// Updates returns the packages of h with newer versions, except those in hold, and whether h must reboot.
func (d *Dialer) Updates(ctx context.Context, h Host, hold []string) (u machine.Updates, err error) {
	args := []string{"updates"}
	for _, name := range hold {
		args = append(args, "--hold", name)
	}
	out, err := d.Agent(ctx, h, nil, args...)
	if err == nil {
		err = answer(h, out, &u)
	}
	return u, err
}

// RebootReasons returns why h must reboot.
func (d *Dialer) RebootReasons(ctx context.Context, h Host) (u machine.Updates, err error) {
	out, err := d.Agent(ctx, h, nil, "updates", "--reboot-only")
	if err == nil {
		err = answer(h, out, &u)
	}
	return u, err
}

// Update installs the versions that want names.
func (d *Dialer) Update(ctx context.Context, h Host, want machine.Updates) (u machine.Updates, err error) {
	data, err := json.Marshal(want)
	if err != nil {
		return u, fail.Wrap(fail.Internal, err, "write which packages are wanted").At(h.where())
	}
	out, err := d.Agent(ctx, h, func() io.Reader { return bytes.NewReader(data) }, "update")
	if err == nil {
		err = answer(h, out, &u)
	}
	return u, err
}

// pauseLimit bounds how long a pause lasts, whatever happens to the machines; agents end it sooner.
const pauseLimit = 3 * time.Second

// Pause stops a running program on all given hosts at once, and returns when it is stopped. It continues when resume is called, when ctx or the
// connection ends, or after two seconds. A program that can't be stopped continues, without an error.
func (d *Dialer) Pause(ctx context.Context, hosts []Host, program string) (resume func()) {
	bin, err := d.AgentPath()
	if err != nil {
		return func() {}
	}
	ctx, cancel := context.WithTimeout(ctx, pauseLimit)
	var running sync.WaitGroup
	var held []io.Closer
	var paused []<-chan struct{}
	for _, h := range hosts {
		in, hold := io.Pipe()
		said := make(chan struct{})
		tell := sync.OnceFunc(func() { close(said) })
		held, paused = append(held, hold), append(paused, said)
		running.Go(func() {
			defer tell()
			_ = d.Stream(ctx, h, in, tells(tell), bin, "pause", program) // a program that can't be stopped continues
		})
	}
	for _, said := range paused {
		select {
		case <-said:
		case <-ctx.Done():
		}
	}
	return func() {
		for _, hold := range held {
			_ = hold.Close() // a pipe's end never fails
		}
		running.Wait()
		cancel()
	}
}

// tells calls a function on every write.
type tells func()

func (t tells) Write(p []byte) (int, error) {
	t()
	return len(p), nil
}

// Credentials returns the credentials of a machine's pods.
func (d *Dialer) Credentials(ctx context.Context, h Host) (list []machine.Credential, err error) {
	out, err := d.Agent(ctx, h, nil, "credentials")
	if err == nil {
		err = answer(h, out, &list)
	}
	return list, err
}

func answer(h Host, out []byte, v any) error {
	if err := json.Unmarshal(out, v); err != nil {
		return fail.Wrap(fail.Internal, err, "read the agent's answer").At(h.where())
	}
	return nil
}
