// Package savedplan implements the file that plan --out writes and apply executes: a plan, its document, and the observations that it is based on.
//
// It checks whether executing the plan still does what was shown; the verb executes it.
package savedplan

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/cli/wholefile"
	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/cluster/parts"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/plan/show"
)

// The kind and the format of files that plan --out writes.
const (
	kind   = "naupegos-plan"
	format = 1
)

// Plan is the content of the file. It contains no secret. Fields may be added; a field with a new meaning requires a new format.
type Plan struct {
	Kind      string          `json:"kind"`
	Format    int             `json:"format"`
	Naupegos  string          `json:"naupegos"` // version that wrote it
	Made      time.Time       `json:"made"`
	Cluster   string          `json:"cluster"`
	ClusterID string          `json:"clusterID"` // ID for a new cluster, too
	New       bool            `json:"new"`       // the store did not have the cluster
	Document  string          `json:"document"`
	Only      []parts.Part    `json:"only,omitempty"` // parts of the cluster that the plan covers; none: all
	Observed  State           `json:"observed"`
	More      bool            `json:"more"`             // apply plans again afterwards, and may find more to do
	Agreed    *Agreed         `json:"agreed,omitempty"` // the request for a server's plan; nil: this command made it
	Plan      json.RawMessage `json:"plan"`             // as in the output of plan -o json
	Checksum  string          `json:"checksum"`
}

// Agreed is the request that executes a server's plan, once the user agrees.
type Agreed struct {
	Asked  operate.Asked `json:"asked"`
	Digest string        `json:"digest"`
}

// State is the observed state that a plan is based on.
type State struct {
	Digest string   `json:"digest"` // of Things
	Things []string `json:"things"`
}

// stateOf returns the state that a session's plan is based on.
func stateOf(s *operate.Session, ap *cluster.Applied) State {
	things := s.Things(ap)
	return State{Digest: sum([]byte(strings.Join(things, "\n"))), Things: things}
}

func sum(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }

// checksum returns the checksum of all other fields.
func (p Plan) checksum() (string, error) {
	p.Checksum = ""
	data, err := json.Marshal(p)
	return sum(data), err
}

// Write saves a session's plan in a file that only its owner can read. version is this program's version.
func Write(path, version string, s *operate.Session, document []byte, only []parts.Part, ap *cluster.Applied) error {
	steps, err := json.Marshal(show.JSON(ap.Plan))
	if err != nil {
		return fail.Wrap(fail.Internal, err, "save the plan")
	}
	return Plan{
		Cluster: s.Record.Name, ClusterID: s.Record.ID, New: s.IsNew(), Document: string(document), Only: only, Observed: stateOf(s, ap), More: ap.More, Plan: steps,
	}.write(path, version)
}

// WriteAgreed saves a server's plan in a file that only its owner can read.
func WriteAgreed(path, version string, p Plan) error {
	p.Observed.Digest = sum(nil) // the server's own digest covers the state
	return p.write(path, version)
}

func (p Plan) write(path, version string) (err error) {
	p.Kind, p.Format, p.Naupegos, p.Made = kind, format, version, time.Now().UTC().Truncate(time.Second)
	if p.Checksum, err = p.checksum(); err != nil {
		return fail.Wrap(fail.Internal, err, "save the plan")
	}
	data, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return fail.Wrap(fail.Internal, err, "save the plan")
	}
	return wholefile.Replace(path, append(data, '\n'), 0o600)
}

// Read reads a saved plan, and parses its document.
func Read(path string) (*Plan, *v1alpha1.Cluster, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fail.Wrap(fail.Invalid, err, "read the saved plan").Do("naupegos plan -f FILE --out PLAN writes one; a document is applied with -f")
	}
	var p Plan
	if err := json.Unmarshal(data, &p); err != nil || p.Kind != kind {
		return nil, nil, notAPlan(path, data)
	}
	if p.Format != format {
		return nil, nil, fail.New(fail.Invalid, "the saved plan has format %d, written by naupegos %s; this one reads format %d", p.Format, p.Naupegos, format).
			At(path).Do("plan again with this naupegos")
	}
	if want, err := p.checksum(); err != nil || want != p.Checksum || sum([]byte(strings.Join(p.Observed.Things, "\n"))) != p.Observed.Digest {
		return nil, nil, fail.New(fail.Invalid, "the saved plan is damaged: its checksum does not fit").At(path).Do("plan again: naupegos plan -f FILE --out %s", path)
	}
	doc, err := validation.Parse("the document in "+path, []byte(p.Document))
	return &p, doc, err
}

// notAPlan returns an error about a file that is not a saved plan.
func notAPlan(path string, data []byte) error {
	for line := range bytes.Lines(data) {
		if bytes.HasPrefix(line, []byte("apiVersion:")) || bytes.HasPrefix(line, []byte("kind: Cluster")) {
			return fail.New(fail.Invalid, "this is a Cluster document, not a saved plan").At(path).Do("use -f: naupegos apply -f %s", path)
		}
	}
	return fail.New(fail.Invalid, "this is not a saved plan").At(path).Do("naupegos plan -f FILE --out PLAN writes one; a document is applied with -f")
}

// Check refuses a saved plan if executing it would now differ from the shown plan.
func (p *Plan) Check(s *operate.Session, ap *cluster.Applied) error {
	var changes []string
	switch {
	case p.New && !s.IsNew():
		changes = append(changes, "+ cluster "+p.Cluster+" exists by now")
	case !p.New && s.IsNew():
		changes = append(changes, "- cluster "+p.Cluster+" is not in the store")
	case p.ClusterID != s.Record.ID:
		changes = append(changes, "~ cluster "+p.Cluster+" is another one: "+s.Record.ID+", not "+p.ClusterID)
	}
	steps, err := show.Differences(ap.Plan, p.Plan)
	if err != nil {
		return err
	}
	now := stateOf(s, ap).Things
	for _, t := range p.Observed.Things {
		if !slices.Contains(now, t) {
			changes = append(changes, "- "+t)
		}
	}
	for _, t := range now {
		if !slices.Contains(p.Observed.Things, t) {
			changes = append(changes, "+ "+t)
		}
	}
	if changes = append(changes, steps...); len(changes) == 0 {
		return nil
	}
	return fail.New(fail.Conflict, "the cluster has changed since the plan was made; nothing was done\n  %s\n", strings.Join(changes, "\n  ")).
		At(p.Cluster).Do("plan again, and look at the new plan")
}
