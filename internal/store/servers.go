package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store/process"
	"github.com/naupegos/naupegos/internal/store/rowmac"
)

// Servers lets the servers on one store coordinate: which of them are running, and which unattended duties each performs, so that no two do the same.
type Servers interface {
	// BeatServer records that this process serves, for another ttl.
	BeatServer(ctx context.Context, i ServerInfo, ttl time.Duration) error
	// LeaveServer records that a server has stopped serving.
	LeaveServer(ctx context.Context, id string) error
	// Servers returns the running servers, oldest first.
	Servers(ctx context.Context) ([]ServerInfo, error)

	// TakeDuty takes a recurring duty for a cluster, for ttl. It returns nil if the duty is not due or another server performs it. A new duty is due
	// at once.
	TakeDuty(ctx context.Context, cluster, kind string, ttl time.Duration) (*Duty, error)
	// KeepDuty keeps a duty for another ttl, and stores its intermediate result if it has an outcome. It returns fail.Conflict if another server has
	// taken it, or it was dropped.
	KeepDuty(ctx context.Context, d *Duty, ttl time.Duration) error
	// EndDuty stores the result of a duty, which is due again after the given time. It returns fail.Conflict if another server has taken it.
	EndDuty(ctx context.Context, d *Duty, again time.Duration) error
	// Duties returns the duties of a cluster, or of all clusters if cluster is empty, sorted by cluster and kind.
	Duties(ctx context.Context, cluster string) ([]Duty, error)
	// DropDuty deletes a duty that is no longer wanted. It is no error if the duty does not exist.
	DropDuty(ctx context.Context, cluster, kind string) error
}

// ServerInfo is a running server.
type ServerInfo struct {
	ID      string    `json:"id"`
	Holder  string    `json:"holder"` // "user@host, pid 42"
	Version string    `json:"version"`
	HTTP    string    `json:"http"` // the address on which it listens
	HTTPS   string    `json:"https"`
	Started time.Time `json:"started"`
	Expires time.Time `json:"expires"` // when it counts as gone, unless it renews this
}

// The outcomes of a duty.
const (
	DutyDone    = "done"    // something was changed or found
	DutyNothing = "nothing" // nothing had to be done
	DutyFailed  = "failed"
	DutyPutOff  = "put off" // something prevented it for now
)

// Duty is a recurring task that servers perform for a cluster on their own.
type Duty struct {
	Cluster    string    `json:"cluster"`
	Kind       string    `json:"kind"`
	Due        time.Time `json:"due"`
	Holder     string    `json:"holder,omitempty"` // the server that performs it now; empty: none
	Generation int64     `json:"-"`
	Failures   int       `json:"failures"` // since the last success
	Began      time.Time `json:"began,omitzero"`
	Ended      time.Time `json:"ended,omitzero"`
	Succeeded  time.Time `json:"succeeded,omitzero"`
	Outcome    string    `json:"outcome,omitempty"` // of the last completed run: done, nothing, failed, put off
	Message    string    `json:"message,omitempty"` // for people
	Job        string    `json:"job,omitempty"`     // the job that made changes
}

