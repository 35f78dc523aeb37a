package s3_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/backup/s3"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestLostAnswer checks that Create reports why a part was refused even if the service closed the connection early and its response was lost. A
// real service does this occasionally (TestFailedUploads); this one always does.
func TestLostAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		code   string
		kind   fail.Kind
		says   string
	}{
		"the bucket is gone":         {http.StatusNotFound, "NoSuchBucket", fail.Refused, "make the bucket"},
		"the credentials have ended": {http.StatusForbidden, "ExpiredToken", fail.Unauthorized, "look at the credentials"},
		"it is out of order":         {http.StatusNotImplemented, "NotImplemented", fail.Unreachable, "write c/a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.Method {
				case http.MethodPost: // the upload begins
					fmt.Fprint(w, `<InitiateMultipartUploadResult><Bucket>demo</Bucket><Key>c/a</Key><UploadId>1</UploadId></InitiateMultipartUploadResult>`)
				case http.MethodPut:
					reset(t, w)
				default:
					w.WriteHeader(test.status)
					fmt.Fprintf(w, `<Error><Code>%s</Code><Message>no</Message></Error>`, test.code)
				}
			}))
			defer server.Close()
			b := s3.New(s3.Spec{Endpoint: server.URL, Bucket: "demo", Region: "us-east-1", CredentialsFile: credentials(t, "testkey", "testsecret")})
			err := b.Create(t.Context(), "c/a", func(w io.Writer) error { _, err := w.Write(make([]byte, 17<<20)); return err })
			if err == nil {
				t.Fatal("the upload came to its end")
			}
			if fail.KindOf(err) != test.kind || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v: %v", fail.KindOf(err), err)
			}
			if !strings.Contains(err.Error(), "partNumber=1") {
				t.Errorf("it does not say why the part failed: %v", err)
			}
		})
	}
}

// reset ends a connection as the kernel does if a program closes it with bytes unread.
func reset(t *testing.T, w http.ResponseWriter) {
	t.Helper()
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	if err := errors.Join(conn.(*net.TCPConn).SetLinger(0), conn.Close()); err != nil {
		t.Error(err)
	}
}

func credentials(t *testing.T, key, secret string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "credentials")
	testkit.Must(t, os.WriteFile(file, []byte("[default]\naws_access_key_id = "+key+"\naws_secret_access_key = "+secret+"\n"), 0o600))
	return file
}

// answering returns a bucket whose service answers requests for objects and listings.
func answering(t *testing.T, answer func(w http.ResponseWriter, r *http.Request)) *s3.Bucket {
	server := httptest.NewServer(http.HandlerFunc(answer))
	t.Cleanup(server.Close)
	return s3.New(s3.Spec{Endpoint: server.URL, Bucket: "demo", Region: "us-east-1", CredentialsFile: credentials(t, "testkey", "testsecret")})
}

// TestListWithoutUploads: credentials that may read, but not list unfinished uploads, suffice to list.
func TestListWithoutUploads(t *testing.T) {
	for status, code := range map[int]string{http.StatusForbidden: "AccessDenied", http.StatusNotImplemented: "NotImplemented", http.StatusMethodNotAllowed: "MethodNotAllowed"} {
		b := answering(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Has("uploads") {
				w.WriteHeader(status)
				fmt.Fprintf(w, `<Error><Code>%s</Code><Message>no</Message></Error>`, code)
				return
			}
			fmt.Fprint(w, `<ListBucketResult><Name>demo</Name><Contents><Key>c/a</Key><Size>1</Size><LastModified>2026-11-23T11:00:00.000Z</LastModified></Contents></ListBucketResult>`)
		})
		if files, err := b.List(t.Context(), "c"); err != nil || len(files) != 1 || files[0].Name != "c/a" {
			t.Errorf("%s: %v, %v", code, files, err)
		}
	}
	b := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `<Error><Code>AccessDenied</Code></Error>`)
	})
	_, err := b.List(t.Context(), "c")
	testkit.Fails(t, err, fail.Unauthorized, "look at the credentials")
}

// TestForbidden: an error blames the credentials only if rights are missing.
func TestForbidden(t *testing.T) {
	for code, want := range map[string]struct {
		kind fail.Kind
		says string
	}{
		"RequestTimeTooSkewed": {fail.Refused, "this host's clock says 20"},
		"InvalidObjectState":   {fail.Refused, "restore it from there first"},
		"QuotaExceeded":        {fail.Refused, "make room in the bucket"},
		"AccountProblem":       {fail.Refused, "ask the provider"},
		"AccessDenied":         {fail.Unauthorized, "look at the credentials"},
		"SomethingElse":        {fail.Unauthorized, "look at the credentials"},
	} {
		b := answering(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, `<Error><Code>%s</Code><Message>no</Message></Error>`, code)
		})
		_, err := b.List(t.Context(), "c")
		testkit.Fails(t, err, want.kind, want.says)
		if code != "AccessDenied" && code != "SomethingElse" && strings.Contains(err.Error(), "look at the credentials") {
			t.Errorf("%s: %v", code, err)
		}
	}
}

// TestProfiles: AWS_PROFILE chooses a section of the operator's own file, not of the document's.
func TestProfiles(t *testing.T) {
	file := credentials(t, "ofdefault", "secret")
	other := filepath.Join(t.TempDir(), "others")
	testkit.Must(t, os.WriteFile(other, []byte("[default]\naws_access_key_id = no\naws_secret_access_key = no\n[corp]\naws_access_key_id = ofcorp\naws_secret_access_key = secret\n"), 0o600))
	t.Setenv("AWS_PROFILE", "corp")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", other)
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	for named, want := range map[string]string{file: "ofdefault", other: "aws_access_key_id = no", "": "ofcorp"} {
		text, err := s3.Credentials(s3.Spec{Endpoint: "https://s3.example.org", Bucket: "demo", CredentialsFile: named}, s3.Source{})
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v, want %s", named, err, want)
		}
	}
}

// TestHostileLists: no list of a service fills memory, or is read without an end.
func TestHostileLists(t *testing.T) {
	var entries strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&entries, "<Contents><Key>c/%d</Key><Size>1</Size><LastModified>2026-11-30T00:00:00.000Z</LastModified></Contents>", i)
	}
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter)
		say    string
	}{
		"a list without an end": {func(w http.ResponseWriter) {
			fmt.Fprint(w, "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>", entries.String(), "</ListBucketResult>")
		}, "more than 200000 files"},
		"a page without an end": {func(w http.ResponseWriter) {
			for _, err := io.WriteString(w, "<ListBucketResult>"); err == nil; {
				_, err = io.WriteString(w, entries.String())
			}
		}, "the answer is larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { c.answer(w) }))
			defer server.Close()
			b := s3.New(s3.Spec{Endpoint: server.URL, Bucket: "demo", Region: "us-east-1", CredentialsFile: credentials(t, "testkey", "testsecret")})
			_, err := b.List(t.Context(), "c")
			testkit.Fails(t, err, fail.Refused, c.say)
		})
	}
}
