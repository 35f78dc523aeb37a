package operate

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/cluster/nodes"
	"github.com/naupegos/naupegos/internal/cluster/removal"
	"github.com/naupegos/naupegos/internal/cluster/support"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/provider"
)

// View is a read-only query of a cluster, answered here or by a server. In holds the parameters, T the answer.
type View[In, T any] struct {
	Name   string // in the API's path
	Secret bool   // the answer holds secrets: the view needs the role admin and is audited
	// Operator says that the view needs the role operate, also if it is secret: that role administers the cluster and can get the same access by its document.
	Operator bool
	Within   time.Duration // how long a look may take; 0: 2 minutes
	See      func(ctx context.Context, s *Session, in In) (*T, error)
}

// Plainly is the In of views without parameters.
type Plainly struct{}

// MachineList lists the machines of a cluster as their provider sees them.
type MachineList struct {
	Machines []provider.Machine `json:"machines"`
	Others   []string           `json:"others,omitempty"` // other resources, for people
}

// CertificateList describes a cluster's certificates, without keys.
type CertificateList struct {
	Items []pki.CertInfo `json:"items"`
}

// VolumeList lists the volumes on which a cluster and its cloud disagree.
type VolumeList struct {
	Items []removal.OddVolume `json:"items"`
}

// CheckList lists the results of preliminary checks.
type CheckList struct {
	Items []provider.Check `json:"items"`
}

// LogsOf says which logs to collect.
type LogsOf struct {
	Prefix  string `json:"prefix" maxLength:"200" pattern:"^[A-Za-z0-9._-]+$" doc:"The directory in the archive"`
	Seconds int    `json:"seconds,omitempty" minimum:"0" doc:"Age of the oldest logs; 0: an hour"`
}

// Archive is a support archive.
type Archive struct {
	Archive  []byte            `json:"archive"`  // tar, compressed by gzip
	Problems []support.Problem `json:"problems"` // the parts that could not be collected, and why
}

// mostLogs limits the size of an archive in bytes: the client reads an answer into memory, and base64 enlarges it.
const mostLogs = 40 << 20

// logRuns is the number of past runs in a support archive.
const logRuns = 20

// Logs writes a support archive that includes the history of the cluster.
func (s *Session) Logs(ctx context.Context, w io.Writer, o support.Options, version string) ([]support.Problem, error) {
	runs, err := s.Store.Runs(ctx, s.Record.Name, logRuns)
	if err != nil {
		return nil, err
	}
	history, err := json.MarshalIndent(runs, "", "  ")
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "write the history")
	}
	o.Extra = map[string][]byte{"history.json": history, "version.txt": []byte("naupegos " + version + "\n")}
	return s.Cluster.Logs(ctx, w, o)
}

// BackupList lists the backups of a cluster.
type BackupList struct {
	ClusterID string        `json:"clusterID"`
	Where     string        `json:"where"` // location of the backups, for people
	Items     []*backup.Set `json:"items"`
}

// BackupID names a backup.
type BackupID struct {
	ID string `json:"id" maxLength:"63" doc:"The backup's ID, or latest"`
}

// BackupShown is one backup.
type BackupShown struct {
	Set   *backup.Set `json:"set"`
	Where string      `json:"where"` // location of the backup, for people
}

// KubeconfigFor says for which user a kubeconfig is made, and how long it is valid.
type KubeconfigFor struct {
	User    string   `json:"user,omitempty" maxLength:"64" doc:"The user; empty: the administrator"`
	Groups  []string `json:"groups,omitempty" maxItems:"100" doc:"The user's groups"`
	Seconds int      `json:"seconds,omitempty" minimum:"0" maximum:"31536000" doc:"Validity of the user's certificate"`
}

// Files holds files by slash-separated name.
type Files struct {
	Files map[string][]byte `json:"files"`
	Taken string            `json:"taken,omitempty"` // of a release: the digest that its job must pass as Asked.Taken
}

// Kubeconfig is the name of the only file of KubeconfigView.
const Kubeconfig = "kubeconfig"

