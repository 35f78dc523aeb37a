package store

import (
	"cmp"
	"context"
	"crypto/hmac"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store/process"
	"github.com/naupegos/naupegos/internal/store/rowmac"
)

// KeepJobs is the number of ended jobs that are kept. Of each stored cluster, a few are kept even if others have had many since, and only so many bytes:
// nobody can remove other clusters' jobs from the history, or fill the store, by jobs that end at once.
const (
	KeepJobs    = 500
	keepJobsOf  = 20
	keepBytesOf = 32 << 20 // of requests and plans
)

// Jobs is a queue of work for all servers on one store: one server at a time carries out a job, and another one takes over if it vanishes.
type Jobs interface {
	// AddJob queues a job and returns it with its ID. It returns fail.Conflict if another job of the cluster has not ended.
	AddJob(ctx context.Context, j Job) (*Job, error)
	// Job returns the job with an ID, or fail.NotFound.
	Job(ctx context.Context, id string) (*Job, error)
	// Jobs returns the jobs of a cluster, or of all clusters if cluster is empty, newest first, at most limit (0 means 20).
	Jobs(ctx context.Context, cluster string, limit int) ([]Job, error)
	// ClaimJob takes the oldest job that is queued or whose server has vanished, or returns nil. The claim lasts for ttl unless BeatJob renews it.
	// who restricts it to jobs that these users requested.
	ClaimJob(ctx context.Context, ttl time.Duration, who ...string) (*Job, error)
	// BeatJob renews a claim for another ttl, and returns whether and how the job is to stop. It returns fail.Conflict if another server has taken
	// the job.
	BeatJob(ctx context.Context, j *Job, ttl time.Duration) (Stop, error)
	// AgreeJob stores the plan that a claimed job carries out.
	AgreeJob(ctx context.Context, j *Job, agreed json.RawMessage) error
	// SayJob appends lines to the output of a claimed job.
	SayJob(ctx context.Context, j *Job, lines []string) error
	// EndJob ends a claimed job with its result.
	EndJob(ctx context.Context, j *Job, result json.RawMessage) error
	// ReturnJob returns a claimed job to the queue, for another server.
	ReturnJob(ctx context.Context, j *Job) error
	// StopJob asks a job to stop; it never weakens an earlier request. It is no error if the job has ended.
	StopJob(ctx context.Context, id string, s Stop) error
	// JobLines returns what a job has told after a line, at most limit lines.
	JobLines(ctx context.Context, id string, after int64, limit int) ([]JobLine, error)
}

// Stop says whether and how a job is to stop.
type Stop int

// The ways to stop.
const (
	GoOn     Stop = iota // not at all
	StopSoft             // after the running steps
	StopHard             // now
)

// The states of a job.
const (
	JobQueued  = "queued"
	JobRunning = "running"
	JobEnded   = "ended"
)

// Job is a verb that a server executes on a cluster.
type Job struct {
	ID         string          `json:"id"`
	Cluster    string          `json:"cluster"` // the cluster's name
	Verb       string          `json:"verb"`
	Title      string          `json:"title"` // the verb with its arguments
	Request    json.RawMessage `json:"-"`     // the request
	Who        string          `json:"who"`
	State      string          `json:"state"` // queued, running, ended
	Stop       Stop            `json:"stop,omitempty"`
	Generation int64           `json:"attempt"`          // number of servers that have taken it
	Holder     string          `json:"holder,omitempty"` // the server that has it, or had it last
	Agreed     json.RawMessage `json:"-"`                // the plan that is executed; empty before
	Result     json.RawMessage `json:"result,omitempty"` // set once it has ended
	Created    time.Time       `json:"created"`
	Ended      time.Time       `json:"ended,omitzero"`
}

// JobLine is one line of a job's output.
type JobLine struct {
	Seq  int64
	Line string
}

const selectJob = "SELECT id, cluster, verb, title, request, who, state, stop, generation, holder, expires, agreed, result, created_at, ended, mac FROM jobs"

// jobRow is one row of jobs.
type jobRow struct {
	Job
	holder  process.ID
	expires time.Time
	title   string // as stored
	mac     string
	genuine bool // verified
}

// macValues returns the values of macJobs' columns. They leave out the job's holder and its deadline.
func (r *jobRow) macValues() []string {
	return []string{r.ID, r.Cluster, r.Verb, r.title, string(r.Request), r.Who, r.State, string(r.Agreed), string(r.Result), decimal(micros(r.Created)), decimal(micros(r.Ended))}
}

