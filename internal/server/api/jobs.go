package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/store"
)

type jobOf struct{ Body *store.Job }

type jobList struct {
	Body struct {
		Items []store.Job `json:"items"`
	}
}

// JobID is a request about one job. It is exported so that huma sees it as an embedded struct.
type JobID struct {
	ID string `path:"id" maxLength:"64" doc:"The job's ID"`
}

func (a *api) jobs() {
	ofJob := server.Found("job", "id", a.clusterOfJob)
	add(a, operation{id: "create-job", method: http.MethodPost, path: "/api/v1/jobs", role: server.Operate, scope: server.Own(),
		summary: "Carry out a plan", text: "It is refused if anything has changed since: the plan then has another digest. The job does not depend on its client, and outlives its server."}, a.createJob)
	add(a, operation{id: "list-jobs", method: http.MethodGet, path: "/api/v1/jobs", role: server.Read, scope: server.Own(), summary: "List jobs, the newest first"}, a.listJobs)
	add(a, operation{id: "job", method: http.MethodGet, path: "/api/v1/jobs/{id}", role: server.Read, scope: ofJob, summary: "Get a job"}, a.getJob)
	add(a, operation{id: "stop-job", method: http.MethodPost, path: "/api/v1/jobs/{id}/stop", role: server.Operate, scope: ofJob,
		summary: "Stop a job", text: "Running steps finish, and no other step starts; with now, running steps are stopped, too. In both cases the same verb continues later."}, a.stopJob)
	add(a, operation{id: "job-events", method: http.MethodGet, path: "/api/v1/jobs/{id}/events", role: server.Read, scope: ofJob, within: short,
		summary: "Follow a job", text: "Server-Sent Events: line (as naupegos apply --progress json writes it, and lines with event say), then done with the job. With Last-Event-ID, the stream continues after that event."}, a.events)
}

func (a *api) createJob(ctx context.Context, in *struct{ Body Agreed }) (*jobOf, error) {
	name, err := in.Body.Name()
	if err != nil {
		return nil, err
	}
	if err := mayAsk(ctx, server.Operate, name, &in.Body.Asked); err != nil {
		return nil, err
	}
	if in.Body.Digest == "" {
		return nil, fail.New(fail.Invalid, "a job needs the digest of the plan that is agreed to").Do("POST /api/v1/plans first")
	}
	if in.Body.Final() {
		if err := access.Sensitive(ctx); err != nil {
			return nil, err
		}
	}
	who := access.From(ctx)
	in.Body.MayBuild = who.MayBuild()
	j, err := a.Board.Add(ctx, who.Name, name, in.Body.Order)
	return &jobOf{j}, err
}

func (a *api) listJobs(ctx context.Context, in *struct {
	Cluster string `query:"cluster" maxLength:"63" doc:"Only jobs of this cluster"`
	Limit   int    `query:"limit" minimum:"0" maximum:"500" doc:"Maximum number; 0: 20"`
}) (*jobList, error) {
	who := access.From(ctx)
	if in.Cluster == "" {
		in.Cluster = who.Cluster
	}
	if in.Cluster != "" {
		if err := may(ctx, server.Read, in.Cluster); err != nil {
			return nil, err
		}
	}
	all, err := a.view(ctx).Jobs(ctx, in.Cluster, in.Limit)
	out := &jobList{}
	out.Body.Items = all
	return out, err
}

// clusterOfJob returns the cluster of a job.
func (a *api) clusterOfJob(r *http.Request, id string) (string, error) {
	j, err := a.Store.Job(r.Context(), id)
	if err != nil {
		return "", err
	}
	return j.Cluster, nil
}

func (a *api) getJob(ctx context.Context, in *JobID) (*jobOf, error) {
	j, err := a.view(ctx).Job(ctx, in.ID)
	return &jobOf{j}, err
}

func (a *api) stopJob(ctx context.Context, in *struct {
	JobID
	Now bool `query:"now" doc:"Also stop running steps"`
}) (*jobOf, error) {
	how := store.StopSoft
	if in.Now {
		how = store.StopHard
	}
	if err := a.Board.Stop(ctx, in.ID, how); err != nil {
		return nil, err
	}
	j, err := a.view(ctx).Job(ctx, in.ID)
	return &jobOf{j}, err
}

// events streams a job's output.
func (a *api) events(ctx context.Context, in *struct {
	JobID
	Last string `header:"Last-Event-ID" maxLength:"20" doc:"The last event that the client has seen"`
}) (*huma.StreamResponse, error) {
	after := int64(0)
	if in.Last != "" {
		var err error
		if after, err = strconv.ParseInt(in.Last, 10, 64); err != nil || after < 0 {
			return nil, fail.New(fail.Invalid, "Last-Event-ID is not a number")
		}
	}
	return &huma.StreamResponse{Body: func(h huma.Context) {
		r, w := humago.Unwrap(h)
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Cache-Control", "no-store")
		f := &follower{a: a, w: w, control: http.NewResponseController(w), id: in.ID, after: after}
		ctx, cancel := context.WithTimeout(r.Context(), following) // also ends when its reader loses access
		defer cancel()
		if err := f.follow(ctx); err != nil {
			a.Log.Debug("a job is not followed any more", "job", in.ID, "error", err.Error())
		}
	}}, nil
}

// follower is a client that follows a job.
type follower struct {
	a       *api
	w       io.Writer
	control *http.ResponseController
	id      string
	after   int64
}

// Times of followers: the interval of looks at another server's job, and the interval of signs of life in a silent stream.
const (
	lookAgain = 500 * time.Millisecond
	alive     = 15 * time.Second
	following = 24 * time.Hour // then the client must reconnect
	page      = 500
)

// follow writes a job's output until the job has ended, the client leaves, or the server stops.
func (f *follower) follow(ctx context.Context) error {
	tick, sign := time.NewTicker(lookAgain), time.NewTicker(alive)
	defer tick.Stop()
	defer sign.Stop()
	for {
		changed := f.a.Board.Changed() // before the look, so that output during it wakes
		ended, err := f.write(ctx)
		if err != nil || ended {
			return err
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-sign.C:
			if _, err := io.WriteString(f.w, ": still there\n\n"); err != nil {
				return err
			}
			if err := f.control.Flush(); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		case <-f.a.stop.Done():
			return nil // the client reconnects, to this server or another
		}
	}
}

// write writes new output. It first checks whether the job has ended, so that the output is complete in that case.
func (f *follower) write(ctx context.Context) (ended bool, err error) {
	j, err := f.a.view(ctx).Job(ctx, f.id)
	if err != nil {
		return false, err
	}
	wrote := false
	for {
		lines, err := f.a.view(ctx).JobLines(ctx, f.id, f.after, page)
		if err != nil {
			return false, err
		}
		for _, l := range lines {
			if _, err := fmt.Fprintf(f.w, "id: %d\nevent: line\ndata: %s\n\n", l.Seq, l.Line); err != nil {
				return false, err
			}
			f.after, wrote = l.Seq, true
		}
		if len(lines) < page {
			break
		}
	}
	if j.State == store.JobEnded {
		raw, err := json.Marshal(j)
		if err == nil {
			_, err = fmt.Fprintf(f.w, "event: done\ndata: %s\n\n", raw)
		}
		if err != nil {
			return true, err
		}
		return true, f.control.Flush()
	}
	if wrote {
		return false, f.control.Flush()
	}
	return false, nil
}
