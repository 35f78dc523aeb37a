package v1alpha1

import (
	"fmt"
	"net/url"
	"path"
	"strings"
	"unicode"

	"filippo.io/age"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/internal/schedule"
)

// Backup says where backups of the cluster go, who can open them, and which ones are kept.
type Backup struct {
	// Where backups are kept: exactly one of these fields. Left out: the directory backups in the store's directory.
	To *BackupTarget `json:"to,omitempty" yaml:"to,omitempty"`
	// Public age keys ("age1…") whose owners can open backups, in addition to the store's own key.
	Recipients []string `json:"recipients,omitempty" yaml:"recipients,omitempty" jsonschema:"maxItems=20"`
	// Which backups are kept when a new one has been made, and at naupegos backup prune. Left out: all. The newest proven backup is always kept.
	Keep *BackupKeep `json:"keep,omitempty" yaml:"keep,omitempty"`
	// When control-plane machines make backups by themselves, one machine each time, in cron format and in UTC: minute, hour, day of the month, month, day of the week, such as "0 */12 * * *"; or @hourly, @daily, @weekly, @monthly. They write to the target in to: a bucket or container, with the credentials found where naupegos runs, or a directory that all of them have mounted.
	Schedule string `json:"schedule,omitempty" yaml:"schedule,omitempty"`
}

// BackupTarget is where backups are kept.
type BackupTarget struct {
	// Absolute path of a directory on the host where naupegos runs.
	Directory string `json:"directory,omitempty" yaml:"directory,omitempty" host:"directory"`
	// Bucket of a service with the S3 API.
	S3 *BackupS3 `json:"s3,omitempty" yaml:"s3,omitempty"`
	// Container of an object store with OpenStack's API.
	Swift *BackupSwift `json:"swift,omitempty" yaml:"swift,omitempty"`
}

// BackupS3 is a bucket. Its credentials are not part of the document.
type BackupS3 struct {
	// Address of the service, such as https://s3.example.org.
	Endpoint string `json:"endpoint" yaml:"endpoint" jsonschema:"required" host:"address"`
	// Name of the bucket, which must exist.
	Bucket string `json:"bucket" yaml:"bucket" jsonschema:"required,maxLength=63,pattern=^[a-z0-9][-a-z0-9.]*[a-z0-9]$"`
	// Prefix of all object names, such as kubernetes/site-a.
	Prefix string `json:"prefix,omitempty" yaml:"prefix,omitempty"`
	// Region of the bucket, if the service has regions.
	Region string `json:"region,omitempty" yaml:"region,omitempty"`
	// CA certificate (PEM) of the service, if this host does not trust it already.
	CA string `json:"ca,omitempty" yaml:"ca,omitempty" host:"none"`
	// Absolute path of a credentials file in the format of the AWS command line ([default] with aws_access_key_id and aws_secret_access_key). Left out: $AWS_ACCESS_KEY_ID and $AWS_SECRET_ACCESS_KEY, else ~/.aws/credentials.
	CredentialsFile string `json:"credentialsFile,omitempty" yaml:"credentialsFile,omitempty" host:"file"`
	// Name of a credential (naupegos server credential add) whose value is the content of such a file, instead of credentialsFile. A server accepts nothing else.
	Credential string `json:"credential,omitempty" yaml:"credential,omitempty" jsonschema:"maxLength=63,pattern=^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$" host:"credential"`
}

// BackupSwift is a container of an object store in an OpenStack cloud: Swift, or Ceph's gateway. The application credential for it is not part of the
// document.
type BackupSwift struct {
	// Address of the identity service (Keystone), such as https://cloud.example.org:5000/v3.
	AuthURL string `json:"authURL" yaml:"authURL" jsonschema:"required" host:"address"`
	// Name of the container, which must exist.
	Container string `json:"container" yaml:"container" jsonschema:"required,maxLength=256"`
	// Prefix of all object names, such as kubernetes/site-a.
	Prefix string `json:"prefix,omitempty" yaml:"prefix,omitempty"`
	// Region of the object store, if the cloud has several.
	Region string `json:"region,omitempty" yaml:"region,omitempty" jsonschema:"maxLength=255"`
	// CA certificate (PEM) of the services, if this host does not trust it already.
	CA string `json:"ca,omitempty" yaml:"ca,omitempty" host:"none"`
	// Absolute path of a file with the lines OS_APPLICATION_CREDENTIAL_ID=… and OS_APPLICATION_CREDENTIAL_SECRET=…, each with or without a leading export. Left out: the environment variables of these names.
	CredentialsFile string `json:"credentialsFile,omitempty" yaml:"credentialsFile,omitempty" host:"file"`
	// Name of a credential (naupegos server credential add) whose value is the content of such a file, instead of credentialsFile. A server accepts nothing else.
	Credential string `json:"credential,omitempty" yaml:"credential,omitempty" jsonschema:"maxLength=63,pattern=^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$" host:"credential"`
}

// BackupKeep says which backups are kept: each that at least one of these fields keeps.
type BackupKeep struct {
	// Keep this many of the newest backups.
	Last int `json:"last,omitempty" yaml:"last,omitempty" jsonschema:"minimum=1,maximum=10000"`
	// Keep the newest backup of each day (UTC), for this many days that have one.
	Days int `json:"days,omitempty" yaml:"days,omitempty" jsonschema:"minimum=1,maximum=10000"`
	// Keep the newest backup of each week (UTC, from Monday), for this many weeks that have one.
	Weeks int `json:"weeks,omitempty" yaml:"weeks,omitempty" jsonschema:"minimum=1,maximum=10000"`
}

