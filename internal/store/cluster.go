package store

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// Cluster is what is remembered of one cluster.
type Cluster struct {
	ID        string            // name and 8 hex digits; names and tags of everything that belongs to it
	Name      string            // unique in the store
	Provider  string            // where its machines come from
	Document  []byte            // the YAML last applied
	Facts     map[string]string // small things learned of it; never a secret
	CreatedAt time.Time
	UpdatedAt time.Time
}

// usedPrefix + ID: the store's fact that a cluster had this ID once. Late remains of that one would be taken for the next one's.
const usedPrefix = "cluster-id/"

// NextID returns the ID that the next cluster of a name gets in this store on this host. It stays the same until a cluster
// takes it, so that what a plan shows is what comes; no ID is taken twice.
func (s *Store) NextID(ctx context.Context, name string) (string, error) {
	for n := 0; ; n++ {
		sum := sha256.Sum256([]byte(strings.Join([]string{s.identity.Recipient().String(), s.self.Host, name, strconv.Itoa(n)}, "\x00")))
		id := name + "-" + hex.EncodeToString(sum[:4])
		var used int
		if err := s.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM store_facts WHERE name = ?", usedPrefix+id).Scan(&used); err != nil {
			return "", s.wrap(err, "find an ID for the cluster %s", name)
		}
		if used == 0 {
			return id, nil
		}
	}
}

// CreateCluster remembers a new cluster and returns it with its times and, where c has no ID, the next one: fail.Conflict if the
// name is taken, or the ID was once.
func (s *Store) CreateCluster(ctx context.Context, c Cluster) (*Cluster, error) {
	if c.Name == "" {
		return nil, fail.New(fail.Invalid, "a cluster needs a name")
	}
	facts, err := encodeFacts(c.Facts)
	if err != nil {
		return nil, err
	}
	if c.ID == "" {
		if c.ID, err = s.NextID(ctx, c.Name); err != nil {
			return nil, err
		}
	}
	c.CreatedAt = time.Now().UTC().Truncate(time.Microsecond)
	c.UpdatedAt = c.CreatedAt
	err = inTx(ctx, s.db, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx,
			"INSERT INTO clusters (id, name, provider, document, facts, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
			c.ID, c.Name, c.Provider, string(c.Document), facts, micros(c.CreatedAt), micros(c.UpdatedAt)); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO store_facts (name, value) VALUES (?, ?)", usedPrefix+c.ID, c.CreatedAt.Format(time.RFC3339))
		return err
	})
	if isUnique(err) {
		return nil, s.taken(ctx, c)
	}
	if err != nil {
		return nil, s.wrap(err, "remember the cluster %s", c.Name)
	}
	return &c, nil
}

// taken says why a cluster can't be created: its name is another's, or its ID was.
func (s *Store) taken(ctx context.Context, c Cluster) error {
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

const selectCluster = "SELECT id, name, provider, document, facts, created_at, updated_at FROM clusters"

// Cluster returns the cluster of a name: fail.NotFound, naming the known ones, if there is none.
func (s *Store) Cluster(ctx context.Context, name string) (*Cluster, error) {
	c, err := scanCluster(s.db.QueryRowContext(ctx, selectCluster+" WHERE name = ?", name))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, s.unknownCluster(ctx, name)
	}
	if err != nil {
		return nil, s.wrap(err, "read the cluster %s", name)
	}
	return c, nil
}

// unknownCluster says that there is no cluster of a name or ID, and which there are.
func (s *Store) unknownCluster(ctx context.Context, name string) error {
	all, err := s.Clusters(ctx)
	if err != nil {
		return err
	}
	e := fail.New(fail.NotFound, "there is no such cluster").At(name)
	if len(all) == 0 {
		return e.Do("there are none in %s yet; naupegos apply makes one", s.dir)
	}
	names := make([]string, 0, len(all))
	for _, c := range all {
		names = append(names, c.Name)
	}
	return e.Do("known clusters: %s", strings.Join(names, ", "))
}

// Clusters returns all clusters by name.
func (s *Store) Clusters(ctx context.Context) ([]Cluster, error) {
	rows, err := s.db.QueryContext(ctx, selectCluster+" ORDER BY name")
	if err != nil {
		return nil, s.wrap(err, "list the clusters")
	}
	list, err := collect(rows, scanCluster)
	return list, s.wrap(err, "list the clusters")
}

// SaveCluster writes Provider, Document and Facts of the cluster with c.ID, and sets c.UpdatedAt.
func (s *Store) SaveCluster(ctx context.Context, c *Cluster) error {
	facts, err := encodeFacts(c.Facts)
	if err != nil {
		return err
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	var there int64
	err = s.fenced(ctx, c.ID, func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, "UPDATE clusters SET provider = ?, document = ?, facts = ?, updated_at = ? WHERE id = ?",
			c.Provider, string(c.Document), facts, micros(now), c.ID)
		if err == nil {
			there, err = res.RowsAffected()
		}
		return err
	})
	if err != nil {
		return s.wrap(err, "save the cluster %s", c.Name)
	}
	if there == 0 {
		return s.unknownCluster(ctx, c.ID)
	}
	c.UpdatedAt = now
	return nil
}

// DeleteCluster forgets a cluster with its secrets and lease; the journal stays. A cluster that isn't there is no error.
func (s *Store) DeleteCluster(ctx context.Context, id string) error {
	err := s.fenced(ctx, id, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM clusters WHERE id = ?", id)
		return err
	})
	if err != nil {
		return s.wrap(err, "forget the cluster %s", id)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.keys, id)
	return nil
}

func scanCluster(row interface{ Scan(...any) error }) (*Cluster, error) {
	var c Cluster
	var document, facts string
	var created, updated int64
	if err := row.Scan(&c.ID, &c.Name, &c.Provider, &document, &facts, &created, &updated); err != nil {
		return nil, err
	}
	c.Document, c.CreatedAt, c.UpdatedAt = []byte(document), fromMicros(created), fromMicros(updated)
	return &c, json.Unmarshal([]byte(facts), &c.Facts)
}

// collect scans all rows and closes them.
func collect[T any](rows *sql.Rows, scan func(interface{ Scan(...any) error }) (*T, error)) (list []T, err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, *v)
	}
	return list, rows.Err()
}

func encodeFacts(m map[string]string) (string, error) {
	if m == nil {
		m = map[string]string{}
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return "", fail.Wrap(fail.Internal, err, "encode facts")
	}
	return string(raw), nil
}

// randomHex returns n random bytes in hexadecimal.
func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the program instead
	return hex.EncodeToString(b)
}
