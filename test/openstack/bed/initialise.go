package bed

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/internal/fail"
)

// Marks: files in var that record which stages of the setup are complete.
const (
	initialised = "initialised" // databases, keys, users and catalog; contains the versions of the packages that created them
	seeded      = "seeded"      // catalog, flavors, image, networks, quotas; contains the definition of the bed that created them
)

// content returns the content of a mark, or "" if the mark does not exist.
func content(b *Bed, mark string) string {
	data, err := os.ReadFile(filepath.Join(b.state(), mark))
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(data), "\n")
}

func mark(b *Bed, what, content string) error {
	return write(filepath.Join(b.state(), what), []byte(content+"\n"), 0o600)
}

func unmark(b *Bed, what string) error {
	err := os.Remove(filepath.Join(b.state(), what))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// kept lists the parts of var that pack saves after initialisation; the rest of var grows in use.
var kept = []string{"mysql", "keystone", "octavia", "secrets.json", initialised}

// digest identifies the state's inputs: package versions, settings, and the address in the catalog.
func digest(b *Bed, versions string) (string, error) {
	return digestOf(templates, versions, b.o.Address, inner, serviceUsers, catalog)
}

// definition identifies a bed: the digest of its state, how its services are started, and what it offers.
func definition(b *Bed, versions string) (string, error) {
	digest, err := digest(b, versions)
	if err != nil {
		return "", err
	}
	said := []any{digest, Hosts, flavors}
	for _, s := range b.all {
		said = append(said, s.Name, s.args, s.env)
	}
	return digestOf(plugins, said...)
}

// digestOf hashes files and further values.
func digestOf(files embed.FS, said ...any) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, said...)
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := files.ReadFile(path)
		fmt.Fprintf(h, "%s %d\n%s", path, len(data), data)
		return err
	})
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}

// initialise creates databases, keys, users and catalog. It does nothing if they exist; otherwise it unpacks them from the cache or runs the
// services' own tools, which takes minutes.
func initialise(ctx context.Context, b *Bed, versions string) error {
	if made := content(b, initialised); made != "" {
		if !contains(versions, made) || strings.Count(made, "\n") < strings.Count(versions, "\n") { // a service came to the bed
			return fail.New(fail.Refused, "the databases were made by other versions of the packages, or without some of them").At(b.state()).
				Do("give that state up: go run ./test/openstack down --purge")
		}
		return nil
	}
	if err := b.stop(ctx); err != nil { // left by an interrupted start
		return err
	}
	if err := addAddress(ctx, b); err != nil {
		return err
	}
	if err := os.RemoveAll(b.state()); err != nil {
		return err
	}
	if err := b.makeDirs(); err != nil {
		return err
	}
	digest, err := digest(b, versions)
	if err != nil {
		return err
	}
	file := filepath.Join(b.o.Cache, "openstack-"+digest+".tar")
	if _, err := os.Stat(file); err == nil {
		if err := unpack(ctx, b, file); err != nil {
			return err
		}
		b.say("initialised state taken from %s", file)
		return nil
	}
	if err := initialiseAnew(ctx, b, versions); err != nil {
		return err
	}
	return pack(ctx, b, file)
}

// contains reports whether all packages that created a state are still installed in the same versions. Additional packages do not matter.
func contains(versions, made string) bool {
	now := strings.Split(versions, "\n")
	for p := range strings.SplitSeq(made, "\n") {
		if !slices.Contains(now, p) {
			return false
		}
	}
	return true
}

func initialiseAnew(ctx context.Context, b *Bed, versions string) error {
	b.say("making the databases; this takes a minute or two, and the result is kept")
	if err := b.loadSecrets(); err != nil {
		return err
	}
	if err := configure(ctx, b); err != nil {
		return err
	}
	dir := filepath.Join(b.state(), "mysql")
	if err := runTool(ctx, b, "mariadb", nil, "mariadb-install-db", "--no-defaults", "--user=mysql", "--datadir="+dir, "--auth-root-authentication-method=socket",
		"--auth-root-socket-user=root", "--skip-test-db"); err != nil {
		return err
	}
	if err := b.Service("mariadb").Start(ctx); err != nil {
		return err
	}
	if err := createDatabases(ctx, b); err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return authority(gctx, b, filepath.Join(b.state(), "octavia"), "octavia") }) // Octavia's worker does not start without one
	g.Go(func() error { return schemas(gctx, b) })
	if err := g.Wait(); err != nil {
		return err
	}
	b.say("databases made")
	if err := identity(ctx, b); err != nil {
		return err
	}
	b.say("users, roles and catalog made")
	if err := b.stop(ctx); err != nil {
		return err
	}
	if err := mark(b, initialised, versions); err != nil {
		return err
	}
	return addAddress(ctx, b)
}

