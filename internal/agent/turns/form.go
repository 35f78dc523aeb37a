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

// Where in etcd what backups on schedule need is kept. Kubernetes knows nothing of it.
const (
	Prefix    = "/naupegos/backup/"
	OrderKey  = Prefix + "order"   // Order
	pieces    = Prefix + "pieces/" // the operator's part of it
	DoneKey   = Prefix + "done"    // Done
	FailedKey = Prefix + "failed"  // Failed
	// UnprunedKey says why the backups that need not stay could not be removed after the last one: Failed.
	UnprunedKey = Prefix + "unpruned"
	holderKey   = Prefix + "holder" // the machine whose turn it is, as long as it lives
)

// Reason is why sets on schedule are made, as their manifests say.
const Reason = "on schedule"

// Settings tell a machine where to write sets, when, and which ones to keep.
type Settings struct {
	Machine  string      `json:"machine"`
	Cluster  string      `json:"cluster"`
	Schedule string      `json:"schedule"`
	Keep     backup.Keep `json:"keep"`
	To       Target      `json:"to"`
	Etcd     Etcd        `json:"etcd"`
	// SigningKey is a file with the key that machines sign sets with; empty: sets are not signed.
	SigningKey string `json:"signingKey,omitempty"`
	Metrics    string `json:"metrics"` // file for Prometheus
}

// Target is where sets go: one of its fields.
type Target struct {
	Directory string      `json:"directory,omitempty"`
	S3        *s3.Spec    `json:"s3,omitempty"`    // its credentials are in a file of the machine
	Swift     *swift.Spec `json:"swift,omitempty"` // so are those
}

// Etcd is the machine's own member, and what admits to it.
type Etcd struct {
	URL  string `json:"url"`
	CA   string `json:"ca"`
	Cert string `json:"cert"`
	Key  string `json:"key"`
}

// Order is what sets are made of beside etcd's data. The operator lays it in etcd whenever it changes.
type Order struct {
	About  backup.Manifest `json:"about"`
	Pieces []string        `json:"pieces"` // keys of the operator's part, sealed
	SHA256 string          `json:"sha256"` // of it
	// Sign is what the cluster's own key lets the machines' key sign; nil in the order of a store that does not sign.
	Sign *backup.Signature `json:"sign,omitempty"`
}

// pieceSize is as much of the operator's part as one key holds: etcd takes 1.5 MiB in a request.
const pieceSize = 512 << 10

// Pair is a key of etcd with its value.
type Pair struct {
	Key   string
	Value []byte
}

// Lay returns what lays an order in etcd: pieces, which come first, and the order itself, which makes them count.
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
		return nil, Pair{}, fail.Wrap(fail.Internal, err, "lay what backups on schedule are made of")
	}
	return parts, Pair{OrderKey, raw}, nil
}

// Former returns those of the keys below Prefix that hold pieces of an order that is not this one.
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

// Done is the last set that was made on schedule.
type Done struct {
	Turn    time.Time `json:"turn"` // the time of the schedule that it is of
	ID      string    `json:"id"`
	Machine string    `json:"machine"` // that made it
	At      time.Time `json:"at"`
	Seconds float64   `json:"seconds"` // that it took
	Bytes   int64     `json:"bytes"`
	Keys    int64     `json:"keys"`
}

// Ahead reports whether the set was made by a clock that was ahead of this one: it says nothing about the turns until then.
func (d Done) Ahead(now time.Time) bool { return d.At.After(now.Add(patience)) }

// Failed is the last time that none could be made.
type Failed struct {
	Turn    time.Time `json:"turn"`
	Machine string    `json:"machine"`
	At      time.Time `json:"at"`
	What    string    `json:"what"`
}

// patience is how long after its time a set may come before it is overdue: machines try again for a while.
const patience = time.Hour

// Overdue reports whether a set should be there by now that is not; made is when the last turn was that has one, or, where there is none yet, when
// the schedule was begun.
func Overdue(s schedule.Schedule, made, now time.Time) bool {
	next := s.Next(made)
	return !next.IsZero() && now.After(next.Add(patience))
}
