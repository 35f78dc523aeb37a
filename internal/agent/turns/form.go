package turns

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/backup/s3"
	"github.com/naupegos/naupegos/internal/backup/swift"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/schedule"
)

// Keys in etcd of the scheduled backups' state. Kubernetes does not know them.
const (
	Prefix    = "/naupegos/backup/"
	OrderKey  = Prefix + "order"   // Order
	pieces    = Prefix + "pieces/" // the operator's part of it
	DoneKey   = Prefix + "done"    // Done
	FailedKey = Prefix + "failed"  // Failed
	// UnprunedKey says why obsolete backups could not be removed after the last one: Failed.
	UnprunedKey = Prefix + "unpruned"
	holderKey   = Prefix + "holder" // the machine that holds the turn, while it lives
)

// Reason is the reason in the manifests of scheduled sets.
const Reason = "on schedule"

// Settings tell a machine where to write sets, when, and which ones to keep.
type Settings struct {
	Machine  string      `json:"machine"`
	Cluster  string      `json:"cluster"`
	Schedule string      `json:"schedule"`
	Keep     backup.Keep `json:"keep"`
	To       Target      `json:"to"`
	Etcd     Etcd        `json:"etcd"`
	// SigningKey is the path of the key with which machines sign sets; empty: sets are not signed.
	SigningKey string `json:"signingKey,omitempty"`
	Metrics    string `json:"metrics"` // file for Prometheus
}

// Target is the destination of sets: exactly one field is set.
type Target struct {
	Directory string      `json:"directory,omitempty"`
	S3        *s3.Spec    `json:"s3,omitempty"`    // its credentials are in a file of the machine
	Swift     *swift.Spec `json:"swift,omitempty"` // so are those
}

// Etcd is the machine's own member and the client's credentials.
type Etcd struct {
	URL  string `json:"url"`
	CA   string `json:"ca"`
	Cert string `json:"cert"`
	Key  string `json:"key"`
}

// Order is the content of sets besides etcd's data. The operator writes it to etcd whenever it changes.
type Order struct {
	About  backup.Manifest `json:"about"`
	Pieces []string        `json:"pieces"` // keys of the operator's part, sealed
	SHA256 string          `json:"sha256"` // of it
	// Sign is the delegation from the cluster's own key to the machines' key; nil in the order of a store that does not sign.
	Sign *backup.Signature `json:"sign,omitempty"`
}

// pieceSize is the size of a piece of the operator's part in one key: etcd accepts 1.5 MiB per request.
const pieceSize = 512 << 10

// Pair is a key of etcd with its value.
type Pair struct {
	Key   string
	Value []byte
}

// Lay returns the keys of an order: first the pieces, then the order itself, which makes them valid.
func Lay(about backup.Manifest, operator []byte, sign *backup.Signature) (parts []Pair, order Pair, err error) {
	sum := sha256.Sum256(operator)
	o := Order{About: about, SHA256: hex.EncodeToString(sum[:]), Sign: sign}
	for n := 0; len(operator) > 0; n++ {
		size := min(len(operator), pieceSize)
		p := Pair{fmt.Sprintf("%s%s/%06d", pieces, o.SHA256[:16], n), operator[:size]}
		parts, o.Pieces, operator = append(parts, p), append(o.Pieces, p.Key), operator[size:]
	}
	raw, err := json.Marshal(o)
	if err != nil {
		return nil, Pair{}, fail.Wrap(fail.Internal, err, "store the content of scheduled backups")
	}
	return parts, Pair{OrderKey, raw}, nil
}

// Former returns the keys below Prefix that hold pieces of other orders.
func Former(keys []string, parts []Pair) (old []string) {
	now := map[string]bool{}
	for _, p := range parts {
		now[p.Key] = true
	}
	for _, k := range keys {
		if len(k) > len(pieces) && k[:len(pieces)] == pieces && !now[k] {
			old = append(old, k)
		}
	}
	return old
}

// Done is the last scheduled set.
type Done struct {
	Turn    time.Time `json:"turn"` // its time in the schedule
	ID      string    `json:"id"`
	Machine string    `json:"machine"` // that made it
	At      time.Time `json:"at"`
	Seconds float64   `json:"seconds"` // that it took
	Bytes   int64     `json:"bytes"`
	Keys    int64     `json:"keys"`
}

// Ahead reports whether the clock that made the set was ahead of this one. Such a set says nothing about the turns until then.
func (d Done) Ahead(now time.Time) bool { return d.At.After(now.Add(patience)) }

// Failed is the last failure.
type Failed struct {
	Turn    time.Time `json:"turn"`
	Machine string    `json:"machine"`
	At      time.Time `json:"at"`
	What    string    `json:"what"`
}

// patience is how long after its time a set may arrive before it is overdue, because machines retry for a while.
const patience = time.Hour

// Overdue reports whether a set is missing that should exist by now; made is the time of the last turn with a set or, without one, the beginning of
// the schedule.
func Overdue(s schedule.Schedule, made, now time.Time) bool {
	next := s.Next(made)
	return !next.IsZero() && now.After(next.Add(patience))
}
