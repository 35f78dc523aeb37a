package store

import (
	"context"
	"time"

	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/store/health"
	"github.com/naupegos/naupegos/internal/store/metal"
)

// Store remembers. It may be used by several goroutines, and the same database by several processes; on PostgreSQL, on several machines.
// What it promises is held by the tests in storetest, on each database.
type Store interface {
	// NextID returns the ID that the next cluster of a name gets in this store on this host. It stays the same until a cluster takes
	// it, so that what a plan shows is what comes; no ID is taken twice.
	NextID(ctx context.Context, name string) (string, error)
	// CreateCluster remembers a new cluster and returns it with its times and, where c has no ID, the next one: fail.Conflict if the
	// name is taken, or the ID was once.
	CreateCluster(ctx context.Context, c Cluster) (*Cluster, error)
	// ReviveCluster remembers a cluster that comes back as what it was, by its ID: that is taken where the cluster was destroyed, too.
	// fail.Conflict if the name is taken, or there is a cluster with the ID.
	ReviveCluster(ctx context.Context, c Cluster) (*Cluster, error)
	// Cluster returns the cluster of a name: fail.NotFound, naming the known ones, if there is none.
	Cluster(ctx context.Context, name string) (*Cluster, error)
	// Clusters returns all clusters by name.
	Clusters(ctx context.Context) ([]Cluster, error)
	// SaveCluster writes Provider, Document and Facts of the cluster with c.ID, and sets c.UpdatedAt.
	SaveCluster(ctx context.Context, c *Cluster) error
	// SetFact remembers one fact of a cluster, in place of an older value; an empty value forgets it.
	SetFact(ctx context.Context, clusterID string, f Fact, value string) error
	// DeleteCluster forgets a cluster with its secrets and lease; the journal stays. A cluster that isn't there is no error.
	DeleteCluster(ctx context.Context, id string) error

	// Secrets returns the secrets of the cluster with this ID.
	Secrets(clusterID string) Secrets
	// ServerSecrets returns what naupegos server keeps of its own, such as its authority: the same for all servers on one store.
	ServerSecrets() Secrets

	// AcquireLease takes the lease of a cluster and keeps it by heartbeat until Release. If another holds it, the error is
	// fail.Conflict and shows holder, since when, last heartbeat and expiry. The lease of a process that died on this host is taken
	// over at once, any other once it has expired by the database's clock. ctx bounds the acquiring only.
	//
	// From then on whatever this Store writes about the cluster (its record and secrets) is refused with fail.Conflict once another
	// has taken the lease over. The journal is not: what a run did stays true.
	AcquireLease(ctx context.Context, clusterID, verb string, o LeaseOptions) (Lease, error)
	// Leases returns the leases that are held, or were when their holder died, by cluster.
	Leases(ctx context.Context) ([]LeaseInfo, error)

	// Journal returns the journal of the cluster with this ID. Its runs outlive the cluster, under the cluster's name.
	Journal(clusterID string) plan.Journal
	// Runs returns the newest runs first, of the clusters of one name or (empty) of all; at most limit, 0 meaning 20. A run whose
	// process died has the outcome plan.OutcomeGone.
	Runs(ctx context.Context, clusterName string, limit int) ([]plan.RunRecord, error)
	// Run returns one run: fail.NotFound if the journal has none of this ID.
	Run(ctx context.Context, id string) (*plan.RunRecord, error)

	// Metal returns the part of the store that is for physical machines.
	Metal() metal.Store
	// Health returns the part of the store for how clusters were when a server last looked.
	Health() health.Store

	Access
	Jobs
	Servers

	// Recipient returns to whom what is kept beside the store is encrypted (age1…): whoever has the store's identity opens it.
	Recipient() string
	// Identity returns the store's identity as text (AGE-SECRET-KEY-1…), followed by its former identities. Together they decrypt the store and its
	// backups.
	Identity() []byte
	// Dir returns this user's directory for what is not shared: the identity, snapshots, keys for ssh.
	Dir() string
	// Where says for people where the store lies: Dir, or a database without its password.
	Where() string
	// Close releases files and connections. Release leases first.
	Close() error
}

// Secrets are the named secrets of one cluster, or of the server, encrypted in the database.
type Secrets interface {
	// Get returns the value of a secret: fail.NotFound if there is none of this name.
	Get(ctx context.Context, name string) ([]byte, error)
	// Put stores a secret, in place of an older value.
	Put(ctx context.Context, name string, value []byte) error
	// PutIfAbsent stores a secret unless there is one of this name, and returns what is stored then: of several who try at once, all
	// get the winner's value.
	PutIfAbsent(ctx context.Context, name string, value []byte) ([]byte, error)
	// Delete forgets a secret. One that isn't there is no error.
	Delete(ctx context.Context, name string) error
	// Names returns the names of all of these secrets, sorted.
	Names(ctx context.Context) ([]string, error)
}

// Lease is the right to change one cluster, held by one process at a time.
type Lease interface {
	// Lost is closed when another took the lease over, or no heartbeat came through for a TTL. Whoever holds it must then stop.
	Lost() <-chan struct{}
	// Generation grows with each acquisition; of two holders the one with the greater number is right.
	Generation() int64
	// Check asks the store whether the lease is still held: fail.Conflict if not. For just before something irrevocable.
	Check(ctx context.Context) error
	// Release gives the lease back, also when ctx is cancelled. One that was lost, or whose cluster is forgotten, is not an error.
	Release(ctx context.Context) error
}

// LeaseOptions says how a lease is held.
type LeaseOptions struct {
	TTL   time.Duration // how long it outlives its last heartbeat; 0 means 30 s. Heartbeats come three times as often
	Title string        // the verb with its arguments; empty: the verb alone
	By    string        // the user who asked for the verb; empty: only the process is known
}

// LeaseInfo is a lease that is held, as others see it.
type LeaseInfo struct {
	ClusterID  string    `json:"clusterID"`
	Cluster    string    `json:"cluster"` // the cluster's name
	Verb       string    `json:"verb"`
	Title      string    `json:"title"`  // the verb with its arguments
	By         string    `json:"by"`     // the user who asked for it; like holder if only the process is known
	Holder     string    `json:"holder"` // "user@host, pid 42"
	Alive      string    `json:"alive"`  // "yes", "no" or "unknown": a process on another host
	Generation int64     `json:"generation"`
	Acquired   time.Time `json:"acquired"`
	Heartbeat  time.Time `json:"heartbeat"`
	Expires    time.Time `json:"expires"`
}

// Cluster is what is remembered of one cluster.
type Cluster struct {
	ID        string // name and 8 hex digits; names and tags of everything that belongs to it
	Name      string // unique in the store
	Provider  string // where its machines come from
	Document  []byte // the YAML last applied
	Facts     Facts
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Fact names a small thing that was learned of a cluster; never a secret.
type Fact struct {
	Kind    string // what it is, such as "bootstrapped" or "host"
	Subject string // of which machine, peer and so on; empty where it is the cluster's
}

// String is the fact for people, and in JSON: its kind, and its subject if it has one.
func (f Fact) String() string {
	if f.Subject == "" {
		return f.Kind
	}
	return f.Kind + "/" + f.Subject
}

// MarshalText implements encoding.TextMarshaler.
func (f Fact) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// Facts are what was learned of one cluster.
type Facts map[Fact]string
