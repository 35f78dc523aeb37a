package s3

import (
	"context"
	"strings"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/naupegos/naupegos/internal/fail"
)

// lookup bounds the time to look up a credential.
const lookup = 20 * time.Second

// named looks up a credential before each request, so that a removed or replaced one is no longer used.
type named struct {
	name string
	find func(context.Context) ([]byte, error)
}

// Retrieve implements credentials.Provider.
func (n *named) Retrieve() (credentials.Value, error) { return n.RetrieveWithCredContext(nil) }

// RetrieveWithCredContext implements credentials.Provider.
func (n *named) RetrieveWithCredContext(*credentials.CredContext) (v credentials.Value, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), lookup)
	defer cancel()
	text, err := n.find(ctx)
	if err != nil {
		return v, err
	}
	if v = parse(string(text)); v.AccessKeyID == "" || v.SecretAccessKey == "" {
		return v, fail.New(fail.Unauthorized, "credential %s holds no key of S3", n.name).
			Do("its value needs lines aws_access_key_id = … and aws_secret_access_key = …, as ~/.aws/credentials has them")
	}
	return v, nil
}

// IsExpired implements credentials.Provider.
func (n *named) IsExpired() bool { return true }

// parse reads the section [default] of an AWS command line file; the section header is optional.
func parse(text string) credentials.Value {
	v := credentials.Value{SignerType: credentials.SignatureV4}
	in := true
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			in = line == "[default]"
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if value = strings.TrimSpace(value); !in || !ok {
			continue
		}
		switch strings.TrimSpace(key) {
		case "aws_access_key_id":
			v.AccessKeyID = value
		case "aws_secret_access_key":
			v.SecretAccessKey = value
		case "aws_session_token":
			v.SessionToken = value
		}
	}
	return v
}
