// Package follow lets clusters follow documents in Git repositories: it looks for new commits, checks and plans their documents, and keeps each plan as a
// review until a person approves it, or adds the job by itself where the administrator says so.
//
// Each follow is looked at by one of the servers on a store at a time. Package gitread reads repositories, package work carries plans out. The package does
// not depend on HTTP.
package follow

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/gitread"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/policy"
	"github.com/naupegos/naupegos/internal/server/work"
)

// How a reviewed document is applied.
const (
	Approve = "approve" // after a person has approved it
	Auto    = "auto"    // at once, unless a person has to decide
)

// Follow says which file of which repository is the document of a cluster.
type Follow struct {
	Cluster string `json:"cluster"`
	gitread.Source
	Credential string    `json:"credential,omitempty"` // its name; empty: the repository is public
	Apply      string    `json:"apply"`                // approve or auto
	Every      string    `json:"every"`                // the interval between looks
	Changed    time.Time `json:"changed"`
}

// digest identifies the settings.
func (f *Follow) digest() string {
	raw, err := json.Marshal(f)
	if err != nil {
		return "" // never: it has texts alone
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(raw))
}

// interval returns Every as a duration.
func (f *Follow) interval() time.Duration {
	d, err := time.ParseDuration(f.Every)
	if err != nil || d < shortest {
		return usual
	}
	return d
}

const (
	usual    = time.Minute
	shortest = 10 * time.Second
	longest  = 24 * time.Hour
)

// check refuses settings that no server could follow.
func (f *Follow) check() error {
	if f.Cluster == "" || len(f.Cluster) > 63 || strings.Trim(f.Cluster, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return fail.New(fail.Invalid, "%.70q is not the name of a cluster", f.Cluster).Do("name it as metadata.name of the document does")
	}
	if f.Apply != Approve && f.Apply != Auto {
		return fail.New(fail.Invalid, "--apply %.20q", f.Apply).Do("choose %s or %s", Approve, Auto)
	}
	if d, err := time.ParseDuration(f.Every); err != nil || d < shortest || d > longest {
		return fail.New(fail.Invalid, "--every %.20q", f.Every).Do("give a duration from %s to %s", shortest, longest)
	}
	return f.Source.Check()
}

// The states of a follow.
const (
	New       = "new"               // no server has looked yet
	InStep    = "in step"           // the stored document equals the repository's
	Waits     = "review waits"      // a plan waits for approval
	Under     = "being applied"     // a job is under way
	Refused   = "refused"           // the commit or its document is not used
	Unplanned = "cannot be planned" // the plan could not be made now
	Unfetched = "cannot be fetched" // the repository could not be read
)

// Status is the state of a follow.
type Status struct {
	State   string    `json:"state"`
	Why     string    `json:"why,omitempty"`
	Kind    string    `json:"kind,omitempty"` // of the error in Why, as in problems
	Since   time.Time `json:"since,omitzero"` // since when it has State and Why
	Seen    string    `json:"seen,omitempty"` // the newest commit that was read
	Signer  string    `json:"signer,omitempty"`
	Applied string    `json:"applied,omitempty"` // the last commit that was applied, or found in step
	Job     string    `json:"job,omitempty"`     // the last job for this follow
	Review  *Review   `json:"review,omitempty"`

	Failed   string    `json:"failed,omitempty"`   // the error of the last job, if it failed
	FailedAt string    `json:"failedAt,omitempty"` // the commit of that job
	Settings string    `json:"settings,omitempty"` // digest of the follow's settings
	Stored   string    `json:"stored,omitempty"`   // digest of the stored document when Seen was read
	Read     time.Time `json:"read,omitzero"`      // when Seen was read
}

// Review is the plan of a document that waits for approval.
type Review struct {
	ID        string          `json:"id"` // a new one with each plan: the commit's beginning, and a random end
	Commit    string          `json:"commit"`
	Signer    string          `json:"signer,omitempty"`
	Committer string          `json:"committer,omitempty"` // as the commit says
	Subject   string          `json:"subject,omitempty"`
	Planned   time.Time       `json:"planned"`
	Person    string          `json:"person,omitempty"` // why a person has to approve it
	Summary   string          `json:"summary"`
	Consents  []string        `json:"consents,omitempty"` // that an approval has to give
	Unready   string          `json:"unready,omitempty"`  // why a job would refuse to begin
	Later     string          `json:"later,omitempty"`    // why more may be needed afterwards
	Plan      json.RawMessage `json:"plan,omitempty"`     // as naupegos plan -o json prints it; left out if it is very large
	Digest    string          `json:"digest"`             // of the plan
	Asked     operate.Asked   `json:"asked"`              // the request to send as a job, with the document
}

// maxPlan limits the plan in a review, in bytes.
const maxPlan = 1 << 20

// Order returns the job that carries the review out.
func (r *Review) Order(consents []string, yes bool) work.Order {
	return work.Order{Asked: r.Asked, Digest: r.Digest, Consents: consents, Yes: yes, Review: r.ID}
}

// Follows are the follows of a store.
type Follows struct{ in policy.Secrets }

// NewFollows returns the follows among the server's secrets of a store, which keeps them encrypted.
func NewFollows(in policy.Secrets) Follows { return Follows{in} }

