// Package s3 keeps backups in a bucket of a service that speaks S3.
//
// It handles files and ignores their content. It is the only package that speaks S3.
package s3

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/scheme"
)

const (
	partSize = 16 << 20 // of an upload, held in memory; a file has at most 10,000 parts
	grace    = time.Hour
	patience = 30 * time.Second // until a response begins
	cleanup  = 30 * time.Second // to remove an unfinished upload
	attempts = 3                // per request
)

// upload begins the last name component under which an unfinished upload is listed.
const upload = ".upload-"

// Spec identifies a bucket: the document's BackupS3, which is validated there.
type Spec struct {
	Endpoint        string `json:"endpoint"` // such as https://s3.example.org
	Bucket          string `json:"bucket"`
	Prefix          string `json:"prefix,omitempty"` // prefix of all object names
	Region          string `json:"region,omitempty"`
	CA              string `json:"ca,omitempty"`              // of the service's certificate authority (PEM)
	CredentialsFile string `json:"credentialsFile,omitempty"` // in the format of the AWS command line
	Credential      string `json:"credential,omitempty"`      // name of a stored credential, used instead of a file
}

// Source provides a bucket's credentials.
type Source struct {
	// Credential returns the value of the credential that the document names; nil if it names none.
	Credential func(context.Context) ([]byte, error)
	// Closed forbids the use of this host's files and variables, even if the document names them: on a server it must name a stored credential.
	Closed bool
}

// Bucket is a backup.Target in an S3 bucket.
type Bucket struct {
	spec    Spec
	connect func() (*minio.Client, error) // once
}

var _ backup.Target = (*Bucket)(nil)

// New returns a bucket. It reads credentials and contacts the service only on use.
func New(spec Spec) *Bucket { return NewFrom(spec, Source{}) }

// NewFrom is New with a source of the credentials.
func NewFrom(spec Spec, from Source) *Bucket {
	return &Bucket{spec: spec, connect: sync.OnceValues(func() (*minio.Client, error) { return connect(spec, from) })}
}

func connect(spec Spec, from Source) (*minio.Client, error) {
	u, err := url.Parse(spec.Endpoint)
	if err != nil {
		return nil, fail.New(fail.Invalid, "the address of the bucket's service can't be read") // cause withheld: it may quote a secret
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "read this host's certificates")
	}
	pool.AppendCertsFromPEM([]byte(spec.CA))
	creds, err := credentialsOf(spec, from)
	if err != nil {
		return nil, err
	}
	c, err := minio.New(u.Host, &minio.Options{
		Creds: creds, Secure: u.Scheme == "https", Region: spec.Region, MaxRetries: attempts, BucketLookup: minio.BucketLookupAuto,
		Transport: scheme.Bound(scheme.Watch(&http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
			TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: patience, IdleConnTimeout: patience,
			TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		}), mostAnswer),
	})
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "use the bucket %s", spec.Bucket)
	}
	return c, nil
}

// mostAnswer returns the size of an answer: that of everything but files is bounded. A list has a thousand files.
func mostAnswer(r *http.Request) int64 {
	q := r.URL.Query()
	if r.Method == http.MethodGet && !q.Has("list-type") && !q.Has("uploads") && !q.Has("location") && !q.Has("uploadId") {
		return 0
	}
	return 8 << 20
}

// Credentials returns a bucket's credentials, found on this host, as a file for another machine; fail.Unauthorized if there are none.
func Credentials(spec Spec, from Source) ([]byte, error) {
	c, err := credentialsOf(spec, from)
	if err != nil {
		return nil, err
	}
	v, err := c.GetWithContext(nil)
	if err != nil && from.Credential != nil {
		return nil, err
	}
	if err != nil || v.AccessKeyID == "" || v.SecretAccessKey == "" { // its own error may quote lines of the file
		return nil, fail.New(fail.Unauthorized, "there are no credentials for the bucket %s", spec.Bucket)
	}
	text := fmt.Sprintf("[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n", v.AccessKeyID, v.SecretAccessKey)
	if v.SessionToken != "" {
		text += "aws_session_token = " + v.SessionToken + "\n"
	}
	return []byte(text), nil
}

