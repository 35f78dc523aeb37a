package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/naupegos/naupegos/internal/fail"
)

// Endpoint is the client address of one member.
type Endpoint struct {
	Name string // the member's (and machine's) name, for messages
	URL  string // "https://10.0.0.5:2379"
}

// Options describes how to reach a cluster.
type Options struct {
	Endpoints []Endpoint // at least one; requests skip endpoints that do not answer
	TLS       *tls.Config
	Dial      func(ctx context.Context, addr string) (net.Conn, error) // "host:port"; nil means plain TCP
	Timeout   time.Duration                                            // of one request to one member; 0 means 5 s

	// Quiet pauses all writers until resume is called: a leader drops writes while it hands over. nil: writers are not paused.
	Quiet func(ctx context.Context) (resume func())
}

// Client talks to one etcd cluster. It is safe for use by several goroutines.
type Client struct {
	endpoints []Endpoint
	timeout   time.Duration
	quiet     func(context.Context) func()
	all       *clientv3.Client            // balances over every endpoint
	one       map[string]*clientv3.Client // by endpoint URL: bound to that member
}

// Connect prepares a client. It opens no connection before the first request, so a member that is down is not an error here.
func Connect(ctx context.Context, o Options) (*Client, error) {
	if len(o.Endpoints) == 0 {
		return nil, fail.New(fail.Invalid, "connect to etcd: no endpoints given")
	}
	if o.Timeout <= 0 {
		o.Timeout = 5 * time.Second
	}
	c := &Client{endpoints: o.Endpoints, timeout: o.Timeout, quiet: o.Quiet, one: map[string]*clientv3.Client{}}
	var urls []string
	for _, e := range o.Endpoints {
		urls = append(urls, e.URL)
		cl, err := open(ctx, o, e.URL)
		if err != nil {
			return nil, errors.Join(fail.Wrap(fail.Invalid, err, "connect to etcd at %s", e.URL), c.Close())
		}
		c.one[e.URL] = cl
	}
	var err error
	if c.all, err = open(ctx, o, urls...); err != nil {
		return nil, errors.Join(fail.Wrap(fail.Invalid, err, "connect to etcd at %s", strings.Join(urls, ", ")), c.Close())
	}
	return c, nil
}

// open returns a client of the etcd library. Its context outlives ctx's deadline: only Close ends it.
func open(ctx context.Context, o Options, urls ...string) (*clientv3.Client, error) {
	opts := []grpc.DialOption{grpc.WithChainUnaryInterceptor(promptly)}
	if o.Dial != nil {
		opts = append(opts, grpc.WithContextDialer(o.Dial))
	}
	return clientv3.New(clientv3.Config{
		Context:              context.WithoutCancel(ctx),
		Endpoints:            urls,
		TLS:                  o.TLS,
		DialOptions:          opts,
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 5 * time.Second,
		MaxUnaryRetries:      3,
		Logger:               zap.NewNop(), // every error is returned
	})
}

// promptly makes a request to an unreachable member fail with the reason. Otherwise the etcd client would wait until the deadline and report only
// that.
func promptly(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return invoke(ctx, method, req, reply, cc, append(opts, grpc.WaitForReady(false))...)
}

// Close ends all connections.
func (c *Client) Close() error {
	var errs []error
	for _, cl := range c.one {
		errs = append(errs, cl.Close())
	}
	if c.all != nil {
		errs = append(errs, c.all.Close())
	}
	return errors.Join(errs...)
}

// request bounds one request.
func (c *Client) request(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.timeout)
}

// notForLearners returns a learner's answer to most requests; the next request goes to another member.
func notForLearners() error { return rpctypes.Error(rpctypes.ErrGRPCNotSupportedForLearner) }

// classify gives an error of the etcd client a kind. A request that timed out while ctx is still alive means that no member answered, which may
// change.
func classify(ctx context.Context, err error, format string, args ...any) *fail.Error {
	what := fmt.Sprintf(format, args...)
	if ctx.Err() != nil {
		return fail.Wrap(fail.KindOf(ctx.Err()), err, "%s", what)
	}
	switch {
	case errors.Is(err, rpctypes.ErrUnhealthy), errors.Is(err, rpctypes.ErrTooManyLearners),
		errors.Is(err, rpctypes.ErrMemberNotEnoughStarted), errors.Is(err, rpctypes.ErrMemberLearnerNotReady),
		errors.Is(err, notForLearners()), errors.Is(err, rpctypes.ErrNoLeader), errors.Is(err, rpctypes.ErrLeaderChanged), errors.Is(err, rpctypes.ErrNotCapable),
		errors.Is(err, rpctypes.ErrTimeout), errors.Is(err, rpctypes.ErrTimeoutDueToLeaderFail),
		errors.Is(err, rpctypes.ErrTimeoutDueToConnectionLost), errors.Is(err, rpctypes.ErrStopped):
		return fail.Wrap(fail.NotReady, err, "%s", what)
	case errors.Is(err, rpctypes.ErrMemberNotFound):
		return fail.Wrap(fail.NotFound, err, "%s", what)
	case errors.Is(err, rpctypes.ErrMemberExist), errors.Is(err, rpctypes.ErrPeerURLExist):
		return fail.Wrap(fail.Conflict, err, "%s", what)
	}
	code := status.Code(err)
	var ee rpctypes.EtcdError
	if errors.As(err, &ee) {
		code = ee.Code()
	}
	switch {
	case strings.Contains(err.Error(), "x509:"), strings.Contains(err.Error(), "tls: "), code == codes.Unauthenticated, code == codes.PermissionDenied:
		return fail.Wrap(fail.Unauthorized, err, "%s", what)
	case code == codes.Unavailable, code == codes.DeadlineExceeded, errors.Is(err, context.DeadlineExceeded):
		return fail.Wrap(fail.Unreachable, err, "%s", what)
	}
	return fail.Wrap(fail.Internal, err, "%s", what)
}