// AddJob implements Jobs.
func (s *database) AddJob(ctx context.Context, j Job) (*Job, error) {
	now := time.Now().UTC().Truncate(time.Microsecond)
	j.ID, j.State, j.Created = now.Format("20060102-150405")+"-"+randomHex(6), JobQueued, now
	j.Agreed, j.Result, j.Ended = nil, nil, time.Time{}
	r := jobRow{Job: j, title: j.Title}
	err := s.changeSigned(ctx, once, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO jobs (id, cluster, verb, title, request, who, state, stop, generation, holder, expires, agreed, result, created_at, ended, mac)
			VALUES ($1, $2, $3, $4, $5, $6, $7, 0, 0, '', 0, '', '', $8, 0, $9)`, j.ID, j.Cluster, j.Verb, j.Title, string(j.Request), j.Who, j.State, micros(now),
			s.mac(rowmac.Jobs, r.macValues()...))
		if err != nil {
			return err
		}
		return pruneJobs(ctx, tx)
	})
	if s.d.IsUnique(err) {
		return nil, s.busy(ctx, j.Cluster)
	}
	return &j, s.wrap(err, "queue the job")
}

// pruneJobs removes the jobs that are not kept.
func pruneJobs(ctx context.Context, tx *sql.Tx) error {
	return run(ctx, tx, `DELETE FROM jobs WHERE id IN (SELECT id FROM (SELECT id, cluster, ROW_NUMBER() OVER (ORDER BY created_at DESC, id DESC) AS nth,
			ROW_NUMBER() OVER (PARTITION BY cluster ORDER BY created_at DESC, id DESC) AS nth_of,
			SUM(octet_length(request) + octet_length(agreed)) OVER (PARTITION BY cluster ORDER BY created_at DESC, id DESC) AS bytes_of
			FROM jobs WHERE state = $1) j
		WHERE nth > $2 AND (nth_of > $3 OR NOT EXISTS (SELECT 1 FROM clusters c WHERE c.name = j.cluster)) OR nth_of > 1 AND bytes_of > $4)`,
		JobEnded, KeepJobs, keepJobsOf, keepBytesOf)
}

// busy returns the error that names the job that a cluster already has.
func (s *database) busy(ctx context.Context, cluster string) error {
	r, err := one(ctx, s, s.reads, scanJob, selectJob+" WHERE cluster = $1 AND state <> $2", cluster, JobEnded)
	if errors.Is(err, sql.ErrNoRows) {
		return fail.New(fail.Conflict, "another job has just ended").At(cluster).Do("run the same command again")
	}
	if err != nil {
		return s.wrap(err, "look for the cluster's job")
	}
	return fail.New(fail.Conflict, "the server has a job of this cluster already: %s by %s, %s", r.Title, r.Who, r.State).At(cluster).Do("wait until %s has ended", r.ID)
}

// Job implements Jobs.
func (s *database) Job(ctx context.Context, id string) (*Job, error) {
	r, err := one(ctx, s, s.reads, scanJob, selectJob+" WHERE id = $1", id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fail.New(fail.NotFound, "there is no job %s", id)
	}
	if err == nil {
		err = s.verify(ctx, rowmac.Jobs, r.mac, r.macValues()...)
	}
	if err != nil {
		return nil, s.wrap(err, "read the job %s", id)
	}
	return &r.Job, nil
}

// Jobs implements Jobs.
func (s *database) Jobs(ctx context.Context, cluster string, limit int) ([]Job, error) {
	if limit <= 0 {
		limit = 20
	}
	// A list of many clusters has many documents: each is verified, and forgotten, before the next is read.
	rows, err := list(ctx, s, s.reads, func(row scanner) (*jobRow, error) {
		r, err := scanJob(row)
		if r.genuine = err == nil && hmac.Equal([]byte(r.mac), []byte(s.mac(rowmac.Jobs, r.macValues()...))); r.genuine && cluster == "" {
			r.Request, r.Agreed = nil, nil
		}
		return r, err
	}, selectJob+" WHERE $1 = '' OR cluster = $1 ORDER BY created_at DESC, id DESC LIMIT $2", cluster, limit)
	all := make([]Job, 0, len(rows))
	for _, r := range rows {
		if all = append(all, r.Job); !r.genuine {
			return nil, s.verify(ctx, rowmac.Jobs, r.mac, r.macValues()...)
		}
	}
	return all, s.wrap(err, "list the jobs")
}

// ClaimJob implements Jobs. It ends a job that was not written with the store's identity, and returns the error that names it.
func (s *database) ClaimJob(ctx context.Context, ttl time.Duration, who ...string) (claimed *Job, err error) {
	var forged error
	err = s.change(ctx, s.db, once, func(tx *sql.Tx) error {
		claimed, forged = nil, nil
		now, err := s.now(ctx, tx)
		if err != nil {
			return err
		}
		rows, err := list(ctx, s, tx, scanJob, selectJob+" WHERE state <> $1 ORDER BY created_at, id", JobEnded)
		if err != nil {
			return err
		}
		for _, r := range rows {
			if r.State == JobRunning && now.Before(r.expires) && r.holder.Lives(s.self) != process.Dead || len(who) > 0 && !slices.Contains(who, r.Who) {
				continue
			}
			if err := s.current(ctx, tx); err != nil {
				return err
			}
			if forged = verifyIn(ctx, s, tx, rowmac.Jobs, r.mac, r.macValues()...); forged != nil {
				return disown(ctx, s, tx, r)
			}
			was := r.State
			r.State = JobRunning
			mine, err := updated(tx.ExecContext(ctx, "UPDATE jobs SET state = $1, generation = generation + 1, holder = $2, expires = $3, mac = $4 WHERE id = $5 AND generation = $6 AND state = $7",
				JobRunning, s.self.Encode(), micros(now.Add(ttl)), s.mac(rowmac.Jobs, r.macValues()...), r.ID, r.Generation, was))
			if err != nil {
				return err
			}
			if mine { // otherwise another server was faster
				r.Holder = s.self.String()
				r.Generation++
				claimed = &r.Job
				return nil
			}
		}
		return nil
	})
	return claimed, s.wrap(cmp.Or(err, forged), "look for a job")
}

// disown ends a forged job. It replaces the row's content before the row gets a MAC.
func disown(ctx context.Context, s *database, tx *sql.Tx, r *jobRow) error {
	r.Verb, r.title, r.Who, r.State, r.Request, r.Agreed, r.Ended = "forged", "", "unknown", JobEnded, nil, nil, time.Now()
	r.Result = json.RawMessage(`{"kind":"` + fail.Refused.String() + `","error":"this job was written into the database by something else than naupegos, or is damaged: it was not carried out"}`)
	return run(ctx, tx, "UPDATE jobs SET verb = $1, title = '', who = $2, state = $3, request = '', agreed = '', result = $4, ended = $5, mac = $6 WHERE id = $7",
		r.Verb, r.Who, r.State, string(r.Result), micros(r.Ended), s.mac(rowmac.Jobs, r.macValues()...), r.ID)
}

// changeJob changes a claimed job's content, which its MAC covers.
func (s *database) changeJob(ctx context.Context, j *Job, what string, set func(r *jobRow)) error {
	return s.ours(ctx, j, what, func(tx *sql.Tx) error {
		r, err := one(ctx, s, tx, scanJob, selectJob+" WHERE id = $1", j.ID)
		if err == nil {
			err = s.current(ctx, tx)
		}
		if err == nil {
			err = verifyIn(ctx, s, tx, rowmac.Jobs, r.mac, r.macValues()...)
		}
		if err != nil {
			return err
		}
		set(r)
		return run(ctx, tx, "UPDATE jobs SET state = $1, agreed = $2, result = $3, ended = $4, mac = $5 WHERE id = $6",
			r.State, string(r.Agreed), string(r.Result), micros(r.Ended), s.mac(rowmac.Jobs, r.macValues()...), j.ID)
	})
}

// ours changes a claimed job. It returns fail.Conflict if another server has taken it.
func (s *database) ours(ctx context.Context, j *Job, what string, write func(tx *sql.Tx) error) error {
	err := s.change(ctx, s.db, twice, func(tx *sql.Tx) error {
		mine, err := one(ctx, s, tx, value[string], "SELECT id FROM jobs WHERE id = $1 AND generation = $2 AND state = $3"+s.d.SQL().ForUpdate, j.ID, j.Generation, JobRunning)
		if errors.Is(err, sql.ErrNoRows) {
			return fail.New(fail.Conflict, "another server has taken the job over").At(j.ID)
		}
		if err != nil || mine == "" {
			return err
		}
		return write(tx)
	})
	return s.wrap(err, "%s the job %s", what, j.ID)
}

// BeatJob implements Jobs.
func (s *database) BeatJob(ctx context.Context, j *Job, ttl time.Duration) (stop Stop, err error) {
	err = s.ours(ctx, j, "keep", func(tx *sql.Tx) error {
		now, err := s.now(ctx, tx)
		if err == nil {
			_, err = tx.ExecContext(ctx, "UPDATE jobs SET expires = $1 WHERE id = $2", micros(now.Add(ttl)), j.ID)
		}
		if err == nil {
			stop, err = one(ctx, s, tx, value[Stop], "SELECT stop FROM jobs WHERE id = $1", j.ID)
		}
		return err
	})
	return stop, err
}

// AgreeJob implements Jobs.
func (s *database) AgreeJob(ctx context.Context, j *Job, agreed json.RawMessage) error {
	return s.changeJob(ctx, j, "remember the plan of", func(r *jobRow) { r.Agreed = agreed })
}

// SayJob implements Jobs.
func (s *database) SayJob(ctx context.Context, j *Job, lines []string) error {
	err := s.change(ctx, s.db, once, func(tx *sql.Tx) error {
		_, err := one(ctx, s, tx, value[string], "SELECT id FROM jobs WHERE id = $1 AND generation = $2"+s.d.SQL().ForUpdate, j.ID, j.Generation)
		if errors.Is(err, sql.ErrNoRows) {
			return fail.New(fail.Conflict, "another server has taken the job over").At(j.ID)
		}
		if err != nil {
			return err
		}
		last, err := one(ctx, s, tx, value[int64], "SELECT COALESCE(MAX(seq), 0) FROM job_lines WHERE job_id = $1", j.ID)
		if err != nil {
			return err
		}
		var values []any
		for i, line := range lines {
			values = append(values, j.ID, last+int64(i)+1, printable(line))
		}
		return insert(ctx, tx, "job_lines", []string{"job_id", "seq", "line"}, values)
	})
	return s.wrap(err, "write what the job %s tells", j.ID)
}

// EndJob implements Jobs.
func (s *database) EndJob(ctx context.Context, j *Job, result json.RawMessage) error {
	return s.changeJob(ctx, j, "end", func(r *jobRow) { r.State, r.Result, r.Ended = JobEnded, result, time.Now() })
}

// ReturnJob implements Jobs.
func (s *database) ReturnJob(ctx context.Context, j *Job) error {
	return s.changeJob(ctx, j, "return", func(r *jobRow) { r.State = JobQueued })
}

// StopJob implements Jobs.
func (s *database) StopJob(ctx context.Context, id string, stop Stop) error {
	if _, err := s.Job(ctx, id); err != nil {
		return err
	}
	_, err := s.exec(ctx, s.db, "UPDATE jobs SET stop = $1 WHERE id = $2 AND stop < $1 AND state <> $3", int(stop), id, JobEnded)
	return s.wrap(err, "stop the job %s", id)
}

// JobLines implements Jobs.
func (s *database) JobLines(ctx context.Context, id string, after int64, limit int) ([]JobLine, error) {
	lines, err := list(ctx, s, s.reads, func(row scanner) (l JobLine, err error) {
		err = row.Scan(&l.Seq, &l.Line)
		return l, err
	}, "SELECT seq, line FROM job_lines WHERE job_id = $1 AND seq > $2 ORDER BY seq LIMIT $3", id, after, limit)
	return lines, s.wrap(err, "read what the job %s told", id)
}

func scanJob(row scanner) (*jobRow, error) {
	var r jobRow
	var request, who, agreed, result string
	var expires, created, ended int64
	if err := row.Scan(&r.ID, &r.Cluster, &r.Verb, &r.Title, &request, &r.Who, &r.State, &r.Stop, &r.Generation, &who, &expires, &agreed, &result, &created, &ended, &r.mac); err != nil {
		return &r, err
	}
	r.title, r.Title = r.Title, cmp.Or(r.Title, r.Verb)
	if who != "" {
		var err error
		if r.holder, err = process.Decode(who); err != nil {
			return &r, err
		}
		r.Holder = r.holder.String()
	}
	raw := func(text string) json.RawMessage { return append(json.RawMessage(nil), text...) } // nil if it is empty
	r.Request, r.Agreed, r.Result = raw(request), raw(agreed), raw(result)
	r.expires, r.Created, r.Ended = fromMicros(expires), fromMicros(created), fromMicros(ended)
	return &r, nil
}
