package discover

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/facts"
)

// Options are the settings of Enrol.
type Options struct {
	Server  string                       // http:// or https:// URL
	HTTP    *http.Client                 // nil: the default client
	Pause   time.Duration                // first pause before a retry; 0: 2 s. It doubles up to Longest
	Longest time.Duration                // 0: a minute
	Say     func(string)                 // writes to the machine's consoles; nil: nothing is written
	Clock   func(server time.Time) error // receives the server's time; may be nil
}

// Enrolled is the server's answer about an approved machine.
type Enrolled struct {
	UUID        string `json:"uuid"`
	Certificate string `json:"certificate,omitempty"` // PEM; empty if the server issues none
}

// answer is the server's.
type answer struct {
	Approval    string    `json:"approval"`
	Proven      bool      `json:"proven"`
	Certificate string    `json:"certificate"`
	Time        time.Time `json:"time"`
	Detail      string    `json:"detail"` // of a problem document
}

const maxAnswer = 1 << 20

// Enrol reports the machine, signed by its key, until the server has approved that key or ctx ends. It retries while the server is unreachable; a
// refusal ends it.
func Enrol(ctx context.Context, d *facts.Discovery, key *ecdsa.PrivateKey, o Options) (*Enrolled, error) {
	if o.HTTP == nil {
		o.HTTP = &http.Client{Timeout: 30 * time.Second}
	}
	if o.Say == nil {
		o.Say = func(string) {}
	}
	request, err := facts.NewRequest(key, d.Boot.UUID)
	if err != nil {
		return nil, err
	}
	o.Say(fmt.Sprintf("machine %s, MAC address %s\nkey %s", d.Boot.UUID, d.Boot.MAC, facts.Fingerprint(key.Public())))
	said := ""
	pause := max(o.Pause, 0)
	if pause == 0 {
		pause = 2 * time.Second
	}
	longest := o.Longest
	if longest == 0 {
		longest = time.Minute
	}
	for ; ; pause = min(2*pause, longest) {
		d.Enrolment = &facts.Enrolment{Request: request, Sequence: time.Now().UnixNano()}
		a, err := post(ctx, d, key, o)
		words := "waiting to be approved: naupegos machine approve " + d.Boot.UUID + " --key " + facts.Fingerprint(key.Public())
		switch {
		case err == nil && a.Approval == "approved" && a.Proven:
			return &Enrolled{UUID: d.Boot.UUID, Certificate: a.Certificate}, nil
		case err == nil && a.Approval == "rejected":
			return nil, fail.New(fail.Unauthorized, "the machine was rejected").At(d.Boot.UUID)
		case err != nil && !fail.Waitable(err):
			return nil, err
		case err != nil:
			words = err.Error()
		}
		if words != said {
			o.Say(words)
			said = words
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, fail.Wrap(fail.NotReady, context.Cause(ctx), "wait until the machine is approved").At(d.Boot.UUID).Do("naupegos machine approve %s", d.Boot.UUID)
		}
	}
}

func post(ctx context.Context, d *facts.Discovery, key *ecdsa.PrivateKey, o Options) (*answer, error) {
	body, err := json.Marshal(d)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "encode the report of the machine")
	}
	signature, err := facts.Sign(key, body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(o.Server, "/")+"/discovery", bytes.NewReader(body))
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "ask the server").At(o.Server)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(facts.SignatureHeader, signature)
	res, err := o.HTTP.Do(req)
	if err != nil {
		return nil, fail.Wrap(fail.Unreachable, err, "report the machine")
	}
	defer func() { _ = res.Body.Close() }()
	var a answer
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err == nil {
		err = json.Unmarshal(data, &a)
	}
	switch {
	case res.StatusCode >= http.StatusInternalServerError || res.StatusCode == http.StatusTooManyRequests:
		return nil, fail.New(fail.Unreachable, "the server answered %s: %s", res.Status, a.Detail)
	case res.StatusCode == http.StatusConflict:
		return nil, fail.New(fail.Conflict, "the server does not believe the machine: %s", a.Detail)
	case res.StatusCode != http.StatusOK:
		return nil, fail.New(fail.Refused, "the server answered %s: %s", res.Status, a.Detail)
	case err != nil:
		return nil, fail.Wrap(fail.Unreachable, err, "read the server's answer")
	}
	if o.Clock != nil {
		return &a, o.Clock(a.Time)
	}
	return &a, nil
}

// Key returns the key in a file, which it creates if it does not exist. With an empty path it returns a new key that exists only in memory.
func Key(path string) (*ecdsa.PrivateKey, error) {
	if path == "" {
		return facts.NewKey()
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return makeKey(path)
	}
	if err != nil {
		return nil, fail.Wrap(fail.Refused, err, "read the machine's key")
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fail.New(fail.Invalid, "there is no key in the file").At(path)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	own, ok := key.(*ecdsa.PrivateKey)
	if err != nil || !ok {
		return nil, fail.New(fail.Invalid, "the file holds no machine's key").At(path)
	}
	return own, nil
}

func makeKey(path string) (*ecdsa.PrivateKey, error) {
	key, err := facts.NewKey()
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "encode the machine's key")
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".key-*") // of mode 0600
	if err != nil {
		return nil, fail.Wrap(fail.Refused, err, "write the machine's key")
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	if err == nil {
		err = tmp.Sync()
	}
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return nil, fail.Wrap(fail.Refused, err, "write the machine's key")
	}
	return key, nil
}
