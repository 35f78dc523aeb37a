package operate

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/cluster/parts"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/show"
	"github.com/naupegos/naupegos/internal/store"
)

// The verbs that can be asked for.
const (
	Apply   = "apply"
	Destroy = "destroy"
	Renew   = "renew"  // by servers, unasked
	Repair  = "repair" // likewise
)

// Unasked reports whether a verb is one that servers carry out by themselves, where the cluster's document says so: nobody agrees to its plan
// beforehand, and it does no more than its name says.
func Unasked(verb string) bool { return verb == Renew || verb == Repair }

// Asked is a verb with all that decides what it plans: by the command, or over the network.
type Asked struct {
	Verb        string       `json:"verb" enum:"apply,destroy" doc:"What is to be done"`
	Cluster     string       `json:"cluster,omitempty" doc:"The cluster to destroy"`
	Document    string       `json:"document,omitempty" doc:"The Cluster document to apply (YAML)"`
	From        string       `json:"from,omitempty" maxLength:"1000" doc:"What errors call the document: its file"`
	ClusterID   string       `json:"clusterID,omitempty" doc:"The ID that a new cluster gets, as its plan has it"`
	Only        []parts.Part `json:"only,omitempty" doc:"The only parts of the cluster to apply; none: all"`
	KeepVolumes bool         `json:"keepVolumes,omitempty" doc:"Leave the volumes of PersistentVolumeClaims in the cloud"`
	NewBundle   bool         `json:"newBundle,omitempty" doc:"Take the newest bundle of the release, also where the cluster was built with another one"`
}

// Name returns the cluster that is asked about. The document has to be good.
func (a *Asked) Name() (string, error) {
	switch a.Verb {
	case Destroy, Renew, Repair:
		if a.Cluster == "" {
			return "", fail.New(fail.Invalid, "no cluster is named for %s", a.Verb)
		}
		return a.Cluster, nil
	case Apply:
		doc, err := a.parse()
		if err != nil {
			return "", err
		}
		return doc.Metadata.Name, nil
	}
	return "", fail.New(fail.Invalid, "there is no verb %q to ask for", a.Verb).Do("ask for %s or %s", Apply, Destroy)
}

func (a *Asked) parse() (*v1alpha1.Cluster, error) {
	from := a.From
	if from == "" {
		from = "the document"
	}
	return v1alpha1.ParseFilledIn(from, []byte(a.Document))
}

// Begun is a session with the first plan of what was asked.
type Begun struct {
	*Session
	Asked    Asked
	Document *v1alpha1.Cluster
	First    *cluster.Applied
	repair   *cluster.Repair // of Repair: the round
}

// Begin opens a session and makes the first plan. The session closes the store, also where it can't be opened.
func Begin(ctx context.Context, st store.Store, a Asked, o Options) (_ *Begun, err error) {
	b := &Begun{Asked: a}
	if a.Verb == Destroy || Unasked(a.Verb) {
		b.Session, b.Document, err = OpenNamed(ctx, st, a.Cluster, o)
	} else {
		o.NewID = a.ClusterID
		if b.Document, err = a.parse(); err == nil {
			b.Session, err = OpenDocument(ctx, st, b.Document, o)
		} else {
			err = (&Session{Store: st}).CloseWith(err)
		}
	}
	if err != nil {
		return nil, err
	}
	if err := b.plan(ctx); err != nil {
		return nil, b.CloseWith(err)
	}
	return b, nil
}

func (b *Begun) plan(ctx context.Context) (err error) {
	if b.Asked.Verb == Destroy {
		p, err := b.Cluster.PlanDestroy(ctx, cluster.DestroyOptions{KeepVolumes: b.Asked.KeepVolumes, Forget: b.Forget})
		b.First = &cluster.Applied{Plan: p}
		return err
	}
	if Unasked(b.Asked.Verb) {
		return b.planUnasked(ctx)
	}
	b.Cluster.Only(b.Asked.Only)
	b.First, err = b.Cluster.PlanApply(ctx)
	return err
}

