package etcd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/naupegos/naupegos/internal/fail"
)

func TestInitialCluster(t *testing.T) {
	members := []Member{
		{ID: 0xb, Name: "cp-2", PeerURLs: []string{"https://10.0.0.12:2380"}, Started: true},
		{ID: 0xa, Name: "cp-1", PeerURLs: []string{"https://10.0.0.11:2380"}, Started: true},
		{ID: 0xc, PeerURLs: []string{"https://10.0.0.13:2380"}, Learner: true}, // self, as the learner that was added
		{ID: 0xd, PeerURLs: []string{"https://10.0.0.14:2380"}, Learner: true},
	}
	got := InitialCluster(members, Endpoint{Name: "cp-3", URL: "https://10.0.0.13:2380"})
	want := "cp-1=https://10.0.0.11:2380,cp-2=https://10.0.0.12:2380,cp-3=https://10.0.0.13:2380,unstarted-d=https://10.0.0.14:2380"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestVerifier(t *testing.T) {
	body := bytes.Repeat([]byte("etcd"), 512) // a multiple of 512 bytes, as databases are
	sum := sha256.Sum256(body)
	good := append(bytes.Clone(body), sum[:]...)
	flipped := bytes.Clone(good)
	flipped[100] ^= 1
	for name, tc := range map[string]struct {
		stream []byte
		bad    string
	}{
		"good": {good, ""}, "flipped byte": {flipped, "does not fit"}, "no checksum": {body, "missing"},
		"cut": {good[:len(good)-1], "missing"}, "empty": {nil, "missing"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			v := newVerifier(&out)
			r := iotest.OneByteReader(bytes.NewReader(tc.stream))
			if _, err := out.ReadFrom(readerInto{r, v}); err != nil {
				t.Fatal(err)
			}
			err := v.check()
			if (tc.bad == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.bad) {
				t.Errorf("got %v, want %q", err, tc.bad)
			}
			if v.n != int64(len(tc.stream)) {
				t.Errorf("counted %d bytes of %d", v.n, len(tc.stream))
			}
		})
	}
}

// readerInto copies the data that it reads into w.
type readerInto struct {
	r interface{ Read([]byte) (int, error) }
	w interface{ Write([]byte) (int, error) }
}

func (x readerInto) Read(p []byte) (int, error) {
	n, err := x.r.Read(p)
	if _, werr := x.w.Write(p[:n]); werr != nil {
		return n, werr
	}
	return n, err
}

func TestClassify(t *testing.T) {
	ctx := context.Background()
	ended, cancel := context.WithCancel(ctx)
	cancel()
	for _, tc := range []struct {
		ctx  context.Context
		err  error
		want fail.Kind
	}{
		{ctx, rpctypes.ErrUnhealthy, fail.NotReady},
		{ctx, rpctypes.ErrMemberLearnerNotReady, fail.NotReady},
		{ctx, rpctypes.ErrTooManyLearners, fail.NotReady},
		{ctx, rpctypes.ErrNoLeader, fail.NotReady},
		{ctx, rpctypes.ErrPeerURLExist, fail.Conflict},
		{ctx, rpctypes.ErrMemberNotFound, fail.NotFound},
		{ctx, context.DeadlineExceeded, fail.Unreachable},
		{ctx, errors.New("x509: certificate signed by unknown authority"), fail.Unauthorized},
		{ctx, errors.New("boom"), fail.Internal},
		{ended, rpctypes.ErrUnhealthy, fail.Interrupted},
	} {
		if got := fail.KindOf(classify(tc.ctx, tc.err, "x")); got != tc.want {
			t.Errorf("%v: got %s, want %s", tc.err, got, tc.want)
		}
	}
}

func TestNobodyAnswers(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	refuse := func(context.Context, string) (net.Conn, error) { return nil, errors.New("jump host says no") }
	c, err := Connect(ctx, Options{Endpoints: []Endpoint{{"cp-1", "http://192.0.2.1:2379"}}, Dial: refuse, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	start := time.Now()
	_, err = c.Members(ctx)
	if fail.KindOf(err) != fail.Unreachable || time.Since(start) > 20*time.Second {
		t.Errorf("after %s: %v, want unreachable soon", time.Since(start), err)
	}
	h := c.Health(ctx, []Member{{ID: 1, Name: "cp-1"}, {ID: 2, Name: "cp-2"}})
	if h[0].Reachable || h[0].URL == "" || !strings.Contains(h[0].Err, "jump host says no") {
		t.Errorf("cp-1: %+v, want the dialer's reason", h[0])
	}
	if h[1].Reachable || !strings.Contains(h[1].Err, "none of the known endpoints") {
		t.Errorf("cp-2: %+v, want that no endpoint is known", h[1])
	}
	if _, err := Connect(ctx, Options{}); fail.KindOf(err) != fail.Invalid {
		t.Errorf("no endpoints: %v, want invalid input", err)
	}
}

func TestLearnersAnswer(t *testing.T) {
	err := classify(t.Context(), rpctypes.Error(rpctypes.ErrGRPCNotSupportedForLearner), "list etcd members")
	if err.Kind != fail.NotReady {
		t.Errorf("a learner's answer is %s: the client would not ask another member", err.Kind)
	}
}
