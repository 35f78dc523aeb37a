package validation

import (
	"fmt"
	"net/url"
	"path"
	"strings"
	"unicode"

	"filippo.io/age"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/schedule"
)

// checkBackup checks the target and the recipients of backups.
func checkBackup(c *v1alpha1.Cluster, r *findings) {
	const at = "spec.backup"
	b := c.Spec.Backup
	if b == nil {
		return
	}
	if b.To != nil {
		checkBackupTarget(b.To, r, at+".to")
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
	checkBackupSchedule(b, r, at)
	if k := b.Keep; k != nil && *k == (v1alpha1.BackupKeep{}) {
		r.Add(at+".keep", "keeps nothing", "give it last, days or weeks, or remove it")
	}
}

// checkBackupTarget checks that exactly one target is named, and the target's settings.
func checkBackupTarget(to *v1alpha1.BackupTarget, r *findings, at string) {
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
		checkBackupS3(to.S3, r, at+".s3")
	case to.Swift != nil:
		checkBackupSwift(to.Swift, r, at+".swift")
	case !plainPath(to.Directory):
		r.Add(at+".directory", strict.Quote(to.Directory)+" is not an absolute path", "as /srv/backups")
	}
}

// checkBackupSchedule checks that machines can make backups by themselves.
func checkBackupSchedule(b *v1alpha1.Backup, r *findings, at string) {
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

func checkBackupS3(s *v1alpha1.BackupS3, r *findings, at string) {
	checkService(r, at, "endpoint", s.Endpoint, s.CA, "https://s3.example.org", false)
	if s.Bucket != "" && (len(s.Bucket) < 3 || len(s.Bucket) > 63 || strings.Trim(s.Bucket, "abcdefghijklmnopqrstuvwxyz0123456789.-") != "") {
		r.Add(at+".bucket", strict.Quote(s.Bucket)+" is not the name of a bucket", "it has 3 to 63 lower-case letters, digits, dots and dashes")
	}
	checkObjects(r, at, s.Prefix, s.CA, s.CredentialsFile, s.Credential, "/etc/naupegos/s3")
}

func checkBackupSwift(s *v1alpha1.BackupSwift, r *findings, at string) {
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