// BeatServer implements Servers.
func (s *database) BeatServer(ctx context.Context, i ServerInfo, ttl time.Duration) error {
	err := s.change(ctx, s.log, twice, func(tx *sql.Tx) error {
		if err := s.used(ctx, tx); err != nil {
			return err
		}
		if err := s.current(ctx, tx); err != nil {
			return err
		}
		now, err := s.now(ctx, tx)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO servers (id, holder, version, http, https, started, expires) VALUES ($1, $2, $3, $4, $5, $6, $7)
			ON CONFLICT (id) DO UPDATE SET http = excluded.http, https = excluded.https, expires = excluded.expires`,
			i.ID, s.self.Encode(), i.Version, i.HTTP, i.HTTPS, micros(i.Started), micros(now.Add(ttl)))
		if err == nil { // others that vanished long ago
			_, err = tx.ExecContext(ctx, "DELETE FROM servers WHERE expires < $1", micros(now.Add(-24*time.Hour)))
		}
		return err
	})
	return s.wrap(err, "say that a server is at work")
}

// LeaveServer implements Servers.
func (s *database) LeaveServer(ctx context.Context, id string) error {
	_, err := s.exec(ctx, s.log, "DELETE FROM servers WHERE id = $1", id)
	return s.wrap(err, "say that a server has stopped")
}

// Servers implements Servers.
func (s *database) Servers(ctx context.Context) ([]ServerInfo, error) {
	all, err := s.serving(ctx, s.log)
	return all, s.wrap(err, "list the servers")
}

// serving lists the servers that are at work.
func (s *database) serving(ctx context.Context, q querier) ([]ServerInfo, error) {
	now, err := s.now(ctx, q)
	if err != nil {
		return nil, err
	}
	found, err := list(ctx, s, q, scanServer, "SELECT id, holder, version, http, https, started, expires FROM servers WHERE expires > $1 ORDER BY started, id", micros(now))
	all := []ServerInfo{}
	for _, f := range found {
		if f.who.Lives(s.self) != process.Dead {
			all = append(all, f.ServerInfo)
		}
	}
	return all, err
}

// serverRow is one row of servers.
type serverRow struct {
	ServerInfo
	who process.ID
}

func scanServer(row scanner) (r serverRow, err error) {
	var who string
	var started, expires int64
	if err := row.Scan(&r.ID, &who, &r.Version, &r.HTTP, &r.HTTPS, &started, &expires); err != nil {
		return r, err
	}
	r.Started, r.Expires = fromMicros(started), fromMicros(expires)
	r.who, err = process.Decode(who)
	r.Holder = r.who.String()
	return r, err
}

// unserved refuses what must not happen below a server that is at work.
func (s *database) unserved(ctx context.Context, tx *sql.Tx) error {
	all, err := s.serving(ctx, tx)
	if err != nil || len(all) == 0 {
		return err
	}
	return fail.New(fail.Conflict, "a server is at work on this store: %s, since %s", all[0].Holder, all[0].Started.Local().Format(time.DateTime)).At(s.where).
		Do("stop it (systemctl stop naupegos-server, or SIGTERM), and run the same command again; one that vanished counts as gone after %s", time.Until(all[0].Expires).Round(time.Second))
}

const selectDuty = "SELECT cluster, kind, due, generation, holder, expires, failures, began, ended, succeeded, outcome, message, job FROM duties"

// dutyRow is one row of duties.
type dutyRow struct {
	Duty
	who     process.ID
	expires time.Time
}

// TakeDuty implements Servers.
func (s *database) TakeDuty(ctx context.Context, cluster, kind string, ttl time.Duration) (taken *Duty, err error) {
	err = s.change(ctx, s.db, once, func(tx *sql.Tx) error {
		taken = nil
		_, err := tx.ExecContext(ctx, `INSERT INTO duties (cluster, kind, due, generation, holder, expires, failures, began, ended, succeeded, outcome, message, job)
			VALUES ($1, $2, 0, 0, '', 0, 0, 0, 0, 0, '', '', '') ON CONFLICT (cluster, kind) DO NOTHING`, cluster, kind)
		if err != nil {
			return err
		}
		now, err := s.now(ctx, tx)
		if err != nil {
			return err
		}
		r, err := one(ctx, s, tx, scanDuty, selectDuty+" WHERE cluster = $1 AND kind = $2"+s.d.SQL().ForUpdate, cluster, kind)
		if err != nil {
			return err
		}
		if now.Before(r.Due) || r.Holder != "" && now.Before(r.expires) && r.who.Lives(s.self) != process.Dead {
			return nil
		}
		r.Generation++
		r.Began, r.Holder = now, s.self.String()
		_, err = tx.ExecContext(ctx, "UPDATE duties SET generation = $1, holder = $2, expires = $3, began = $4 WHERE cluster = $5 AND kind = $6",
			r.Generation, s.self.Encode(), micros(now.Add(ttl)), micros(now), cluster, kind)
		taken = &r.Duty
		return err
	})
	if err != nil {
		return nil, s.wrap(err, "take what is to be done for cluster %s: %s", cluster, kind)
	}
	return taken, nil
}

// KeepDuty implements Servers.
func (s *database) KeepDuty(ctx context.Context, d *Duty, ttl time.Duration) error {
	err := s.change(ctx, s.log, twice, func(tx *sql.Tx) error {
		now, err := s.now(ctx, tx)
		if err != nil {
			return err
		}
		set, args := "expires = $1", []any{micros(now.Add(ttl)), d.Cluster, d.Kind, d.Generation}
		if d.Outcome != "" {
			d.succeeded(now)
			set += ", failures = $5, succeeded = $6, outcome = $7, message = $8"
			args = append(args, d.Failures, micros(d.Succeeded), d.Outcome, printable(d.Message))
		}
		return d.held(updated(tx.ExecContext(ctx, "UPDATE duties SET "+set+" WHERE cluster = $2 AND kind = $3 AND generation = $4 AND holder <> ''", args...)))
	})
	return s.wrap(err, "stay at %s", d.Kind)
}

// succeeded notes when it went well.
func (d *Duty) succeeded(now time.Time) {
	if d.Outcome == DutyDone || d.Outcome == DutyNothing {
		d.Succeeded = now
	}
}

// held is fail.Conflict where a duty is not this server's any more.
func (d *Duty) held(mine bool, err error) error {
	if err == nil && !mine {
		err = fail.New(fail.Conflict, "another server has taken it over, or it is wanted no longer").At(d.Cluster)
	}
	return err
}

// EndDuty implements Servers.
func (s *database) EndDuty(ctx context.Context, d *Duty, again time.Duration) error {
	err := s.change(ctx, s.db, twice, func(tx *sql.Tx) error {
		now, err := s.now(ctx, tx)
		if err != nil {
			return err
		}
		d.succeeded(now)
		return d.held(updated(tx.ExecContext(ctx, `UPDATE duties SET due = $1, holder = '', expires = 0, failures = $2, ended = $3, succeeded = $4, outcome = $5, message = $6, job = $7
			WHERE cluster = $8 AND kind = $9 AND generation = $10`, micros(now.Add(again)), d.Failures, micros(now), micros(d.Succeeded), d.Outcome,
			printable(d.Message), d.Job, d.Cluster, d.Kind, d.Generation)))
	})
	return s.wrap(err, "note what came of %s", d.Kind)
}

// Duties implements Servers.
func (s *database) Duties(ctx context.Context, cluster string) ([]Duty, error) {
	rows, err := list(ctx, s, s.db, scanDuty, selectDuty+" WHERE $1 = '' OR cluster = $1 ORDER BY cluster, kind", cluster)
	all := make([]Duty, 0, len(rows))
	for _, r := range rows {
		all = append(all, r.Duty)
	}
	return all, s.wrap(err, "list what servers do unasked")
}

// DropDuty implements Servers.
func (s *database) DropDuty(ctx context.Context, cluster, kind string) error {
	_, err := s.exec(ctx, s.db, "DELETE FROM duties WHERE cluster = $1 AND kind = $2", cluster, kind)
	return s.wrap(err, "forget what is not to be done any more")
}

func scanDuty(row scanner) (r dutyRow, err error) {
	var who string
	var due, expires, began, ended, succeeded int64
	if err := row.Scan(&r.Cluster, &r.Kind, &due, &r.Generation, &who, &expires, &r.Failures, &began, &ended, &succeeded, &r.Outcome, &r.Message, &r.Job); err != nil {
		return r, err
	}
	r.Due, r.expires, r.Began, r.Ended, r.Succeeded = fromMicros(due), fromMicros(expires), fromMicros(began), fromMicros(ended), fromMicros(succeeded)
	if who != "" {
		if r.who, err = process.Decode(who); err != nil {
			return r, err
		}
		r.Holder = r.who.String()
	}
	return r, nil
}

// endJobs ends all jobs of a store that was restored from the backup s: their approvals do not hold for the restored state.
func endJobs(ctx context.Context, s *database, tx *sql.Tx) error {
	rows, err := list(ctx, s, tx, scanJob, selectJob+" WHERE state <> $1", JobEnded)
	if err != nil {
		return err
	}
	for _, r := range rows {
		r.State, r.Ended = JobEnded, time.Now()
		r.Result = json.RawMessage(`{"kind":"` + fail.Interrupted.String() + `","error":"the store was restored from a backup; what this job did after that was made is not known"}`)
		if err := run(ctx, tx, "UPDATE jobs SET state = $1, ended = $2, result = $3, mac = $4 WHERE id = $5", r.State, micros(r.Ended), string(r.Result), s.mac(rowmac.Jobs, r.macValues()...), r.ID); err != nil {
			return err
		}
	}
	return nil
}

// revokedTokens returns the IDs of revoked tokens, and when each was revoked.
func revokedTokens(ctx context.Context, s *database, tx *sql.Tx) ([]Token, error) {
	return list(ctx, s, tx, func(sc scanner) (t Token, err error) {
		var at int64
		err = sc.Scan(&t.ID, &at)
		t.Revoked = fromMicros(at)
		return t, err
	}, "SELECT id, revoked FROM tokens WHERE revoked <> 0")
}

// revokeAgain revokes the tokens that were revoked after s, a backup, was created.
func (s *database) revokeAgain(ctx context.Context, tx *sql.Tx, revoked []Token) (err error) {
	for i := 0; i < len(revoked) && err == nil; i++ {
		err = s.revoke(ctx, tx, revoked[i].ID, micros(revoked[i].Revoked))
	}
	return err
}
