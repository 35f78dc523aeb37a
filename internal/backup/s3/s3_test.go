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
				t.Errorf("it does not say what happened to the part: %v", err)
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
