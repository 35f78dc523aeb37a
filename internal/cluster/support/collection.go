// Package support helps to diagnose a cluster: it collects archives of machines' logs without secrets, and finds out from a machine's units why a
// node or the API does not become ready.
//
// It reads machines through a Source and may know providers' machines and SSH hosts, but not the wanted state of the cluster.
package support

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/remote"
)

// Options select the content of a support archive.
type Options struct {
	Since   time.Duration     // age of the oldest log lines; 0 means an hour
	Prefix  string            // the directory inside of the archive
	Extra   map[string][]byte // more files by name, redacted like all others
	Status  func(line string) // gets progress; may be nil
	PerFile int64             // most bytes of each log, its end counts; 0 means 1 MiB
}

// Problem is something that is not in the archive, and why.
type Problem struct {
	Machine string `json:"machine,omitempty"`
	What    string `json:"what"`
	Error   string `json:"error"`
}

// Source is how machines are asked.
type Source interface {
	Stream(ctx context.Context, h remote.Host, stdin io.Reader, stdout io.Writer, argv ...string) error
	Agent(ctx context.Context, h remote.Host, stdin func() io.Reader, args ...string) ([]byte, error)
}

// Bounds of a collection.
const (
	logMachineTime = 3 * time.Minute // for all of one machine
	logCommandTime = time.Minute     // for one command
	logPods        = 200             // logs of containers from one machine, the newest
	logPodBytes    = 128 << 10       // of each
	largest        = 4               // times Options.PerFile: a machine's answer
)

// Collection fills one archive with the machines' answers and the caller's content. It is safe for concurrent use.
type Collection struct {
	Options  Options
	archive  *archive
	source   Source
	mu       sync.Mutex
	problems []Problem
}

// NewCollection begins an archive, which is written to w.
func NewCollection(w io.Writer, o Options, source Source, r *Redactor) *Collection {
	if o.Since <= 0 {
		o.Since = time.Hour
	}
	if o.PerFile <= 0 {
		o.PerFile = 1 << 20
	}
	return &Collection{Options: o, archive: newArchive(w, o.Prefix, r), source: source}
}

// Add puts a file in, or notes why it is missing. An answer of a machine has a bound: root there could make the archive, and the search for secrets in it,
// as large as memory.
func (col *Collection) Add(machine, name string, data []byte, err error) {
	if most := largest * col.Options.PerFile; machine != "" && int64(len(data)) > most {
		data, err = nil, errors.Join(err, fmt.Errorf("the machine answers with %d bytes; %d are taken at most", len(data), most))
	}
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
	col.problems = append(col.problems, Problem{Machine: machine, What: name, Error: string(col.archive.redactor.Redact([]byte(err.Error())))})
}

// JSON adds the result of f.
func (col *Collection) JSON(name string, f func() (any, error)) {
	v, err := f()
	if err != nil {
		col.Add("", name, nil, err)
		return
	}
	data, err := json.MarshalIndent(v, "", "  ")
	col.Add("", name, append(data, '\n'), err)
}

// Finish adds a list of what is missing and completes the archive.
func (col *Collection) Finish() ([]Problem, error) {
	if len(col.problems) > 0 {
		col.JSON("problems.json", func() (any, error) { return col.problems, nil })
	}
	return col.problems, col.archive.close()
}

func (col *Collection) status(format string, args ...any) {
	if col.Options.Status != nil {
		col.mu.Lock()
		defer col.mu.Unlock()
		col.Options.Status(fmt.Sprintf(format, args...))
	}
}

// Machine asks one machine for everything.
func (col *Collection) Machine(ctx context.Context, m provider.Machine, host func() (remote.Host, error)) {
	ctx, cancel := context.WithTimeout(ctx, logMachineTime)
	defer cancel()
	if m.State != provider.Running {
		col.status("%s is %s", m.Name, m.State)
		col.Add(m.Name, "everything", nil, fmt.Errorf("the machine is %s %s", m.State, m.Detail))
		return
	}
	h, err := host()
	if err == nil {
		var facts []byte
		facts, err = col.source.Agent(ctx, h, nil, "facts")
		col.Add(m.Name, "facts.json", facts, nil)
	}
	if err != nil { // nor will it answer the rest
		col.status("%s does not answer", m.Name)
		col.Add(m.Name, "everything", nil, err)
		return
	}
	col.status("asking %s", m.Name)
	status, err := col.source.Agent(ctx, h, nil, "status")
	col.Add(m.Name, "agent-status.json", status, err)
	for name, argv := range commands(m.Role, col.Options.Since) {
		text, err := col.run(ctx, h, col.Options.PerFile, argv...)
		col.Add(m.Name, name, text, err)
	}
	if m.Role != provider.Gateway {
		col.pods(ctx, m.Name, h)
	}
}
