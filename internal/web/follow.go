package web

import (
	"context"
	"net/http"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/gitread"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/plan/delta"
	"github.com/naupegos/naupegos/internal/plan/show"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/server/follow"
	"github.com/naupegos/naupegos/internal/server/work"
)

// followData shows what a cluster follows, and the review that waits.
type followData struct {
	Cluster, URL, Branch, Path, Apply string
	Status                            follow.Status
	Commit, Applied, Tone             string
	Diff                              []delta.Hunk // between the stored document and that of the review
	MayChange                         bool
	Known                             bool // the store has the cluster
}

// followOf returns what a cluster follows; nil: nothing.
func followOf(ctx context.Context, p *Pages, who *access.Operator, cluster, stored string) (*followData, error) {
	all := follow.NewFollows(p.c.Store.ServerSecrets())
	f, err := all.Get(ctx, cluster)
	if fail.KindOf(err) == fail.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s, err := all.Status(ctx, f)
	if err != nil {
		return nil, err
	}
	d := &followData{Cluster: cluster, URL: f.URL, Branch: f.Branch, Path: f.Path, Apply: f.Apply, Commit: gitread.Short(s.Seen), Applied: gitread.Short(s.Applied), Tone: followTone(s.State),
		MayChange: who.May(server.Operate, cluster) == nil}
	if s.Review != nil {
		hunks, _ := delta.Hunks(stored, s.Review.Asked.Document)
		d.Diff = show.SafeHunks(hunks)
		review := *s.Review
		review.Plan, review.Asked = nil, operate.Asked{} // the page of the plan shows them
		s.Review = &review
	}
	s.Read = time.Time{} // it alone must not make the page change
	d.Status = *s
	return d, nil
}

func followTone(state string) string {
	switch state {
	case follow.InStep:
		return "ok"
	case follow.Refused, follow.Unfetched, follow.Unplanned:
		return "bad"
	}
	return "warn"
}

// reviewPage shows what a cluster follows. The store may not have the cluster yet.
func reviewPage(p *Pages, r *http.Request, who *access.Operator) (*view, error) {
	name, stored := r.PathValue("name"), ""
	c, err := p.c.Store.Cluster(r.Context(), name)
	switch {
	case err == nil:
		stored = string(c.Document)
	case fail.KindOf(err) != fail.NotFound:
		return nil, err
	}
	d, err := followOf(r.Context(), p, who, name, stored)
	if err != nil {
		return nil, err
	}
	if d == nil {
		return nil, fail.New(fail.NotFound, "cluster %.63s follows no repository", name).Do("naupegos server follow add lets it follow one")
	}
	d.Known = c != nil
	return &view{name: "review", Title: "Followed document · " + name, Command: "naupegos server follow show " + quote(name), Live: liveOf(r), Data: d}, nil
}

// reviewed returns the request of the review that a form names. It is the one that waits, or an error.
func reviewed(p *Pages, r *http.Request, id string) (*follow.Review, error) {
	review, err := follow.NewFollows(p.c.Store.ServerSecrets()).Reviewed(r.Context(), r.PathValue("name"), id)
	if err == nil && review.ID != id {
		err = fail.New(fail.Conflict, "this review was replaced").At(r.PathValue("name")).Do("look at the new one")
	}
	return review, err
}

// planReview plans a review anew, and asks for approval.
func planReview(p *Pages, r *http.Request, who *access.Operator, id string) (*view, error) {
	name := r.PathValue("name")
	review, err := reviewed(p, r, id)
	if err != nil {
		return nil, err
	}
	v, err := p.plan(r, who, name, review.Asked)
	if err != nil {
		return nil, err
	}
	d := v.Data.(planData)
	d.Fields, d.Review = []field{{"review", id}}, review
	v.Data, v.Command = d, "naupegos server follow show "+quote(name)+"\nnaupegos server follow approve "+quote(name)+" "+gitread.Short(review.Commit)
	return v, nil
}

// jobOf returns the job that a form agrees to.
func jobOf(p *Pages, r *http.Request, who *access.Operator) (work.Order, error) {
	o := work.Order{Digest: r.PostFormValue("digest"), Consents: r.PostForm["consent"], Yes: r.PostForm.Has("yes"), MayBuild: who.MayBuild()}
	if id := r.PostFormValue("review"); id != "" {
		review, err := reviewed(p, r, id)
		if err == nil {
			o.Asked, o.Review = review.Asked, id
		}
		return o, err
	}
	asked, err := askedOf(r)
	if err == nil {
		err = confirmed(r, asked)
	}
	if err == nil && asked.Final() {
		err = p.sensitive(r, who, "agreed to "+asked.Verb, asked.Cluster)
	}
	o.Asked = asked
	return o, err
}

// reviewsOf lists the follows that need a person.
func reviewsOf(ctx context.Context, p *Pages, who *access.Operator) (all []need, err error) {
	list, err := follow.NewFollows(p.c.Store.ServerSecrets()).List(ctx, who.Sees)
	for i := range list {
		s, name := &list[i].Status, list[i].Cluster
		n := need{Where: name, Since: s.Since, Href: "/ui/reviews/" + name, Button: "Look at it", Command: "naupegos server follow show " + quote(name), Tone: followTone(s.State)}
		switch {
		case s.Review != nil && s.State != follow.Under:
			n.Cause, n.Button, n.Tone = "the change of commit "+gitread.Short(s.Review.Commit)+" waits for approval", "Review", "warn"
		case n.Tone == "bad":
			n.Cause = "its document in Git: " + s.State + ": " + s.Why
		default:
			continue
		}
		all = append(all, n)
	}
	return all, err
}