// Later says why there may be more to do after the first plan; empty where there is not.
func (b *Begun) Later() string {
	if b.First.Observed == nil {
		return ""
	}
	return b.First.Later()
}

// Digest is of the first plan as it is shown, of the document and of the cluster: whoever agrees to it agrees to just that.
func (b *Begun) Digest() (string, error) {
	steps, err := json.Marshal(show.JSON(b.First.Plan))
	if err != nil {
		return "", fail.Wrap(fail.Internal, err, "digest the plan")
	}
	sum := sha256.New()
	for _, part := range []string{b.Record.ID, b.Asked.Document, string(steps)} {
		fmt.Fprintf(sum, "%d:%s\n", len(part), part)
	}
	return fmt.Sprintf("sha256:%x", sum.Sum(nil)), nil
}

// Things says, a line each, what a plan of the session was made from.
func (s *Session) Things(ap *cluster.Applied) []string {
	var things []string
	if ap.Observed != nil {
		things = ap.Observed.Things()
	}
	if s.Bundle != nil {
		things = append(things, "bundle "+s.Bundle.ID)
	}
	if !s.IsNew() {
		things = append(things, fmt.Sprintf("stored document sha256:%x", sha256.Sum256(s.Found.Document)))
	}
	return things
}

// Done is what came of what was asked.
type Done struct {
	Changed bool     `json:"changed"`
	Kept    []string `json:"kept,omitempty"` // of destroy: volumes that were to stay
	Left    []string `json:"left,omitempty"` // of destroy: machines that were forgotten as they were
}

// CarryOut does what was asked, from the first plan on.
func (b *Begun) CarryOut(ctx context.Context, t Terms) (done Done, err error) {
	if b.Asked.Verb == Destroy {
		return b.destroy(ctx, t)
	}
	if Unasked(b.Asked.Verb) {
		return b.carryOutUnasked(ctx, t)
	}
	t.Commit = func(ctx context.Context) error { return b.Commit(ctx, []byte(b.Asked.Document)) }
	done.Changed, err = b.Converge(ctx, b.First, t)
	return done, err
}

func (b *Begun) destroy(ctx context.Context, t Terms) (done Done, err error) {
	p := b.First.Plan
	if err := b.Session.CarryOut(ctx, p, t); err != nil {
		return done, err
	}
	done.Changed = true
	if done.Kept, err = b.Cluster.KeptVolumes(ctx); err != nil {
		return done, fail.Wrap(fail.KindOf(err), err, "cluster %s is gone; list the volumes that are kept", b.Record.Name)
	}
	for _, s := range p.Steps {
		if s.Consent == cluster.ConsentLeave {
			done.Left = append(done.Left, s.Subject)
		}
	}
	return done, nil
}

// Text says how destroy ended.
func (d Done) Text(name string) string {
	switch {
	case len(d.Kept) > 0:
		return fmt.Sprintf("Cluster %s is gone. Kept of it are:\n  %s\n", name, strings.Join(d.Kept, "\n  "))
	case len(d.Left) > 0:
		return fmt.Sprintf("Cluster %s is gone. What was put on these machines is there still; install them anew before you use them: %s\n",
			name, strings.Join(d.Left, ", "))
	}
	return fmt.Sprintf("Cluster %s is gone; nothing of it is left.\n", name)
}

// SSHDir is where the cluster's ssh configuration lies unless the user says otherwise.
func (s *Session) SSHDir() string { return filepath.Join(s.Store.Dir(), "ssh", s.Record.Name) }

// Forget removes what the store and its directory hold of the cluster: keys, and the ssh configuration with its copy of one.
// The history and the backups stay.
func (s *Session) Forget(ctx context.Context) error {
	if err := os.RemoveAll(s.SSHDir()); err != nil {
		return fail.Wrap(fail.Internal, err, "remove the ssh configuration")
	}
	return s.Store.DeleteCluster(ctx, s.Record.ID)
}

// shownBefore is what was agreed to by those who asked first, before a server vanished.
func shownBefore(p *plan.Plan) *plan.Shown {
	shown := &plan.Shown{}
	shown.Add(p)
	return shown
}
