// Package savedplan is the file that plan --out writes and apply carries out: a plan, the document it is of, and what it was made from.
//
// It decides whether carrying the plan out is still what was shown; carrying it out is the verb's business.
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

// Plan is what the file holds. It has no secret. Fields may be added; one that gets another
// meaning makes another format.
type Plan struct {
	Kind      string          `json:"kind"`
	Format    int             `json:"format"`
	Naupegos  string          `json:"naupegos"` // the version that wrote it
	Made      time.Time       `json:"made"`
	Cluster   string          `json:"cluster"`
	ClusterID string          `json:"clusterID"` // a new cluster gets it
	New       bool            `json:"new"`       // the store did not know the cluster
	Document  string          `json:"document"`
	Only      []parts.Part    `json:"only,omitempty"` // parts of the cluster that it is of; none: all
	Observed  State           `json:"observed"`
	More      bool            `json:"more"`             // apply plans again afterwards, and may find more to do
	Agreed    *Agreed         `json:"agreed,omitempty"` // a server made it, and holds it to that; nil: this command did
	Plan      json.RawMessage `json:"plan"`             // as plan -o json prints it
	Checksum  string          `json:"checksum"`
}

// Agreed is what a server is asked for by whoever agrees to a plan of its.
type Agreed struct {
	Asked  operate.Asked `json:"asked"`
	Digest string        `json:"digest"`
}

// State is what a plan was made from.
type State struct {
	Digest string   `json:"digest"` // of Things
	Things []string `json:"things"`
}

// stateOf describes what a plan of the session was made from.
func stateOf(s *operate.Session, ap *cluster.Applied) State {
	things := s.Things(ap)
	return State{Digest: sum([]byte(strings.Join(things, "\n"))), Things: things}
}

func sum(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }

// checksum is that of everything but itself.
func (p Plan) checksum() (string, error) {
	p.Checksum = ""
	data, err := json.Marshal(p)
	return sum(data), err
}

// Write saves a session's plan in a file that only its owner reads. version is this program's.
func Write(path, version string, s *operate.Session, document []byte, only []parts.Part, ap *cluster.Applied) error {
	steps, err := json.Marshal(show.JSON(ap.Plan))
	if err != nil {
		return fail.Wrap(fail.Internal, err, "save the plan")
	}
	return Plan{
		Cluster: s.Record.Name, ClusterID: s.Record.ID, New: s.IsNew(), Document: string(document), Only: only, Observed: stateOf(s, ap), More: ap.More, Plan: steps,
	}.write(path, version)
}

// WriteAgreed saves a server's plan in a file that only its owner reads.
func WriteAgreed(path, version string, p Plan) error {
	p.Observed.Digest = sum(nil) // the server's digest is of what it was made from
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

// Read reads a saved plan, and the document in it.
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
	doc, err := v1alpha1.Parse("the document in "+path, []byte(p.Document))
	return &p, doc, err
}

// notAPlan says what a file is that should have been a saved plan.
func notAPlan(path string, data []byte) error {
	for line := range bytes.Lines(data) {
		if bytes.HasPrefix(line, []byte("apiVersion:")) || bytes.HasPrefix(line, []byte("kind: Cluster")) {
			return fail.New(fail.Invalid, "this is a Cluster document, not a saved plan").At(path).Do("use -f: naupegos apply -f %s", path)
		}
	}
	return fail.New(fail.Invalid, "this is not a saved plan").At(path).Do("naupegos plan -f FILE --out PLAN writes one; a document is applied with -f")
}

// Check refuses the saved plan where carrying it out would be something else by now than what was shown.
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
	return fail.New(fail.Conflict, "what is there has changed since the plan was made; nothing was done\n  %s\n", strings.Join(changes, "\n  ")).
		At(p.Cluster).Do("plan again, and look at the new plan")
}