// credentialsOf returns the stored credential or the file that the document names, else the places of the AWS command line: the environment, or
// ~/.aws/credentials.
func credentialsOf(spec Spec, from Source) (*credentials.Credentials, error) {
	switch {
	case from.Credential != nil:
		return credentials.New(&named{spec.Credential, from.Credential}), nil
	case spec.Credential != "" || from.Closed:
		return nil, fail.New(fail.Refused, "no credential admits to the bucket %s", spec.Bucket).Do("name one: spec.backup.to.s3.credential")
	}
	if spec.CredentialsFile == "" && os.Getenv("AWS_ACCESS_KEY_ID") != "" {
		return credentials.NewEnvAWS(), nil
	}
	file := spec.CredentialsFile
	if file == "" {
		file = os.Getenv("AWS_SHARED_CREDENTIALS_FILE")
	}
	if file == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, fail.Wrap(fail.Unauthorized, err, "find the credentials of the bucket %s", spec.Bucket)
		}
		file = filepath.Join(home, ".aws", "credentials")
	}
	// The document's file has one section; which one of the operator's own files counts is up to AWS_PROFILE.
	profile := ""
	if spec.CredentialsFile != "" {
		profile = "default"
	}
	c := credentials.NewFileAWSCredentials(file, profile)
	// Its own error may quote lines of the file.
	if v, err := c.GetWithContext(nil); err != nil || v.AccessKeyID == "" || v.SecretAccessKey == "" {
		e := fail.New(fail.Unauthorized, "there are no credentials for the bucket %s", spec.Bucket).At(file).
			Do("the file needs aws_access_key_id and aws_secret_access_key below [default]; or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
		if _, missing := os.Stat(file); missing != nil {
			e.Err = missing
		}
		return nil, e
	}
	return c, nil
}

// String implements backup.Target.
func (b *Bucket) String() string {
	return strings.TrimRight(b.spec.Endpoint, "/") + "/" + path.Join(b.spec.Bucket, b.spec.Prefix)
}

// Grace implements backup.Target.
func (b *Bucket) Grace() time.Duration { return grace }

func (b *Bucket) key(name string) string {
	return strings.TrimPrefix(path.Join(b.spec.Prefix, name), "/")
}

// broken marks an error of the function that fills a file. Readers that compare errors with io.EOF don't mistake it for the end of the file.
type broken struct{ error }

func (e broken) Unwrap() error { return e.error }

// Create implements backup.Target.
func (b *Bucket) Create(ctx context.Context, name string, fill func(io.Writer) error) error {
	c, err := b.connect()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, w := io.Pipe()
	filled := make(chan error, 1)
	go func() {
		err := fill(w)
		filled <- err
		if err != nil {
			err = broken{err}
		}
		_ = w.CloseWithError(err) // it never fails
	}()
	_, err = c.PutObject(ctx, b.spec.Bucket, b.key(name), r, -1, minio.PutObjectOptions{PartSize: partSize, ContentType: "application/octet-stream"})
	why := b.wrap(err, "write %s", name)
	_ = r.CloseWithError(why) // ends the filling function with this error
	e := <-filled
	if err == nil && e == nil {
		return nil
	}
	no := b.abort(ctx, c, name) // the next backup removes what can't be removed now
	var own broken
	if err == nil || errors.As(err, &own) {
		return e
	}
	// A service may refuse a part and close the connection before reading it all, so that its response is lost. abort got it again.
	if fail.KindOf(why) == fail.Unreachable && refusal(no) {
		return b.wrap(fmt.Errorf("%w (before: %w)", no, err), "write %s", name)
	}
	return why
}

// abort removes an unfinished upload, even after ctx has ended.
func (b *Bucket) abort(ctx context.Context, c *minio.Client, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanup)
	defer cancel()
	return c.RemoveIncompleteUpload(ctx, b.spec.Bucket, b.key(name))
}

// refusal reports whether a service answered that the bucket does not exist, or that we may not use it.
func refusal(err error) bool {
	answer := minio.ToErrorResponse(err)
	return answer.Code == minio.NoSuchBucket || answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden
}

// Open implements backup.Target.
func (b *Bucket) Open(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	c, err := b.connect()
	if err != nil {
		return nil, 0, err
	}
	o, err := c.GetObject(ctx, b.spec.Bucket, b.key(name), minio.GetObjectOptions{})
	if err != nil {
		return nil, 0, b.wrap(err, "read %s", name)
	}
	info, err := o.Stat()
	if err != nil {
		_ = o.Close() // nothing was read
		return nil, 0, b.wrap(err, "read %s", name)
	}
	return backup.Reading(o, func(err error) error { return b.wrap(err, "read %s", name) }), info.Size, nil
}