// identity bootstraps Keystone and creates users, roles and the catalog while no other service runs.
func identity(ctx context.Context, b *Bed) error {
	conf := b.conf("keystone", "keystone.conf")
	url := b.keystone()
	for _, args := range [][]string{
		{"fernet_setup", "--keystone-user", "root", "--keystone-group", "root"},
		{"credential_setup", "--keystone-user", "root", "--keystone-group", "root"},
		{"bootstrap", "--bootstrap-region-id", region, "--bootstrap-admin-url", url, "--bootstrap-internal-url", url, "--bootstrap-public-url", url},
	} {
		if err := runTool(ctx, b, "keystone-manage", []string{"OS_BOOTSTRAP_PASSWORD=" + b.secrets.Admin}, append(append([]string{"keystone-manage"}, conf...), args...)...); err != nil {
			return err
		}
	}
	for _, name := range []string{"memcached", "keystone"} {
		if err := b.Service(name).Start(ctx); err != nil {
			return err
		}
	}
	return seedIdentity(ctx, b)
}

// databases lists each database with its owner.
var databases = [][2]string{
	{"keystone", "keystone"}, {"glance", "glance"}, {"placement", "placement"}, {"nova", "nova_api"}, {"nova", "nova"}, {"nova", "nova_cell0"},
	{"neutron", "neutron"}, {"cinder", "cinder"}, {"octavia", "octavia"}, {"designate", "designate"},
}

func createDatabases(ctx context.Context, b *Bed) error {
	var sql strings.Builder
	for _, d := range databases {
		fmt.Fprintf(&sql, "CREATE DATABASE IF NOT EXISTS %[2]s CHARACTER SET utf8; CREATE USER IF NOT EXISTS '%[1]s'@'%%' IDENTIFIED BY '%[3]s'; GRANT ALL ON %[2]s.* TO '%[1]s'@'%%';\n",
			d[0], d[1], b.secrets.Database)
	}
	_, err := b.DB(ctx, "", sql.String())
	return err
}

// schemas creates the tables with each service's own tool. The longest chain runs in parallel with the others.
func schemas(ctx context.Context, b *Bed) error {
	nova := append([]string{"nova-manage"}, b.conf("nova", "nova.conf")...)
	neutron := append(b.conf("neutron", "neutron.conf"), b.conf("neutron", "ml2_conf.ini")...)
	lanes := [][][]string{
		{
			append(nova[:3:3], "api_db", "sync"), append(nova[:3:3], "cell_v2", "map_cell0"), append(nova[:3:3], "cell_v2", "create_cell", "--name=cell1"), append(nova[:3:3], "db", "sync"),
		}, {
			append(append([]string{"keystone-manage"}, b.conf("keystone", "keystone.conf")...), "db_sync"),
			append(append([]string{"neutron-db-manage"}, neutron...), "upgrade", "heads"),
			append(append([]string{"designate-manage"}, b.conf("designate", "designate.conf")...), "database", "sync"),
			append(append([]string{"octavia-db-manage"}, b.conf("octavia", "octavia.conf")...), "upgrade", "head"),
			{"placement-manage", "--config-dir", filepath.Join(b.etc(), "placement"), "db", "sync"},
			append(append([]string{"cinder-manage"}, b.conf("cinder", "cinder.conf")...), "db", "sync"),
			append(append([]string{"glance-manage"}, b.conf("glance", "glance-api.conf")...), "db_sync"),
		},
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, lane := range lanes {
		g.Go(func() error {
			for _, args := range lane {
				env := []string{"OS_PLACEMENT_CONFIG_DIR=" + filepath.Join(b.etc(), "placement")}
				if err := runTool(ctx, b, args[0], env, args...); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// runTool runs a program to completion and writes its output to log/<name>.log.
func runTool(ctx context.Context, b *Bed, name string, env []string, args ...string) error {
	file := filepath.Join(b.LogDir(), name+".log")
	log, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	began := time.Now()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(b.environment(), env...)
	cmd.Dir = b.state()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return errors.Join(ctx.Err(), err)
		}
		return fail.Wrap(fail.Internal, err, "%s: %s", strings.Join(args, " "), lastWords(file)).Do("read %s", file)
	}
	fmt.Fprintf(log, "(%s took %.1fs)\n", name, time.Since(began).Seconds())
	return nil
}

// pack saves the initialised state for later starts from scratch. It contains passwords, so only root can read it. It stores owners by name,
// because the numeric IDs of mysql may differ on the next machine.
func pack(ctx context.Context, b *Bed, file string) error {
	if err := os.MkdirAll(b.o.Cache, 0o755); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(b.o.Cache, ".openstack-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	args := append([]string{"--create", "--gzip", "--sparse", "--directory", b.state(), "--file", tmp.Name()}, kept...)
	if out, err := exec.CommandContext(ctx, "tar", args...).CombinedOutput(); err != nil {
		return fail.Wrap(fail.Internal, err, "pack the initialised state: %s", bytes.TrimSpace(out))
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	b.say("initialised state kept in %s", file)
	return os.Rename(tmp.Name(), file)
}

func unpack(ctx context.Context, b *Bed, file string) error {
	out, err := exec.CommandContext(ctx, "tar", "--extract", "--gzip", "--sparse", "--same-owner", "--directory", b.state(), "--file", file).CombinedOutput()
	if err != nil {
		return fail.Wrap(fail.Internal, err, "unpack %s: %s", file, bytes.TrimSpace(out)).Do("remove the file and start again")
	}
	return nil
}
