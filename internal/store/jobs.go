package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// KeepJobs is the number of ended jobs that are kept.
const KeepJobs = 500

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

const selectJob = "SELECT id, cluster, verb, title, request, who, state, stop, generation, holder, expires, agreed, result, created_at, ended FROM jobs"

// jobRow is one row of jobs.
type jobRow struct {
	Job
	holder  holder
	expires time.Time
}

// AddJob implements Jobs.
func (s *database) AddJob(ctx context.Context, j Job) (*Job, error) {
	now := time.Now().UTC().Truncate(time.Microsecond)
	j.ID, j.State, j.Created = now.Format("20060102-150405")+"-"+randomHex(6), JobQueued, now
	err := s.change(ctx, s.db, once, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO jobs (id, cluster, verb, title, request, who, state, stop, generation, holder, expires, agreed, result, created_at, ended)
			VALUES ($1, $2, $3, $4, $5, $6, $7, 0, 0, '', 0, '', '', $8, 0)`, j.ID, j.Cluster, j.Verb, j.Title, string(j.Request), j.Who, j.State, micros(now))
		if err != nil {
			return err
		}
		return run(ctx, tx, `DELETE FROM jobs WHERE state = $1 AND id NOT IN (SELECT id FROM jobs ORDER BY created_at DESC, id DESC LIMIT $2)`, JobEnded, KeepJobs)
	})
	if s.d.isUnique(err) {
		return nil, s.busy(ctx, j.Cluster)
	}
	return &j, s.wrap(err, "queue the job")
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
	rows, err := list(ctx, s, s.reads, scanJob, selectJob+" WHERE $1 = '' OR cluster = $1 ORDER BY created_at DESC, id DESC LIMIT $2", cluster, limit)
	all := make([]Job, 0, len(rows))
	for _, r := range rows {
		all = append(all, r.Job)
	}
	return all, s.wrap(err, "list the jobs")
}

// ClaimJob implements Jobs.
func (s *database) ClaimJob(ctx context.Context, ttl time.Duration, who ...string) (claimed *Job, err error) {
	err = s.change(ctx, s.db, once, func(tx *sql.Tx) error {
		claimed = nil
		now, err := s.now(ctx, tx)
		if err != nil {
			return err
		}
		rows, err := list(ctx, s, tx, scanJob, selectJob+" WHERE state <> $1 ORDER BY created_at, id", JobEnded)
		if err != nil {
			return err
		}
		for _, r := range rows {
			if r.State == JobRunning && now.Before(r.expires) && r.holder.lives(s.self) != dead || len(who) > 0 && !slices.Contains(who, r.Who) {
				continue
			}
			mine, err := updated(tx.ExecContext(ctx, "UPDATE jobs SET state = $1, generation = generation + 1, holder = $2, expires = $3 WHERE id = $4 AND generation = $5 AND state = $6",
				JobRunning, s.self.encode(), micros(now.Add(ttl)), r.ID, r.Generation, r.State))
			if err != nil {
				return err
			}
			if mine { // otherwise another server was faster
				r.State, r.Holder = JobRunning, s.self.String()
				r.Generation++
				claimed = &r.Job
				return nil
			}
		}
		return nil
	})
	return claimed, s.wrap(err, "look for a job")
}

// ours changes a claimed job. It returns fail.Conflict if another server has taken it.
func (s *database) ours(ctx context.Context, j *Job, what string, write func(tx *sql.Tx) error) error {
	err := s.change(ctx, s.db, twice, func(tx *sql.Tx) error {
		mine, err := one(ctx, s, tx, value[string], "SELECT id FROM jobs WHERE id = $1 AND generation = $2 AND state = $3"+s.d.sql().forUpdate, j.ID, j.Generation, JobRunning)
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
	return s.ours(ctx, j, "remember the plan of", func(tx *sql.Tx) error {
		return run(ctx, tx, "UPDATE jobs SET agreed = $1 WHERE id = $2", string(agreed), j.ID)
	})
}

// SayJob implements Jobs.
func (s *database) SayJob(ctx context.Context, j *Job, lines []string) error {
	err := s.change(ctx, s.db, once, func(tx *sql.Tx) error {
		_, err := one(ctx, s, tx, value[string], "SELECT id FROM jobs WHERE id = $1 AND generation = $2"+s.d.sql().forUpdate, j.ID, j.Generation)
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
	return s.ours(ctx, j, "end", func(tx *sql.Tx) error {
		return run(ctx, tx, "UPDATE jobs SET state = $1, result = $2, ended = $3 WHERE id = $4", JobEnded, string(result), micros(time.Now()), j.ID)
	})
}

// ReturnJob implements Jobs.
func (s *database) ReturnJob(ctx context.Context, j *Job) error {
	return s.ours(ctx, j, "return", func(tx *sql.Tx) error {
		return run(ctx, tx, "UPDATE jobs SET state = $1 WHERE id = $2", JobQueued, j.ID)
	})
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
	if err := row.Scan(&r.ID, &r.Cluster, &r.Verb, &r.Title, &request, &r.Who, &r.State, &r.Stop, &r.Generation, &who, &expires, &agreed, &result, &created, &ended); err != nil {
		return nil, err
	}
	r.Title = cmp.Or(r.Title, r.Verb)
	if who != "" {
		var err error
		if r.holder, err = decodeHolder(who); err != nil {
			return nil, err
		}
		r.Holder = r.holder.String()
	}
	raw := func(text string) json.RawMessage { return append(json.RawMessage(nil), text...) } // nil if it is empty
	r.Request, r.Agreed, r.Result = raw(request), raw(agreed), raw(result)
	r.expires, r.Created, r.Ended = fromMicros(expires), fromMicros(created), fromMicros(ended)
	return &r, nil
}