// The views.
var (
	Nodes = View[Plainly, nodes.NodeList]{Name: "nodes", See: func(ctx context.Context, s *Session, _ Plainly) (*nodes.NodeList, error) {
		return s.Cluster.NodeList(ctx)
	}}
	Machines = View[Plainly, MachineList]{Name: "machines", See: func(ctx context.Context, s *Session, _ Plainly) (*MachineList, error) {
		ms, others, err := s.Cluster.MachineList(ctx)
		return &MachineList{ms, others}, err
	}}
	Certificates = View[Plainly, CertificateList]{Name: "certificates", See: func(ctx context.Context, s *Session, _ Plainly) (*CertificateList, error) {
		certs, err := s.Cluster.Certificates(ctx)
		return &CertificateList{certs}, err
	}}
	Volumes = View[Plainly, VolumeList]{Name: "volumes", See: func(ctx context.Context, s *Session, _ Plainly) (*VolumeList, error) {
		odd, err := s.Cluster.OddVolumes(ctx)
		return &VolumeList{odd}, err
	}}
	Checks = View[Plainly, CheckList]{Name: "checks", See: func(ctx context.Context, s *Session, _ Plainly) (*CheckList, error) {
		checks, err := s.Cluster.Check(ctx)
		return &CheckList{checks}, err
	}}
	IssuerChecks = View[Plainly, CheckList]{Name: "issuer", See: func(ctx context.Context, s *Session, _ Plainly) (*CheckList, error) {
		checks, err := s.Cluster.CheckIssuer(ctx)
		return &CheckList{checks}, err
	}}
	LogsView = View[LogsOf, Archive]{Name: "logs", Secret: true, Within: 10 * time.Minute, See: func(ctx context.Context, s *Session, in LogsOf) (*Archive, error) {
		var b bytes.Buffer
		problems, err := s.Logs(ctx, &b, support.Options{Since: time.Duration(in.Seconds) * time.Second, Prefix: in.Prefix}, s.version)
		if err == nil && b.Len() > mostLogs {
			err = fail.New(fail.Refused, "the archive has %d MiB, more than a server sends", b.Len()>>20).Do("use a shorter --since; or collect it on the host of the server's store")
		}
		return &Archive{b.Bytes(), problems}, err
	}}
	Backups = View[Plainly, BackupList]{Name: "backups", See: func(ctx context.Context, s *Session, _ Plainly) (*BackupList, error) {
		target := s.Cluster.BackupTarget()
		sets, err := backup.List(ctx, target, s.Record.Name)
		if sets == nil {
			sets = []*backup.Set{}
		}
		return &BackupList{s.Record.ID, target.String(), sets}, err
	}}
	BackupView = View[BackupID, BackupShown]{Name: "backup", See: func(ctx context.Context, s *Session, in BackupID) (*BackupShown, error) {
		set, err := backup.Open(ctx, s.Cluster.BackupTarget(), s.Record.Name, in.ID)
		if err != nil {
			return nil, err
		}
		trust, err := TrustOf(ctx, s.Store, s.Record.ID)
		if err != nil {
			return nil, err
		}
		if set.ClusterID != s.Record.ID { // another cluster of the same name has another key
			trust.Known = nil
		}
		if err := set.Verify(trust, s.Store.Identity()); err != nil {
			return nil, err
		}
		return &BackupShown{set, set.Where()}, nil
	}}
	KubeconfigView = View[KubeconfigFor, Files]{Name: "kubeconfig", Secret: true, Operator: true, See: func(ctx context.Context, s *Session, in KubeconfigFor) (*Files, error) {
		var conf []byte
		var err error
		if in.User == "" {
			conf, err = s.Cluster.Kubeconfig(ctx)
		} else if err = in.Check(); err == nil {
			conf, err = s.Cluster.UserKubeconfig(ctx, in.User, in.Groups, time.Duration(in.Seconds)*time.Second)
		}
		return &Files{Files: map[string][]byte{Kubeconfig: conf}}, err
	}}
	Handover = View[Plainly, Files]{Name: "handover", Secret: true, See: func(ctx context.Context, s *Session, _ Plainly) (*Files, error) {
		files, err := s.Cluster.Handover(ctx, cluster.HandoverOptions{Now: time.Now(), CloudsYAML: s.Cluster.CloudsYAML, CloudCA: s.Cluster.CloudCA})
		return &Files{Files: files}, err
	}}
)

// The bounds of the lifetime of a user's kubeconfig. Certificates are slightly backdated, for clocks that are behind.
const (
	minTTL = 5 * time.Minute
	maxTTL = 365 * 24 * time.Hour
)

// Check refuses reserved or malformed names of users and groups, and lifetimes that are too short or too long.
func (f *KubeconfigFor) Check() error {
	for _, name := range append([]string{f.User}, f.Groups...) {
		switch {
		case name == "system:masters":
			return fail.New(fail.Refused, "group system:masters passes by all authorization, and nothing could take that back before the certificate ends").
				Do("--group kubeadm:cluster-admins makes an administrator by a ClusterRoleBinding, which can be deleted")
		case strings.HasPrefix(name, "system:"):
			return fail.New(fail.Refused, "%s is a name of Kubernetes' own parts", name).Do("take a name without system: in front")
		case name == "" && f.User != "", strings.ContainsFunc(name, unicode.IsControl), len(name) > 64: // X.509's upper bound for names
			return fail.New(fail.Invalid, "%q can't name a user or group", name).Do("take 1 to 64 characters")
		}
	}
	if ttl := time.Duration(f.Seconds) * time.Second; ttl < minTTL || ttl > maxTTL {
		return fail.New(fail.Invalid, "--ttl=%s is not between %s and %s", ttl, minTTL, maxTTL)
	}
	return nil
}
