package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// Servers is what servers on one store know of each other: which ones are at work.
type Servers interface {
	// BeatServer says that this process serves, for another ttl.
	BeatServer(ctx context.Context, i ServerInfo, ttl time.Duration) error
	// LeaveServer says that it serves no longer.
	LeaveServer(ctx context.Context, id string) error
	// Servers returns the servers that are at work, the oldest first.
	Servers(ctx context.Context) ([]ServerInfo, error)
}

// ServerInfo is a server that is at work.
type ServerInfo struct {
	ID      string    `json:"id"`
	Holder  string    `json:"holder"` // "user@host, pid 42"
	Version string    `json:"version"`
	HTTP    string    `json:"http"` // where it listens
	HTTPS   string    `json:"https"`
	Started time.Time `json:"started"`
	Expires time.Time `json:"expires"` // when it is taken for gone, unless it says otherwise
}

// BeatServer implements Servers.
func (s *database) BeatServer(ctx context.Context, i ServerInfo, ttl time.Duration) error {
	err := s.change(ctx, s.log, twice, func(tx *sql.Tx) error {
		if err := s.used(ctx, tx); err != nil {
			return err
		}
		now, err := s.now(ctx, tx)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO servers (id, holder, version, http, https, started, expires) VALUES ($1, $2, $3, $4, $5, $6, $7)
			ON CONFLICT (id) DO UPDATE SET http = excluded.http, https = excluded.https, expires = excluded.expires`,
			i.ID, s.self.encode(), i.Version, i.HTTP, i.HTTPS, micros(i.Started), micros(now.Add(ttl)))
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
		if f.who.lives(s.self) != dead {
			all = append(all, f.ServerInfo)
		}
	}
	return all, err
}

// serverRow is one row of servers.
type serverRow struct {
	ServerInfo
	who holder
}

func scanServer(row scanner) (r serverRow, err error) {
	var who string
	var started, expires int64
	if err := row.Scan(&r.ID, &who, &r.Version, &r.HTTP, &r.HTTPS, &started, &expires); err != nil {
		return r, err
	}
	r.Started, r.Expires = fromMicros(started), fromMicros(expires)
	r.who, err = decodeHolder(who)
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
		Do("stop it (systemctl stop naupegos, or SIGTERM), and run the same command again; one that vanished counts as gone after %s", time.Until(all[0].Expires).Round(time.Second))
}

// endJobs ends all jobs: what they were agreed to for is not known after a restore.
func endJobs(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, `UPDATE jobs SET state = $1, ended = $2, result = $3 WHERE state <> $1`, JobEnded, micros(time.Now()),
		`{"kind":"`+fail.Interrupted.String()+`","error":"the store was restored from a backup; what this job did after that was made is not known"}`)
	return err
}

// revokedTokens returns when tokens were revoked, by their IDs.
func (s *database) revokedTokens(ctx context.Context, tx *sql.Tx) (map[string]int64, error) {
	type row struct {
		id string
		at int64
	}
	found, err := list(ctx, s, tx, func(sc scanner) (r row, err error) {
		err = sc.Scan(&r.id, &r.at)
		return r, err
	}, "SELECT id, revoked FROM tokens WHERE revoked <> 0")
	all := map[string]int64{}
	for _, r := range found {
		all[r.id] = r.at
	}
	return all, err
}

// revokeAgain has tokens stay revoked that are not so in a backup.
func revokeAgain(ctx context.Context, tx *sql.Tx, revoked map[string]int64) error {
	for id, at := range revoked {
		if _, err := tx.ExecContext(ctx, "UPDATE tokens SET revoked = $1 WHERE id = $2 AND revoked = 0", at, id); err != nil {
			return err
		}
	}
	return nil
}
