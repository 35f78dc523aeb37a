package s3

import (
	"context"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestNamed: the credential is looked up each time, and a closed host's own credentials are never used.
func TestNamed(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "of-the-environment")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "word")
	value, gone := "[other]\naws_access_key_id = no\n[default]\naws_access_key_id = id\naws_secret_access_key=word\n", error(nil)
	from := Source{Credential: func(context.Context) ([]byte, error) { return []byte(value), gone }, Closed: true}
	spec := Spec{Endpoint: "https://s3.example.org", Bucket: "abc", Credential: "s3"}
	file := string(testkit.Value(Credentials(spec, from))(t))
	if !strings.Contains(file, "aws_access_key_id = id\n") || !strings.Contains(file, "aws_secret_access_key = word\n") {
		t.Errorf("the file is %q", file)
	}
	c := testkit.Value(credentialsOf(spec, from))(t)
	_ = testkit.Value(c.GetWithContext(nil))(t)
	gone = fail.New(fail.Unauthorized, "cluster demo has no credential s3")
	_, err := c.GetWithContext(nil)
	testkit.Fails(t, err, fail.Unauthorized, "cluster demo has no credential s3")
	_, err = NewFrom(spec, from).List(t.Context(), "demo")
	testkit.Fails(t, err, fail.Unauthorized, "cluster demo has no credential s3")
	gone, value = nil, "secret words"
	_, err = Credentials(spec, from)
	testkit.Fails(t, err, fail.Unauthorized, "credential s3 holds no key of S3")
	for _, spec := range []Spec{{Bucket: "abc"}, {Bucket: "abc", CredentialsFile: "/etc/passwd"}, {Bucket: "abc", Credential: "s3"}} {
		_, err := Credentials(spec, Source{Closed: true})
		testkit.Fails(t, err, fail.Refused, "no credential admits to the bucket abc")
	}
}
