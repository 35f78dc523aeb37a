package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store/rowmac"
)

// usedPrefix + ID is a fact of the store: a cluster once had this ID. Leftovers of that cluster would be taken for those of a new one with the same
// ID.
const usedPrefix = "cluster-id/"

// ofName is the form of an ID after its cluster's name.
var ofName = regexp.MustCompile(`^-[0-9a-f]{8}$`)

// CheckID returns fail.Invalid if a cluster of this name can't have the ID: the ID of another cluster would open that cluster's secrets, and
// providers would find its machines.
func CheckID(name, id string) error {
	if rest, ok := strings.CutPrefix(id, name); name == "" || !ok || !ofName.MatchString(rest) {
		return fail.New(fail.Invalid, "%.80q is no ID of the cluster %s", id, name).Do("plan again, and use the clusterID of that plan")
	}
	return nil
}

// NextID implements Store.
func (s *database) NextID(ctx context.Context, name, wanted string) (string, error) {
	for n := 0; ; n++ {
		sum := sha256.Sum256([]byte(strings.Join([]string{s.identity.Recipient().String(), s.self.Host, name, strconv.Itoa(n)}, "\x00")))
		id := cmp.Or(wanted, name+"-"+hex.EncodeToString(sum[:4]))
		if err := CheckID(name, id); err != nil {
			return "", err
		}
		used, err := one(ctx, s, s.reads, value[int], "SELECT COUNT(*) FROM store_facts WHERE name = $1", usedPrefix+id)
		switch {
		case err != nil:
			return "", s.wrap(err, "find an ID for the cluster %s", name)
		case used == 0:
			return id, nil
		case wanted != "":
			return "", s.taken(ctx, Cluster{ID: id, Name: name})
		}
	}
}

// CreateCluster implements Store.
func (s *database) CreateCluster(ctx context.Context, c Cluster) (*Cluster, error) {
	next, err := s.NextID(ctx, c.Name, "")
	if err != nil {
		return nil, err
	}
	c.ID = cmp.Or(c.ID, next)
	return s.create(ctx, c, "")
}

// ReviveCluster implements Store.
func (s *database) ReviveCluster(ctx context.Context, c Cluster) (*Cluster, error) {
	return s.create(ctx, c, " ON CONFLICT (name) DO UPDATE SET value = excluded.value")
}

// create stores a new cluster; taken is the SQL clause that decides what happens if its ID was used before.
func (s *database) create(ctx context.Context, c Cluster, taken string) (*Cluster, error) {
	if err := CheckID(c.Name, c.ID); err != nil {
		return nil, err
	}
	c.CreatedAt = time.Now().UTC().Truncate(time.Microsecond)
	c.UpdatedAt = c.CreatedAt
	err := s.changeSigned(ctx, once, func(tx *sql.Tx) error {
		if err := s.used(ctx, tx); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx,
			"INSERT INTO clusters (id, name, provider, document, created_at, updated_at, mac) VALUES ($1, $2, $3, $4, $5, $6, $7)",
			c.ID, c.Name, c.Provider, string(c.Document), micros(c.CreatedAt), micros(c.UpdatedAt), s.mac(rowmac.Clusters, c.macValues()...)); err != nil {
			return err
		}
		if err := s.putFacts(ctx, tx, c.ID, c.Facts); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO store_facts (name, value) VALUES ($1, $2)"+taken, usedPrefix+c.ID, c.CreatedAt.Format(time.RFC3339)) //nolint:gosec // a constant
		return err
	})
	if s.d.IsUnique(err) {
		return nil, s.taken(ctx, c)
	}
	if err != nil {
		return nil, s.wrap(err, "remember the cluster %s", c.Name)
	}
	return &c, nil
}

// taken returns the error for a cluster that can't be created because its name is in use, or its ID was used before.
func (s *database) taken(ctx context.Context, c Cluster) error {
	_, err := s.Cluster(ctx, c.Name)
	if fail.KindOf(err) == fail.NotFound {
		return fail.New(fail.Conflict, "the ID %s belonged to a cluster that was destroyed", c.ID).At(c.Name).Do("plan again")
	}
	if err != nil {
		return err
	}
	return fail.New(fail.Conflict, "there is a cluster of this name already").At(c.Name).
		Do("use another name, or destroy it first: naupegos destroy %s", c.Name)
}

const selectCluster = "SELECT id, name, provider, document, created_at, updated_at, mac FROM clusters"

// Cluster implements Store.
func (s *database) Cluster(ctx context.Context, name string) (*Cluster, error) {
	c, err := one(ctx, s, s.reads, scanCluster, selectCluster+" WHERE name = $1", name)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, s.unknown(ctx, s.reads, name)
	}
	if err == nil {
		err = s.verify(ctx, rowmac.Clusters, c.mac, c.macValues()...)
	}
	if err == nil {
		c.Facts, err = s.facts(ctx, c.ID)
	}
	if err != nil {
		return nil, s.wrap(err, "read the cluster %s", name)
	}
	return &c.Cluster, nil
}