// checkBackup checks the target and the recipients of backups.
func (c *Cluster) checkBackup(r *findings) {
	const at = "spec.backup"
	b := c.Spec.Backup
	if b == nil {
		return
	}
	if b.To != nil {
		b.To.check(r, at+".to")
	}
	seen := map[string]int{}
	for i, text := range b.Recipients {
		where := strict.Item(at+".recipients", i)
		switch first, again := seen[text]; {
		case strings.HasPrefix(text, "AGE-SECRET-KEY-"): // never shown
			r.Add(where, "is a secret key of age", "give its public half, which age-keygen -y FILE prints; and make another one: documents are read by many")
		case again:
			r.Add(where, fmt.Sprintf("is the same as recipients[%d]", first), "remove it")
		default:
			if _, err := age.ParseX25519Recipient(text); err != nil {
				r.Add(where, strict.Quote(text)+" is not a public key of age", "it begins with age1; age-keygen -y FILE prints it")
			}
		}
		seen[text] = i
	}
	b.checkSchedule(r, at)
	if k := b.Keep; k != nil && *k == (BackupKeep{}) {
		r.Add(at+".keep", "keeps nothing", "give it last, days or weeks, or remove it")
	}
}

// check checks that exactly one target is named, and the target's settings.
func (to *BackupTarget) check(r *findings, at string) {
	places := 0
	for _, named := range []bool{to.Directory != "", to.S3 != nil, to.Swift != nil} {
		if named {
			places++
		}
	}
	switch {
	case places > 1:
		last := ".s3"
		if to.Swift != nil {
			last = ".swift"
		}
		r.Add(at, "names more than one place", "choose one of directory, s3 and swift", at+last)
	case places == 0:
		r.Add(at, "names no place", "give it directory, s3 or swift, or remove it")
	case to.S3 != nil:
		to.S3.check(r, at+".s3")
	case to.Swift != nil:
		to.Swift.check(r, at+".swift")
	case !plainPath(to.Directory):
		r.Add(at+".directory", strict.Quote(to.Directory)+" is not an absolute path", "as /srv/backups")
	}
}

// checkSchedule checks that machines can make backups by themselves.
func (b *Backup) checkSchedule(r *findings, at string) {
	if b.Schedule == "" {
		return
	}
	if _, err := schedule.Parse(b.Schedule); err != nil {
		r.Add(at+".schedule", strict.Quote(b.Schedule)+" "+err.Error(), `as "0 */12 * * *", or @daily`)
	}
	if b.To == nil {
		r.Add(at+".schedule", "makes machines create backups, and they can't reach the store's directory", "give spec.backup.to a bucket, a container, or a directory that they share", at+".to")
	}
	if b.Keep == nil {
		r.Add(at+".schedule", "creates backups, and never removes one", "set spec.backup.keep", at+".keep")
	}
}

// plainPath reports whether a path is absolute and has no "." or ".." elements.
func plainPath(p string) bool { return path.IsAbs(p) && path.Clean(p) == strings.TrimRight(p, "/") }

func (s *BackupS3) check(r *findings, at string) {
	checkService(r, at, "endpoint", s.Endpoint, s.CA, "https://s3.example.org", false)
	if s.Bucket != "" && (len(s.Bucket) < 3 || len(s.Bucket) > 63 || strings.Trim(s.Bucket, "abcdefghijklmnopqrstuvwxyz0123456789.-") != "") {
		r.Add(at+".bucket", strict.Quote(s.Bucket)+" is not the name of a bucket", "it has 3 to 63 lower-case letters, digits, dots and dashes")
	}
	checkObjects(r, at, s.Prefix, s.CA, s.CredentialsFile, s.Credential, "/etc/naupegos/s3")
}

func (s *BackupSwift) check(r *findings, at string) {
	checkService(r, at, "authURL", s.AuthURL, s.CA, "https://cloud.example.org:5000/v3", true)
	if n := s.Container; n != "" && (len(n) > 256 || strings.ContainsFunc(n, func(r rune) bool { return r == '/' || unicode.IsControl(r) }) || n == "." || n == "..") {
		r.Add(at+".container", strict.Quote(n)+" is not the name of a container", "it has up to 256 bytes, and no slash")
	}
	checkObjects(r, at, s.Prefix, s.CA, s.CredentialsFile, s.Credential, "/etc/naupegos/swift")
}

// checkService checks the address of a service; deep says whether it may have a path.
func checkService(r *findings, at, field, address, ca, example string, deep bool) {
	at = at + "." + field
	u, err := url.Parse(address)
	switch {
	case address == "":
	case err == nil && u.User != nil: // never shown
		r.Add(at, "holds credentials", "leave them away, and put them into a file: credentialsFile")
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || !deep && strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		r.Add(at, strict.Quote(address)+" is not the address of a service", "as "+example)
	case u.Scheme == "http" && ca != "":
		r.Add(strings.TrimSuffix(at, field)+"ca", "is given, but the "+field+" is not reached by https", "remove it, or write https", at)
	}
}

// checkObjects checks the settings that buckets and containers share.
func checkObjects(r *findings, at, prefix, ca, credentials, named, example string) {
	if prefix != "" && path.Clean("/"+prefix) != "/"+strings.TrimRight(prefix, "/") {
		r.Add(at+".prefix", strict.Quote(prefix)+" is not a plain path", "as kubernetes/site-a")
	}
	if ca != "" && !isCertificate(ca) {
		r.Add(at+".ca", "is not a certificate in PEM", "it begins with -----BEGIN CERTIFICATE-----")
	}
	if credentials != "" && !plainPath(credentials) {
		r.Add(at+".credentialsFile", strict.Quote(credentials)+" is not an absolute path", "as "+example)
	}
	checkCredential(r, at, "credentialsFile", credentials, named)
}
