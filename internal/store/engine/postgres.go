package engine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store/filelock"
)

// Limits of connections to PostgreSQL.
const (
	connectTimeout = 10 * time.Second // unless the URL or PGCONNECT_TIMEOUT says otherwise
	maxConns       = 8
	idleConns      = 4
)

// advisoryLock is the number of the database lock for creating and migrating the store: "naupegos" as a number.
const advisoryLock int64 = 0x6e617570_65676f73

// postgres is the dialect of a PostgreSQL database.
type postgres struct {
	db     *sql.DB
	where  string
	tables []string
	wait   filelock.Wait
}

// OpenPostgres prepares connections but opens none. Settings that are not in the URL come from libpq's variables and files (PGPASSWORD, PGPASSFILE,
// PGSERVICEFILE and so on). where names the database without its password; tables are those that exclusive locks.
func OpenPostgres(address string, tables []string, wait filelock.Wait) (db *sql.DB, d Dialect, where string, err error) {
	cfg, err := parsePostgres(address)
	if err != nil {
		return nil, nil, "", err
	}
	where = placeOf(cfg)
	db = stdlib.OpenDB(*cfg, stdlib.OptionAfterConnect(greet))
	db.SetMaxOpenConns(maxConns)
	db.SetMaxIdleConns(idleConns)
	return db, postgres{db, where, tables, wait}, where, nil
}

// greet begins a session. A process that is suspended in the middle of a transaction must not block others: the server ends the transaction before
// the lease expires.
func greet(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, "SET idle_in_transaction_session_timeout = '10s'")
	return err
}

// IsURL reports whether text names a PostgreSQL database.
func IsURL(text string) bool {
	return strings.HasPrefix(text, "postgres://") || strings.HasPrefix(text, "postgresql://")
}

// HasPassword reports whether a URL contains a password; an unreadable URL is not used at all.
func HasPassword(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	_, set := u.User.Password()
	return set || u.Query().Has("password") || u.Query().Has("sslpassword")
}

// parsePostgres parses a URL. Errors contain no part of it, because it may contain a password.
func parsePostgres(address string) (*pgx.ConnConfig, error) {
	const form = "write it as postgres://USER@HOST/DATABASE, special characters of a user or password as %XX"
	if !IsURL(address) {
		return nil, fail.New(fail.Invalid, "the store's address does not begin with postgres://").Do("%s", form)
	}
	if _, err := url.Parse(address); err != nil {
		return nil, fail.New(fail.Invalid, "the store's address is not a URL").Do("%s", form) // cause withheld: it may quote a secret
	}
	rest, unverified, err := takeUnverified(address)
	if err != nil {
		return nil, err
	}
	cfg, err := pgx.ParseConfig(rest)
	if err != nil {
		return nil, fail.New(fail.Invalid, "the store's address, or what PGSERVICE, PGSSLROOTCERT and their like add to it, can't be used%s", reason(err, address)).
			Do("look for a mistyped option after the question mark, and for a file that is missing")
	}
	if !unverified {
		if err := requireTLS(cfg); err != nil {
			return nil, err
		}
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = connectTimeout
	}
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "naupegos"
	}
	return cfg, nil
}

// reason returns why an address can't be used; empty if the address contains a password, which the text could quote.
func reason(err error, address string) string {
	for cause := errors.Unwrap(err); cause != nil; cause = errors.Unwrap(cause) {
		err = cause
	}
	if HasPassword(address) {
		return ""
	}
	return ": " + err.Error()
}

// placeOf names a database without its password.
func placeOf(cfg *pgx.ConnConfig) string {
	u := url.URL{Scheme: "postgres", User: url.User(cfg.User), Host: net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port))), Path: "/" + cfg.Database}
	if strings.HasPrefix(cfg.Host, "/") {
		return fmt.Sprintf("postgres://%s@/%s (socket in %s)", url.PathEscape(cfg.User), cfg.Database, cfg.Host)
	}
	return u.String()
}

// SQL implements Dialect.
func (d postgres) SQL() Words {
	return Words{
		Goose: goose.DialectPostgres, ForUpdate: " FOR UPDATE", ForShare: " FOR SHARE", Shared: true,
		Exclusive: "LOCK TABLE " + strings.Join(d.tables, ", ") + " IN EXCLUSIVE MODE",
		Reading:   &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true},
		Has:       "SELECT COUNT(*) FROM (SELECT to_regclass($1) AS id) AS t WHERE id IS NOT NULL",
	}
}

// Now returns the server's present time, not that of the start of the transaction.
func (d postgres) Now(ctx context.Context, q Row) (time.Time, error) {
	var n int64
	err := q.QueryRowContext(ctx, "SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::bigint").Scan(&n)
	return time.UnixMicro(n).UTC(), err
}

// Lock takes the database lock on a separate connection.
func (d postgres) Lock(ctx context.Context) (unlock func(), err error) {
	const holder = "another session of the database"
	ctx, end := d.wait.Context(ctx, func() string { return holder })
	defer end()
	conn, err := d.db.Conn(ctx)
	if err == nil {
		if _, err = conn.ExecContext(ctx, "SELECT pg_advisory_lock($1)", advisoryLock); err != nil {
			err = errors.Join(err, conn.Close())
		}
	}
	if ctx.Err() != nil {
		return nil, d.wait.Failed(ctx, holder+" (see pg_stat_activity, application_name naupegos)", d.where)
	}
	if err != nil {
		return nil, d.Explain(fail.Wrap(fail.KindOf(err), err, "lock the store"))
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
		defer cancel()
		_, _ = conn.ExecContext(ctx, "SELECT pg_advisory_unlock($1)", advisoryLock) // the lock ends with the connection in any case
		_ = conn.Close()
	}, nil
}
