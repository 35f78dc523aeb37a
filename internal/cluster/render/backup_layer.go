package render

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/naupegos/naupegos/internal/agent/turns"
	"github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/backup/s3"
	"github.com/naupegos/naupegos/internal/backup/swift"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/machine"
)

// Files with which a control-plane machine makes backups.
const (
	BackupSettings   = "/etc/naupegos/backup.json"
	CredentialsPlace = "/etc/naupegos/backup-credentials" //nolint:gosec // a path
	SigningPlace     = "/etc/naupegos/backup-signing-key"
	backupMetrics    = "/var/lib/naupegos/metrics/backup.prom"
)

// Names of the machines' credentials for the bucket or the container among the cluster's secrets.
const (
	secretBucket    = "bucket-credentials"   //nolint:gosec // a name
	secretContainer = "container-credential" //nolint:gosec // a name
)

// BackupLayer renders the timer and settings with which control-plane machines make backups in turns; nothing without a schedule.
func (c *Renderer) BackupLayer(ctx context.Context, name string) (machine.Config, error) {
	conf := machine.Config{Machine: name}
	schedule, text, ok := c.Scheduled()
	if !ok || c.Bare {
		return conf, nil
	}
	set := turns.Settings{
		Machine: name, Cluster: c.Name(), Schedule: text, Keep: c.BackupKeep(), To: turns.Target{Directory: c.Doc.Spec.Backup.To.Directory},
		Etcd:    turns.Etcd(layout.LocalEtcd()),
		Metrics: backupMetrics, SigningKey: SigningPlace,
	}
	sign, err := c.SigningKey(ctx, backup.MachinesSecret)
	if err != nil {
		return conf, err
	}
	conf.Files = append(conf.Files, machine.File{Path: SigningPlace, Mode: 0o600, Content: sign, Secret: true})
	credentials, err := c.BackupCredentials(ctx)
	if err != nil {
		return conf, err
	}
	if len(credentials) > 0 {
		conf.Files = append(conf.Files, machine.File{Path: CredentialsPlace, Mode: 0o600, Content: credentials, Secret: true})
	}
	if spec := c.Doc.Spec.Backup.To.S3; spec != nil {
		bucket := s3.Spec(*spec)
		bucket.CredentialsFile, bucket.Credential = CredentialsPlace, ""
		set.To.S3 = &bucket
	}
	if spec := c.Doc.Spec.Backup.To.Swift; spec != nil {
		container := swift.Spec(*spec)
		container.CredentialsFile, container.Credential = CredentialsPlace, ""
		set.To.Swift = &container
	}
	raw, err := json.MarshalIndent(set, "", "  ")
	if err != nil {
		return conf, fail.Wrap(fail.Internal, err, "render %s", BackupSettings)
	}
	conf.Files = append(conf.Files, machine.File{Path: BackupSettings, Mode: 0o644, Content: append(raw, '\n')})
	conf.Units = []machine.Unit{
		{Name: "naupegos-backup.service", OnDemand: true, Content: fmt.Sprintf(backupService, c.Agent.RemotePath(), BackupSettings)},
		{Name: "naupegos-backup.timer", Enabled: true, Active: true, Content: fmt.Sprintf(backupTimer, "OnCalendar="+strings.Join(schedule.OnCalendar(), "\nOnCalendar="))},
	}
	return conf, nil
}

// BackupCredentials returns the machines' credentials for the backup target: those of Naupegos on this side, else the last known. A directory needs none.
func (c *Renderer) BackupCredentials(ctx context.Context) (found []byte, missing error) {
	secret := secretBucket
	switch to := c.Doc.Spec.Backup.To; {
	case to.S3 != nil:
		found, missing = s3.Credentials(s3.Spec(*to.S3), c.Credentials.S3(to.S3))
	case to.Swift != nil:
		secret = secretContainer
		found, missing = swift.Credentials(ctx, swift.Spec(*to.Swift), c.Credentials.Swift(to.Swift))
	default:
		return nil, nil
	}
	kept, err := c.Secrets.Get(ctx, secret)
	switch {
	case err != nil && fail.KindOf(err) != fail.NotFound:
		return nil, err
	case missing != nil && len(kept) > 0 && !c.Credentials.Closed: // a server uses no copy of a credential that was removed
		return kept, nil
	case missing != nil, bytes.Equal(found, kept):
		return found, missing
	}
	return found, c.Secrets.Put(ctx, secret, found)
}

// backupService leaves homes and temporary directories accessible, because the backup directory may be there.
const backupService = `[Unit]
Description=Sees to it that there is a backup of the cluster
Wants=network-online.target
After=network-online.target time-sync.target

[Service]
Type=oneshot
ExecStart=%s backup --settings %s
TimeoutStartSec=3h
Nice=10
IOSchedulingClass=idle
NoNewPrivileges=yes
ProtectSystem=full
`

const backupTimer = `[Unit]
Description=Has backups of the cluster made on schedule

[Timer]
%s
AccuracySec=1s
Persistent=true

[Install]
WantedBy=timers.target
`
