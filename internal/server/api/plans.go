package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/plan/show"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/server/work"
)

// PlanRequest requests the plan of a verb.
type PlanRequest struct {
	operate.Asked
	Look    bool `json:"look,omitempty" doc:"Only find out whether there is anything to do; the answer has only idle and found"`
	Prepare bool `json:"prepare,omitempty" doc:"First make what the job needs, such as a bundle (minutes): a job needs the digest of such a plan"`
}

// Planned is the plan of a verb. A client agrees to it by its digest.
type Planned struct {
	Plan      json.RawMessage `json:"plan" doc:"As naupegos plan -o json prints it"`
	Digest    string          `json:"digest" doc:"Digest of the plan, the document and the cluster"`
	ClusterID string          `json:"clusterID" doc:"The cluster's ID; a new cluster gets it"`
	New       bool            `json:"new" doc:"The server does not know the cluster yet"`
	Changes   bool            `json:"changes" doc:"Whether there is anything to do"`
	Later     string          `json:"later,omitempty" doc:"Why more changes may be needed afterwards"`
	Said      []string        `json:"said,omitempty" doc:"Messages for people: what was made, or is missing"`
	Asked     operate.Asked   `json:"asked" doc:"The request to send as a job: the same request, with everything fixed that depends on the time"`
	Found     operate.Done    `json:"found" doc:"What was observed before any change"`
	Unready   string          `json:"unready,omitempty" doc:"Why a job with this plan would refuse to begin"`
	Kind      string          `json:"unreadyKind,omitempty" doc:"The kind of that error, as in problems"`
	Idle      bool            `json:"idle,omitempty" doc:"There is nothing to do, and nothing to remember: no job is needed"`
}

// Obstacle returns the error with which a job would refuse to begin, or nil.
func (p *Planned) Obstacle() error {
	if p.Unready == "" {
		return nil
	}
	return fail.New(fail.Named(p.Kind), "%s", p.Unready)
}

// Agreed requests a job that executes a plan, named by its digest.
type Agreed struct{ work.Order }

type planned struct{ Body Planned }

func (a *api) plans() {
	add(a, operation{id: "plan", method: http.MethodPost, path: "/api/v1/plans", role: server.Read, scope: server.Own(), within: long,
		summary: "Show what a verb would do, and change nothing",
		text:    "Pass the plan's digest to POST /api/v1/jobs. With the role read a plan takes the stored document. A plan with a document or edited, with prepare, and one of a restore or an import needs the role operate."}, a.plan)
	add(a, operation{id: "look-at-foreign", method: http.MethodPost, path: "/api/v1/imports", role: server.Operate, scope: server.Own(), within: foreign,
		summary: "Get the document of a cluster that was created with kubeadm, and its differences from a cluster of Naupegos",
		text:    "The server logs in to its hosts by SSH, and changes nothing. The verb import takes the cluster over."}, a.lookAtForeign)
}

// foreign is the time limit of a look at a foreign cluster.
const foreign = 10 * time.Minute

// ForeignRequest names a foreign cluster's host, and the cluster's future name.
type ForeignRequest struct {
	Cluster string `json:"cluster" maxLength:"63" doc:"The cluster's future name"`
	operate.Import
}

// Foreign is the result of a look at a foreign cluster.
type Foreign struct {
	Report json.RawMessage `json:"report" doc:"As naupegos import -o json prints it"`
	Text   string          `json:"text" doc:"The document, below comments that say where the cluster differs"`
}

type foreignOf struct{ Body Foreign }

func (a *api) lookAtForeign(ctx context.Context, in *struct{ Body ForeignRequest }) (*foreignOf, error) {
	if err := may(ctx, server.Operate, in.Body.Cluster); err != nil {
		return nil, err
	}
	o := a.Options(operate.Asked{Verb: "import", Cluster: in.Body.Cluster, Import: &in.Body.Import}, work.Need{})
	f, err := operate.ReadForeign(ctx, a.Store, in.Body.Cluster, in.Body.Import, o.Policy)
	if err != nil {
		return nil, err
	}
	out := &foreignOf{}
	var text strings.Builder
	if err = f.Write(&text); err == nil {
		out.Body.Text = text.String()
		out.Body.Report, err = json.Marshal(f.Report())
	}
	return out, errors.Join(err, f.Close())
}

// mayAsk refuses a request that the operator may not make. That includes a request that uses another cluster's backup.
func mayAsk(ctx context.Context, need server.Role, name string, asked *operate.Asked) error {
	access.Asks(ctx, asked.About().Title)
	if of := asked.Of(); of != "" {
		if err := may(ctx, need, of); err != nil {
			return err
		}
	}
	return may(ctx, need, name)
}

// mayBring refuses a document from an operator with the role read, because a plan connects to the hosts in its document.
func mayBring(ctx context.Context, asked *operate.Asked) error {
	who := access.From(ctx)
	if !asked.Brings() || who.May(server.Operate, who.Cluster) == nil {
		return nil
	}
	access.About(ctx, asked.Cluster)
	return fail.New(fail.Refused, "with the role %s a plan takes the stored document; another document needs the role %s", who.Role, server.Operate).
		Do("plan the stored document (naupegos plan %s), or ask for a token: naupegos server token create --role %s", cmp.Or(asked.Cluster, who.Cluster, "NAME"), server.Operate)
}

func (a *api) plan(ctx context.Context, in *struct{ Body PlanRequest }) (*planned, error) {
	asked := in.Body.Asked
	if err := mayBring(ctx, &asked); err != nil { // before it is parsed
		return nil, err
	}
	name, err := asked.Name()
	if err != nil {
		return nil, err
	}
	need := server.Read
	if in.Body.Prepare || asked.Reaches() || asked.Brings() {
		need = server.Operate
	}
	if err := mayAsk(ctx, need, name, &asked); err != nil {
		return nil, err
	}
	if need == server.Read { // all other plans build bundles, open backups or read other documents
		access.Looks(ctx)
	}
	var said bytes.Buffer
	st, err := a.Open(ctx)
	if err != nil {
		return nil, err
	}
	b, err := operate.Begin(ctx, access.From(ctx).View(st), asked, a.Options(asked, work.Need{Look: in.Body.Look, Prepare: in.Body.Prepare, Build: access.From(ctx).MayBuild(), Say: &said}))
	if err != nil {
		return nil, err
	}
	if b.Closed != nil && in.Body.Prepare {
		return nil, b.CloseWith(b.Closed)
	}
	out := &planned{Planned{ClusterID: b.Record.ID, New: b.IsNew(), Changes: !b.First.Plan.Empty(), Later: b.Later(), Asked: b.Resolved(), Found: b.Found, Idle: b.Idle}}
	if out.Body.Digest, err = b.Digest(); err == nil {
		if out.Body.Plan, err = json.Marshal(show.JSON(b.First.Plan)); err != nil {
			err = fail.Wrap(fail.Internal, err, "write the plan down")
		}
	}
	if no := access.From(ctx).Told(b.First.Unready); no != nil {
		out.Body.Unready, out.Body.Kind = no.Error(), fail.KindOf(no).String()
	}
	if text := strings.TrimSpace(said.String()); text != "" {
		out.Body.Said = strings.Split(text, "\n")
	}
	return out, b.CloseWith(err)
}
