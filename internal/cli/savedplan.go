package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan/show"
)

// The kind and the format of files that plan --out writes.
const (
	savedKind   = "naupegos-plan"
	savedFormat = 1
)

// savedPlan is the file that plan --out writes and apply carries out. It holds no secret. Fields may be added; one that gets another
// meaning makes another format.
type savedPlan struct {
	Kind      string          `json:"kind"`
	Format    int             `json:"format"`
	Naupegos  string          `json:"naupegos"` // the version that wrote it
	Made      time.Time       `json:"made"`
	Cluster   string          `json:"cluster"`
	ClusterID string          `json:"clusterID"` // a new cluster gets it
	New       bool            `json:"new"`       // the store did not know the cluster
	Document  string          `json:"document"`
	Observed  savedState      `json:"observed"`
	More      bool            `json:"more"` // apply plans again afterwards, and may find more to do
	Plan      json.RawMessage `json:"plan"` // as plan -o json prints it
	Checksum  string          `json:"checksum"`
}

// savedState is what the plan was made from.
type savedState struct {
	Digest string   `json:"digest"` // of Things
	Things []string `json:"things"`
}

// stateOf describes what a plan of the session was made from.
func (s *session) stateOf(ap *cluster.Applied) savedState {
	things := ap.Observed.Things()
	if s.Bundle != nil {
		things = append(things, "bundle "+s.Bundle.ID)
	}
	if !s.IsNew() {
		things = append(things, "stored document "+sum(s.Found.Document))
	}
	return savedState{Digest: sum([]byte(strings.Join(things, "\n"))), Things: things}
}

func sum(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }

// checksum is that of everything but itself.
func (p savedPlan) checksum() (string, error) {
	p.Checksum = ""
	data, err := json.Marshal(p)
	return sum(data), err
}

// savePlan writes a session's plan to a file that only its owner reads.
func (s *session) savePlan(path string, document []byte, ap *cluster.Applied) error {
	steps, err := json.Marshal(show.JSON(ap.Plan))
	if err != nil {
		return fail.Wrap(fail.Internal, err, "save the plan")
	}
	p := savedPlan{
		Kind: savedKind, Format: savedFormat, Naupegos: version, Made: time.Now().UTC().Truncate(time.Second),
		Cluster: s.Record.Name, ClusterID: s.Record.ID, New: s.IsNew(), Document: string(document), Observed: s.stateOf(ap), More: ap.More, Plan: steps,
	}
	if p.Checksum, err = p.checksum(); err != nil {
		return fail.Wrap(fail.Internal, err, "save the plan")
	}
	data, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return fail.Wrap(fail.Internal, err, "save the plan")
	}
	return replaceFile(path, append(data, '\n'), 0o600)
}

// readPlan reads a saved plan, and the document in it.
func readPlan(path string) (*savedPlan, *v1alpha1.Cluster, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fail.Wrap(fail.Invalid, err, "read the saved plan").Do("naupegos plan -f FILE --out PLAN writes one; a document is applied with -f")
	}
	var p savedPlan
	if err := json.Unmarshal(data, &p); err != nil || p.Kind != savedKind {
		return nil, nil, notAPlan(path, data)
	}
	if p.Format != savedFormat {
		return nil, nil, fail.New(fail.Invalid, "the saved plan has format %d, written by naupegos %s; this one reads format %d", p.Format, p.Naupegos, savedFormat).
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

// check refuses the saved plan where carrying it out would be something else by now than what was shown.
func (p *savedPlan) check(s *session, ap *cluster.Applied) error {
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
	now := s.stateOf(ap).Things
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

// applySaved carries out a saved plan. It was reviewed: nobody is asked, unless there turns out to be more to do afterwards.
func (a *App) applySaved(ctx context.Context, file string, f *runFlags) error {
	saved, doc, err := readPlan(file)
	if err != nil {
		return err
	}
	s, err := a.openDocument(ctx, doc, sessionOptions{verb: "apply", readOnly: true, bundle: getBundle, newest: f.consents.has(cluster.ConsentBundle), newID: saved.ClusterID})
	if err != nil {
		return located(err, "the document in "+file, []byte(saved.Document))
	}
	defer s.Close()
	first, err := s.Cluster.PlanApply(ctx)
	if err != nil {
		return err
	}
	if err := saved.check(s, first); err != nil {
		return err
	}
	t := a.terms(f, doc)
	t.Reviewed = true
	return s.apply(ctx, file, doc, []byte(saved.Document), first, t)
}
