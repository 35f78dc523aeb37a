package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/testkit"
)

// Owner is who owns the databases of a Postgres, and Password what he logs in with: full of what has to be escaped somewhere.
const (
	Owner    = "team"
	Password = "Pa55:w/o@rd%20'\\" //nolint:gosec // of servers that live as long as a test
)

// Postgres is a PostgreSQL server of a test's own, on a loopback port, with data that is deleted with the test.
type Postgres struct {
	Port int

	programs string // the directory of initdb and postgres
	dir      string
	as       *syscall.SysProcAttr // PostgreSQL refuses to run as root
	cmd      *exec.Cmd
	log      *os.File
	names    int
}

// StartPostgres makes and starts a server with what Debian's package postgresql has installed.
func StartPostgres(t testing.TB) *Postgres {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		t.Fatal("there is no PostgreSQL server on this host: hack/setup test installs it")
	}
	dir := testkit.Value(os.MkdirTemp("", "naupegos-postgres-"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := &Postgres{Port: testkit.FreePort(t), programs: filepath.Dir(slices.Max(found)), dir: dir, as: &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}}
	if os.Geteuid() == 0 {
		u := testkit.Value(user.Lookup("nobody"))(t)
		uid, gid := testkit.Value(strconv.Atoi(u.Uid))(t), testkit.Value(strconv.Atoi(u.Gid))(t)
		p.as.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		testkit.Must(t, os.Chown(dir, uid, gid))
	}
	p.log = testkit.Value(os.Create(filepath.Join(dir, "log")))(t)
	t.Cleanup(func() { _ = p.log.Close() })
	word := filepath.Join(dir, "password")
	testkit.Must(t, os.WriteFile(word, []byte(Password+"\n"), 0o644))
	// The collation differs from Go's, so that no code relies on the database's order.
	p.run(t, "", p.program("initdb"), "-D", p.data(), "-U", "postgres", "-A", "scram-sha-256", "--pwfile", word, "-E", "UTF8",
		"--locale", "C.UTF-8", "--locale-provider=icu", "--icu-locale=en-US", "--no-sync", "--no-instructions")
	p.Start(t)
	t.Cleanup(func() { p.end(syscall.SIGQUIT) })
	p.SQL(t, "postgres", fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s'", Owner, strings.ReplaceAll(Password, "'", "''")))
	return p
}

func (p *Postgres) data() string               { return filepath.Join(p.dir, "data") }
func (p *Postgres) program(name string) string { return filepath.Join(p.programs, name) }

// Start starts the server, and waits until it takes connections.
func (p *Postgres) Start(t testing.TB) {
	t.Helper()
	p.cmd = exec.Command(p.program("postgres"), "-D", p.data(), "-p", strconv.Itoa(p.Port), "-k", p.dir, "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off")
	p.cmd.SysProcAttr, p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = p.as, p.dir, p.log, p.log
	testkit.Must(t, p.cmd.Start())
	testkit.Until(t, time.Minute, 20*time.Millisecond, func() error {
		out, err := exec.Command(p.program("pg_isready"), "-h", "127.0.0.1", "-p", strconv.Itoa(p.Port)).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("PostgreSQL does not start: %w: %s%s", err, out, p.Log(t))
		}
		return err
	})
}

// Stop ends the server at once, as where its host fails.
func (p *Postgres) Stop(testing.TB) { p.end(syscall.SIGQUIT) }

func (p *Postgres) end(how os.Signal) {
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(how)
		_ = p.cmd.Wait()
		p.cmd = nil
	}
}

// Log returns what the server has said.
func (p *Postgres) Log(t testing.TB) string {
	t.Helper()
	return string(testkit.Value(os.ReadFile(p.log.Name()))(t))
}

// NewDatabase makes an empty database and returns its URL, without the password.
func (p *Postgres) NewDatabase(t testing.TB) string {
	t.Helper()
	p.names++
	name := fmt.Sprintf("store%d", p.names)
	p.SQL(t, "postgres", "CREATE DATABASE "+name+" OWNER "+Owner)
	u := url.URL{Scheme: "postgres", User: url.User(Owner), Host: fmt.Sprint("127.0.0.1:", p.Port), Path: "/" + name}
	return u.String()
}

// WithPassword adds the password to a URL of NewDatabase.
func WithPassword(t testing.TB, address string) string {
	t.Helper()
	u := testkit.Value(url.Parse(address))(t)
	u.User = url.UserPassword(Owner, Password)
	return u.String()
}

// SQL has psql run statements as the server's owner, and returns what it prints.
func (p *Postgres) SQL(t testing.TB, database, text string) string {
	t.Helper()
	return p.run(t, text, p.program("psql"), "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", strconv.Itoa(p.Port), "-U", "postgres", database)
}

// Dump returns everything in a database as text.
func (p *Postgres) Dump(t testing.TB, database string) string {
	t.Helper()
	return p.run(t, "", p.program("pg_dump"), "-h", "127.0.0.1", "-p", strconv.Itoa(p.Port), "-U", "postgres", database)
}

func (p *Postgres) run(t testing.TB, input string, argv ...string) string {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr, cmd.Dir, cmd.Stdin = p.as, p.dir, strings.NewReader(input)
	cmd.Env = append(os.Environ(), "PGPASSWORD="+Password)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(errors.Join(fmt.Errorf("%s: %w", filepath.Base(argv[0]), err), errors.New(stderr.String())))
	}
	return string(out)
}
