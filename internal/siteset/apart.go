package siteset

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/chart"
	"github.com/naupegos/naupegos/internal/fail"
)

// Limits of a process that renders the sets of one document.
const (
	apartMemory = 2 << 30 // bytes
	apartCPU    = 2 * time.Minute
	apartTime   = 5 * time.Minute
	apartOutput = 32 << 20  // bytes
	apartValues = 1_000_000 // of all objects together
	apartAtOnce = 2         // processes
)

// Renderer renders the sets of a document, as All does.
type Renderer func(ctx context.Context, doc *v1alpha1.Cluster, c Cluster) (map[string]chart.Rendered, error)

// question is the part of a document that the other process needs.
type question struct {
	Manifests []v1alpha1.Manifests
	Charts    []v1alpha1.Chart
	Sources   map[string]string
	Cluster   Cluster
	Limits    apartLimits
}

// apartLimits are the limits of the process, which it sets itself.
type apartLimits struct {
	Memory uint64        // bytes
	CPU    time.Duration // of all processors together
}

// answer is the other process's result.
type answer struct {
	Sets  map[string]chart.Rendered `json:",omitempty"`
	Kind  string                    `json:",omitempty"` // of the error; empty: none
	Error string                    `json:",omitempty"`
}

// Apart returns a renderer that starts this program again with args, which call Answer. An untrusted document can only crash that process, or exhaust
// its limits.
func Apart(args ...string) Renderer {
	return apart(apartLimits{Memory: apartMemory, CPU: apartCPU}, args...)
}

func apart(limits apartLimits, args ...string) Renderer {
	turns := newTurns()
	return func(ctx context.Context, doc *v1alpha1.Cluster, c Cluster) (map[string]chart.Rendered, error) {
		if len(Of(doc)) == 0 {
			return map[string]chart.Rendered{}, nil
		}
		asked, err := json.Marshal(question{doc.Spec.Manifests, doc.Spec.Charts, doc.Sources, c, limits})
		if err != nil {
			return nil, fail.Wrap(fail.Internal, err, "hand over the manifests and charts")
		}
		done, err := turns.take(ctx, doc.Metadata.Name)
		if err != nil {
			return nil, err
		}
		defer done()
		return ask(ctx, args, asked, limits)
	}
}

// ask starts the process and reads its answer.
func ask(ctx context.Context, args []string, asked []byte, limits apartLimits) (map[string]chart.Rendered, error) {
	bounded, cancel := context.WithTimeout(ctx, apartTime)
	defer cancel()
	out, said := &beginning{max: apartOutput + 1}, &beginning{max: 4 << 10}
	cmd := exec.CommandContext(bounded, "/proc/self/exe", args...)
	cmd.Args[0] = os.Args[0]
	cmd.Env, cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = []string{}, "/", bytes.NewReader(asked), out, said
	if v, ok := os.LookupEnv("GOMAXPROCS"); ok {
		cmd.Env = append(cmd.Env, "GOMAXPROCS="+v)
	}
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if cmd.ProcessState == nil {
		return nil, fail.Wrap(fail.Internal, err, "start the process that renders manifests and charts")
	}
	var a answer
	switch status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus); {
	case ctx.Err() != nil:
		return nil, fail.Wrap(fail.KindOf(ctx.Err()), ctx.Err(), "render the manifests and charts")
	case bounded.Err() != nil || status.Signaled() && status.Signal() == syscall.SIGXCPU:
		return nil, fail.New(fail.Refused, "rendering the manifests and charts takes longer than %s of a processor or %s", limits.CPU, apartTime).Do("look for aliases, patches and replacements that multiply values")
	case outOfMemory.MatchString(said.String()), status.Signaled() && status.Signal() == syscall.SIGKILL:
		return nil, fail.New(fail.Refused, "rendering the manifests and charts takes more than %d MiB of memory", limits.Memory>>20).Do("look for aliases, patches and replacements that multiply values")
	case out.Len() > apartOutput:
		return nil, tooLarge()
	case err != nil:
		first, _, _ := strings.Cut(said.String(), "\n")
		return nil, fail.Wrap(fail.Internal, err, "render the manifests and charts: %q", first)
	}
	if err := json.Unmarshal(out.Bytes(), &a); err != nil {
		return nil, fail.Wrap(fail.Internal, err, "read the rendered manifests and charts")
	}
	if a.Kind != "" {
		return nil, fail.New(fail.Named(a.Kind), "%s", a.Error)
	}
	return a.Sets, nil
}

// outOfMemory matches the last message of a Go program that ran out of memory, with or without the race detector.
var outOfMemory = regexp.MustCompile(`out of memory|cannot allocate memory|failed to allocate`)

func tooLarge() error {
	return fail.New(fail.Refused, "the manifests and charts render to more than %d values or %d MiB", apartValues, apartOutput>>20).Do("split them into several clusters' documents, or apply some by other means")
}

// Answer reads another process's question from in, renders it under limits that end this process, and writes the result to out.
func Answer(in io.Reader, out io.Writer) error {
	var q question
	d := json.NewDecoder(in)
	d.UseNumber() // values of charts keep their digits
	if err := d.Decode(&q); err != nil {
		return fail.Wrap(fail.Invalid, err, "read what to render").Do("naupegos server starts this process by itself")
	}
	if err := q.Limits.confine(); err != nil {
		return fail.Wrap(fail.Internal, err, "limit the process that renders")
	}
	doc := &v1alpha1.Cluster{Sources: q.Sources}
	doc.Spec.Manifests, doc.Spec.Charts = q.Manifests, q.Charts
	var a answer
	sets, err := All(doc, q.Cluster)
	if err == nil && values(sets) > apartValues {
		err = tooLarge()
	}
	if a.Sets = sets; err != nil {
		a = answer{Kind: fail.KindOf(err).String(), Error: err.Error()}
	}
	return json.NewEncoder(out).Encode(a)
}

// confine limits the memory and the time of this process. When memory is short, the kernel kills this process first.
func (l apartLimits) confine() error {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return err
	}
	fields := strings.Fields(string(data))
	if len(fields) < 6 {
		return errors.New("/proc/self/statm is too short")
	}
	pages, err := json.Number(fields[5]).Int64()
	if err != nil {
		return err
	}
	memory, cpu := uint64(pages)*uint64(os.Getpagesize())+l.Memory, uint64(l.CPU/time.Second)
	return errors.Join(os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0), unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: memory, Max: memory}),
		unix.Setrlimit(unix.RLIMIT_CPU, &unix.Rlimit{Cur: cpu, Max: cpu + 1}), unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}))
}

// values counts the values of all objects, up to a little more than apartValues.
func values(all map[string]chart.Rendered) (n int) {
	var count func(v any)
	count = func(v any) {
		if n++; n > apartValues {
			return
		}
		switch v := v.(type) {
		case map[string]any:
			for _, x := range v {
				count(x)
			}
		case []any:
			for _, x := range v {
				count(x)
			}
		}
	}
	for _, r := range all {
		for _, u := range r.Objects {
			count(u.Object)
		}
		for _, h := range append(r.Before[:len(r.Before):len(r.Before)], r.After...) {
			count(h.Object.Object)
		}
	}
	return n
}

// beginning is a writer that keeps only the first bytes.
type beginning struct {
	bytes.Buffer
	max int
}

// Write implements io.Writer.
func (h *beginning) Write(p []byte) (int, error) {
	h.Buffer.Write(p[:min(len(p), h.max-h.Len())])
	return len(p), nil
}
