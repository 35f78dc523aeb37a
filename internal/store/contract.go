package store

import (
	"context"
	"time"

	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/store/health"
	"github.com/naupegos/naupegos/internal/store/metal"
)

// Store is the persistent memory. Several goroutines may use it, and several processes the same database; with PostgreSQL also several machines. The
// tests in storetest check its promises on each database.
type Store interface {
	// NextID returns the ID that the next cluster of a name gets in this store on this host. It stays the same until a cluster takes it, so that a
	// plan can show it. No ID is assigned twice. With wanted, it returns that ID: fail.Invalid if CheckID refuses it, fail.Conflict if it was ever used.
	NextID(ctx context.Context, name, wanted string) (string, error)
	// CreateCluster stores a new cluster and returns it with its times and, if c has no ID, the next ID. It returns fail.Conflict if the name is in
	// use, or the ID was ever used.
	CreateCluster(ctx context.Context, c Cluster) (*Cluster, error)
	// ReviveCluster stores a cluster that is restored under its old ID, even if the cluster with that ID was destroyed. It returns fail.Conflict if
	// the name is in use, or a cluster with the ID exists.
	ReviveCluster(ctx context.Context, c Cluster) (*Cluster, error)
	// Cluster returns the cluster with a name, or fail.NotFound, which lists the known ones.
	Cluster(ctx context.Context, name string) (*Cluster, error)
	// Clusters returns all clusters, sorted by name.
	Clusters(ctx context.Context) ([]Cluster, error)
	// SaveCluster writes Provider, Document and Facts of the cluster with c.ID, and sets c.UpdatedAt.
	SaveCluster(ctx context.Context, c *Cluster) error
	// SetFact stores a fact of a cluster, replacing an older value; an empty value deletes the fact.
	SetFact(ctx context.Context, clusterID string, f Fact, value string) error
	// DeleteCluster deletes a cluster with its secrets and lease; the journal stays. It is no error if the cluster does not exist.
	DeleteCluster(ctx context.Context, id string) error

	// Secrets returns the secrets of the cluster with this ID.
	Secrets(clusterID string) Secrets
	// ServerSecrets returns the secrets of naupegos server itself, such as its authority's key. All servers on one store share them.
	ServerSecrets() Secrets

	// AcquireLease takes the lease of a cluster and keeps it with heartbeats until Release. If another process holds it, the error is fail.Conflict
	// and shows the holder, since when, the last heartbeat and the expiry. The lease of a dead process on this host is taken over at once, any other
	// lease once it has expired by the database's clock. ctx limits only the acquisition.
	//
	// From then on, this Store refuses to write about the cluster (its record and secrets) with fail.Conflict once another process has taken over the
	// lease. Journal entries are still written, because they record what a run did.
	AcquireLease(ctx context.Context, clusterID, verb string, o LeaseOptions) (Lease, error)
	// Leases returns the leases that are held or whose holder died, sorted by cluster.
	Leases(ctx context.Context) ([]LeaseInfo, error)

	// Journal returns the journal of the cluster with this ID. Its runs outlive the cluster, under the cluster's name.
	Journal(clusterID string) plan.Journal
	// Runs returns the runs of the clusters with a name, or of all clusters if the name is empty, newest first, at most limit (0 means 20). A run
	// whose process died has the outcome plan.OutcomeGone.
	Runs(ctx context.Context, clusterName string, limit int) ([]plan.RunRecord, error)
	// Run returns one run, or fail.NotFound if the journal does not have it.
	Run(ctx context.Context, id string) (*plan.RunRecord, error)

	// Metal returns the part of the store for physical machines.
	Metal() metal.Store
	// Health returns the part of the store that records how a server last found clusters.
	Health() health.Store

	Access
	Jobs
	Servers

	// Recipient returns the age recipient (age1…) to which data beside the store is encrypted. The store's identity decrypts it.
	Recipient() string
	// Identity returns the store's identity as text (AGE-SECRET-KEY-1…), followed by its former identities. Together they decrypt the store and its
	// backups.
	Identity() []byte
	// Dir returns this user's directory for files that are not shared: the identity, snapshots, SSH keys.
	Dir() string
	// Where describes for people where the store is: Dir, or a database without its password.
	Where() string
	// Close releases files and connections. Release leases first.
	Close() error
}

// Secrets are the named secrets of one cluster, or of the server, encrypted in the database.
type Secrets interface {
	// Get returns the value of a secret, or fail.NotFound.
	Get(ctx context.Context, name string) ([]byte, error)
	// Put stores a secret, replacing an older value.
	Put(ctx context.Context, name string, value []byte) error
	// PutIfAbsent stores a secret unless it exists, and returns the stored value: concurrent callers all get the winner's value.
	PutIfAbsent(ctx context.Context, name string, value []byte) ([]byte, error)
	// Delete deletes a secret. It is no error if the secret does not exist.
	Delete(ctx context.Context, name string) error
	// Names returns the names of all these secrets, sorted.
	Names(ctx context.Context) ([]string, error)
}

// Lease is the right to change one cluster, held by one process at a time.
type Lease interface {
	// Lost is closed when another process took over the lease, or no heartbeat has succeeded for a TTL. The holder must then stop.
	Lost() <-chan struct{}
	// Generation increases with each acquisition; of two holders, the one with the higher number is right.
	Generation() int64
	// Check asks the store whether the lease is still held, and returns fail.Conflict if not. Call it just before something irrevocable.
	Check(ctx context.Context) error
	// Release releases the lease, even if ctx is cancelled. It is no error if the lease was lost or the cluster deleted.
	Release(ctx context.Context) error
}

// LeaseOptions are the options of a lease.
type LeaseOptions struct {
	TTL   time.Duration // how long the lease outlives its last heartbeat; 0 means 30 s. There are three heartbeats per TTL
	Title string        // the verb with its arguments; empty: the verb alone
	By    string        // the user who requested the verb; empty: only the process is known
}

// LeaseInfo describes a lease for others.
type LeaseInfo struct {
	ClusterID  string    `json:"clusterID"`
	Cluster    string    `json:"cluster"` // the cluster's name
	Verb       string    `json:"verb"`
	Title      string    `json:"title"`  // the verb with its arguments
	By         string    `json:"by"`     // the user who requested it; equal to holder if only the process is known
	Holder     string    `json:"holder"` // "user@host, pid 42"
	Alive      string    `json:"alive"`  // "yes", "no" or "unknown": a process on another host
	Generation int64     `json:"generation"`
	Acquired   time.Time `json:"acquired"`
	Heartbeat  time.Time `json:"heartbeat"`
	Expires    time.Time `json:"expires"`
}

// Cluster is the stored record of a cluster.
type Cluster struct {
	ID        string // name and 8 hex digits; part of the names and tags of everything that belongs to the cluster
	Name      string // unique in the store
	Provider  string // where its machines come from
	Document  []byte // the YAML last applied
	Facts     Facts
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Fact names a small piece of knowledge about a cluster; never a secret.
type Fact struct {
	Kind    string // type of knowledge, such as "bootstrapped" or "host"
	Subject string // the machine, peer and so on that it is about; empty: the cluster
}

// String returns the fact's kind and, if it has one, subject; for people and JSON.
func (f Fact) String() string {
	if f.Subject == "" {
		return f.Kind
	}
	return f.Kind + "/" + f.Subject
}

// MarshalText implements encoding.TextMarshaler.
func (f Fact) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// Facts holds the known facts of one cluster.
type Facts map[Fact]string