// The names of follows and of their states among the server's secrets.
const (
	prefix      = "follow/"
	statePrefix = "follow-state/"
)

// Add stores a follow. An existing one of the same cluster is a conflict unless replace is set.
func (a Follows) Add(ctx context.Context, f Follow, replace bool) error {
	if err := f.check(); err != nil {
		return err
	}
	f.Changed = time.Now().UTC().Truncate(time.Second)
	raw, err := json.Marshal(f)
	if err != nil {
		return fail.Wrap(fail.Internal, err, "write the follow of %s down", f.Cluster)
	}
	if replace {
		return a.in.Put(ctx, prefix+f.Cluster, raw)
	}
	kept, err := a.in.PutIfAbsent(ctx, prefix+f.Cluster, raw)
	if err == nil && string(kept) != string(raw) {
		err = fail.New(fail.Conflict, "cluster %s follows a repository already", f.Cluster).Do("--replace replaces it")
	}
	return err
}

// Remove deletes a follow and its state: fail.NotFound if there is none. The cluster stays as it is.
func (a Follows) Remove(ctx context.Context, cluster string) error {
	if _, err := a.Get(ctx, cluster); err != nil && fail.KindOf(err) != fail.Internal { // a damaged one is removed, too
		return err
	}
	if err := a.in.Delete(ctx, prefix+cluster); err != nil {
		return err
	}
	return a.in.Delete(ctx, statePrefix+cluster)
}

// Get returns the follow of a cluster: fail.NotFound if there is none.
func (a Follows) Get(ctx context.Context, cluster string) (*Follow, error) {
	f := &Follow{}
	if err := a.read(ctx, prefix+cluster, f); err != nil {
		if fail.KindOf(err) == fail.NotFound {
			err = fail.New(fail.NotFound, "cluster %.63s follows no repository", cluster).Do("naupegos server follow list shows all follows")
		}
		return nil, err
	}
	return f, nil
}

func (a Follows) read(ctx context.Context, name string, to any) error {
	raw, err := a.in.Get(ctx, name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, to); err != nil {
		return fail.Wrap(fail.Internal, err, "read %s of the store", name).Do("remove the follow, and add it again")
	}
	return nil
}

// Status returns the state of a follow.
func (a Follows) Status(ctx context.Context, f *Follow) (*Status, error) {
	s := &Status{}
	err := a.read(ctx, statePrefix+f.Cluster, s)
	switch {
	case fail.KindOf(err) == fail.NotFound:
		return &Status{State: New, Settings: f.digest()}, nil
	case err != nil:
		return nil, err
	case s.Settings != f.digest(): // of other settings: nothing of it was verified by these
		return &Status{State: New, Settings: f.digest(), Applied: s.Applied}, nil
	}
	return s, nil
}

func (a Follows) put(ctx context.Context, cluster string, s *Status) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return fail.Wrap(fail.Internal, err, "write the state of a follow down")
	}
	return a.in.Put(ctx, statePrefix+cluster, raw)
}

// Followed is a follow with its status.
type Followed struct {
	Follow
	Status Status `json:"status"`
}

// List returns the follows that sees admits, by cluster.
func (a Follows) List(ctx context.Context, sees func(cluster string) bool) ([]Followed, error) {
	names, err := a.in.Names(ctx)
	if err != nil {
		return nil, err
	}
	all := []Followed{}
	for _, n := range names {
		cluster, ok := strings.CutPrefix(n, prefix)
		if !ok || !sees(cluster) {
			continue
		}
		f, err := a.Get(ctx, cluster)
		if fail.KindOf(err) == fail.NotFound {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		s, err := a.Status(ctx, f)
		if err != nil {
			return nil, err
		}
		all = append(all, Followed{*f, *s})
	}
	return all, nil
}

// Reviewed returns the review that waits, given its ID or the beginning of its commit: fail.NotFound if none waits, fail.Conflict if the branch has moved on.
func (a Follows) Reviewed(ctx context.Context, cluster, which string) (*Review, error) {
	f, err := a.Get(ctx, cluster)
	if err != nil {
		return nil, err
	}
	s, err := a.Status(ctx, f)
	switch {
	case err != nil:
		return nil, err
	case s.Review == nil:
		return nil, fail.New(fail.NotFound, "no review waits: the follow is %s", s.State).At(cluster).Do("naupegos server follow list shows its state")
	case len(which) < 7 || !strings.HasPrefix(s.Review.Commit, which) && s.Review.ID != which:
		return nil, fail.New(fail.Conflict, "the review %.21s was replaced by that of commit %s; nothing was done", which, gitread.Short(s.Review.Commit)).At(cluster).Do("look at the new one, and approve that")
	}
	return s.Review, nil
}

// Check refuses a job for a review that does not wait any more, or that has another document.
func (a Follows) Check(ctx context.Context, cluster string, o work.Order) error {
	r, err := a.Reviewed(ctx, cluster, o.Review)
	if err != nil {
		return err
	}
	if o.Verb != operate.Apply || o.Document != r.Asked.Document || o.Review != r.ID {
		return fail.New(fail.Conflict, "the document is not the one of the review; nothing was done").At(cluster).Do("send the request that the review has")
	}
	return nil
}