// List implements backup.Target.
func (b *Bucket) List(ctx context.Context, dir string) (all []backup.File, err error) {
	c, err := b.connect()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends a listing that was not read to its end
	prefix := b.key(dir) + "/"
	own := func(key string) string { return strings.TrimPrefix(strings.TrimPrefix(key, b.key("")), "/") }
	for o := range c.ListObjects(ctx, b.spec.Bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
		if o.Err != nil {
			return nil, b.wrap(o.Err, "look for backups")
		}
		if len(all) >= backup.MostFiles {
			return nil, backup.TooManyFiles(b)
		}
		all = append(all, backup.File{Name: own(o.Key), Size: o.Size, Modified: o.LastModified})
	}
	for o := range c.ListIncompleteUploads(ctx, b.spec.Bucket, prefix, true) {
		if o.Err != nil && hidden(o.Err) {
			break
		}
		if o.Err != nil {
			return nil, b.wrap(o.Err, "look for uploads that never ended")
		}
		if len(all) >= backup.MostFiles {
			return nil, backup.TooManyFiles(b)
		}
		name := own(o.Key)
		all = append(all, backup.File{Name: path.Join(path.Dir(name), upload+path.Base(name)), Size: o.Size, Modified: o.Initiated})
	}
	return all, nil
}

// hidden reports whether a service does not list unfinished uploads, or not to us: they only take space, and reading needs no such right.
func hidden(err error) bool {
	answer := minio.ToErrorResponse(err)
	switch answer.StatusCode {
	case http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return true
	}
	return answer.Code == minio.AccessDenied || answer.Code == "NotImplemented" || answer.Code == "MethodNotAllowed"
}

// Remove implements backup.Target.
func (b *Bucket) Remove(ctx context.Context, names ...string) error {
	c, err := b.connect()
	if err != nil {
		return err
	}
	for _, name := range names {
		var err error
		if base, ok := strings.CutPrefix(path.Base(name), upload); ok {
			err = c.RemoveIncompleteUpload(ctx, b.spec.Bucket, b.key(path.Join(path.Dir(name), base)))
		} else {
			err = c.RemoveObject(ctx, b.spec.Bucket, b.key(name), minio.RemoveObjectOptions{})
		}
		if err = b.wrap(err, "remove %s", name); err != nil && fail.KindOf(err) != fail.NotFound {
			return err
		}
	}
	return nil
}

// wrap gives an error a kind. The library has already retried where useful.
func (b *Bucket) wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	e := fail.Wrap(fail.Refused, err, "%s", fmt.Sprintf(format, args...)).At(b.String()).Enough()
	var answer minio.ErrorResponse
	if !errors.As(err, &answer) {
		if fail.KindOf(err) == fail.Internal {
			e.Kind = fail.Unreachable
		} else {
			e.Kind = fail.KindOf(err)
		}
		return e
	}
	switch answer.Code {
	case "RequestTimeTooSkewed":
		return e.Do("this host's clock says %s, and the service's another time: set the one that is wrong (%s)", time.Now().UTC().Format(time.RFC3339), cmp.Or(answer.Message, "it does not say which"))
	case "InvalidObjectState":
		return e.Do("a rule of the bucket has moved it to an archive: restore it from there first, and keep the rule from backups")
	case "QuotaExceeded", "XAdminBucketQuotaExceeded", "EntityTooLarge", "TooManyBuckets":
		return e.Do("make room in the bucket, or have its quota raised")
	case "AccountProblem", "AllAccessDisabled", "NotSignedUp":
		return e.Do("ask the provider of the bucket about the account")
	}
	if answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden {
		answer.Code = minio.AccessDenied // services use various codes
	}
	switch answer.Code {
	case minio.NoSuchKey, "NotFound", "NoSuchUpload":
		e.Kind = fail.NotFound
	case minio.NoSuchBucket:
		return e.Do("make the bucket, or name another one in spec.backup.to.s3.bucket")
	case minio.AccessDenied, "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "XAdminUserNotFound":
		e.Kind = fail.Unauthorized
		return e.Do("look at the credentials (spec.backup.to.s3.credential or credentialsFile, else AWS_ACCESS_KEY_ID), and whether they may read, write and list the bucket")
	case "":
		if answer.StatusCode == http.StatusNotFound {
			e.Kind = fail.NotFound
		}
	}
	return e
}