// unknown returns the error for an unknown name or ID, with the known clusters.
func (s *database) unknown(ctx context.Context, q querier, name string) error {
	all, err := s.clusters(ctx, q, unverified)
	if err != nil {
		return err
	}
	e := fail.New(fail.NotFound, "there is no such cluster").At(name)
	if len(all) == 0 {
		return e.Do("naupegos apply makes one").Confide("  there are none in %s yet", s.where)
	}
	names := make([]string, 0, len(all))
	for _, c := range all {
		names = append(names, c.Name)
	}
	known := "  known clusters: " + strings.Join(names, ", ")
	if near := fail.Nearest(name, names); near != "" {
		known = "  did you mean " + near + "?\n" + known
	}
	return e.Confide("%s", known)
}

// Clusters implements Store.
func (s *database) Clusters(ctx context.Context) ([]Cluster, error) {
	return s.clusters(ctx, s.reads, s.verify)
}

// verifier refuses a row whose MAC does not match.
type verifier func(ctx context.Context, t rowmac.Table, mac string, values ...string) error

// unverified is the verifier of names and numbers of clusters, which are also shown while the store's identity is not known.
func unverified(context.Context, rowmac.Table, string, ...string) error { return nil }

func (s *database) clusters(ctx context.Context, q querier, verify verifier) ([]Cluster, error) {
	found, err := list(ctx, s, q, scanCluster, selectCluster)
	if err != nil {
		return nil, s.wrap(err, "list the clusters")
	}
	facts, err := s.allFacts(ctx, q, verify)
	if err != nil {
		return nil, s.wrap(err, "list the clusters")
	}
	all := make([]Cluster, 0, len(found))
	for _, c := range found {
		if err := verify(ctx, rowmac.Clusters, c.mac, c.macValues()...); err != nil {
			return nil, err
		}
		if c.Facts = facts[c.ID]; c.Facts == nil {
			c.Facts = Facts{}
		}
		all = append(all, c.Cluster)
	}
	slices.SortFunc(all, func(a, b Cluster) int { return strings.Compare(a.Name, b.Name) }) // databases sort differently
	return all, nil
}

// SaveCluster implements Store.
func (s *database) SaveCluster(ctx context.Context, c *Cluster) error {
	now := time.Now().UTC().Truncate(time.Microsecond)
	known := false
	err := s.fenced(ctx, c.ID, func(tx *sql.Tx) (err error) {
		is, err := one(ctx, s, tx, scanCluster, selectCluster+" WHERE id = $1"+s.d.SQL().ForUpdate, c.ID)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err == nil {
			err = verifyIn(ctx, s, tx, rowmac.Clusters, is.mac, is.macValues()...) // a new MAC would legitimize a forged name
		}
		if err != nil {
			return err
		}
		known, is.Provider, is.Document = true, c.Provider, c.Document
		if err := run(ctx, tx, "UPDATE clusters SET provider = $1, document = $2, updated_at = $3, mac = $4 WHERE id = $5",
			c.Provider, string(c.Document), micros(now), s.mac(rowmac.Clusters, is.macValues()...), c.ID); err != nil {
			return err
		}
		return s.putFacts(ctx, tx, c.ID, c.Facts)
	})
	if err != nil {
		return s.wrap(err, "save the cluster %s", c.Name)
	}
	if !known {
		return s.unknown(ctx, s.reads, c.ID)
	}
	c.UpdatedAt = now
	return nil
}

// DeleteCluster implements Store.
func (s *database) DeleteCluster(ctx context.Context, id string) error {
	err := s.fenced(ctx, id, func(tx *sql.Tx) error {
		return run(ctx, tx, "DELETE FROM clusters WHERE id = $1", id)
	})
	if err != nil {
		return s.wrap(err, "forget the cluster %s", id)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.keys, id)
	return nil
}

// macValues returns the values of macClusters' columns.
func (c *Cluster) macValues() []string {
	return []string{c.ID, c.Name, c.Provider, string(c.Document), decimal(micros(c.CreatedAt))}
}

// signedCluster is a cluster with the MAC of its row, without facts.
type signedCluster struct {
	Cluster
	mac string
}

func scanCluster(row scanner) (*signedCluster, error) {
	var c signedCluster
	var document string
	var created, updated int64
	if err := row.Scan(&c.ID, &c.Name, &c.Provider, &document, &created, &updated, &c.mac); err != nil {
		return nil, err
	}
	c.Document, c.CreatedAt, c.UpdatedAt = []byte(document), fromMicros(created), fromMicros(updated)
	return &c, nil
}

// randomHex returns n random bytes in hexadecimal.
func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the program instead
	return hex.EncodeToString(b)
}
