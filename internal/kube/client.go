package kube

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/objects"
)

// FieldManager is the field manager of everything that this package applies.
const FieldManager = objects.FieldManager

// ApplyOptions are the options of Client.Apply.
type ApplyOptions = objects.Options

// ClientOptions are the address and limits of a Client.
type ClientOptions struct {
	Server  string                                                            // "https://10.0.0.5:6443" in place of the kubeconfig's: one API server behind the endpoint
	Dial    func(ctx context.Context, network, addr string) (net.Conn, error) // nil means plain TCP
	Timeout time.Duration                                                     // of one request (watches excepted); 0 means 15 s
	QPS     float32                                                           // requests a second, bursts of twice that; 0 means 50
}

// Client talks to the API of one cluster. It is safe for use by several goroutines.
type Client struct {
	server  string
	timeout time.Duration
	http    *http.Client
	set     kubernetes.Interface // requests, bounded by timeout
	watch   kubernetes.Interface // watches, which last as long as the caller's context and end when they reach the bounds of an answer
	dynamic dynamic.Interface
	*objects.Applier
}

// NewClient prepares a client from a kubeconfig. It opens no connection. A kubeconfig that can't be read is fail.Invalid.
func NewClient(kubeconfig []byte, o ClientOptions) (*Client, error) {
	return newClient(kubeconfig, o, maxAnswer)
}

func newClient(kubeconfig []byte, o ClientOptions, most bounds) (*Client, error) {
	cfg, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read kubeconfig")
	}
	if o.Server != "" {
		cfg.Host = o.Server
	}
	if o.Timeout <= 0 {
		o.Timeout = 15 * time.Second
	}
	if o.QPS <= 0 {
		o.QPS = 50
	}
	cfg.QPS, cfg.Burst = o.QPS, int(2*o.QPS)
	cfg.Dial = o.Dial
	cfg.UserAgent = FieldManager
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON // bounded counts what JSON holds
	cfg.WarningHandler = rest.NoWarnings{}                                                     // deprecated APIs in our own manifests concern our tests, not the user
	plain, err := HTTPClient(cfg)
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "use kubeconfig for %s", cfg.Host)
	}
	c := &Client{server: cfg.Host, timeout: o.Timeout, http: &http.Client{Transport: bounded{plain.Transport, most}, Timeout: o.Timeout, CheckRedirect: stays}}
	if err := c.connect(cfg, &http.Client{Transport: c.http.Transport, CheckRedirect: stays}); err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "use kubeconfig for %s", cfg.Host)
	}
	return c, nil
}

// stays follows no redirection: API servers need none, and a tenant's API server, or a pod behind it, must not redirect this process to other
// servers.
func stays(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// connect creates the clients for the kinds of access; they share connections and one rate limit for requests.
func (c *Client) connect(cfg *rest.Config, untimed *http.Client) error {
	set, err := kubernetes.NewForConfigAndClient(cfg, c.http)
	if err != nil {
		return err
	}
	watch, err := kubernetes.NewForConfigAndClient(cfg, untimed)
	if err != nil {
		return err
	}
	if c.dynamic, err = dynamic.NewForConfigAndClient(cfg, c.http); err != nil {
		return err
	}
	meta, err := metadata.NewForConfigAndClient(cfg, c.http)
	if err != nil {
		return err
	}
	d, err := discovery.NewDiscoveryClientForConfigAndClient(cfg, c.http)
	if err != nil {
		return err
	}
	c.set, c.watch = set, watch
	c.Applier = &objects.Applier{Host: c.server, Set: set, Dynamic: c.dynamic, Meta: meta, Mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(d))}
	return nil
}

// Close ends idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Set returns the client of the API's own kinds, for packages that need requests that this one does not offer. Its requests are bounded.
func Set(c *Client) kubernetes.Interface { return c.set }

// APIError gives an error of a Set a kind and says what was attempted.
func APIError(ctx context.Context, err error, format string, args ...any) *fail.Error {
	return apiError(ctx, err, format, args...)
}

// Server returns the URL to which requests go.
func (c *Client) Server() string { return c.server }

// Ready requests /readyz. fail.NotReady names the failing checks; fail.Unreachable means no answer.
func (c *Client) Ready(ctx context.Context) error {
	body, err := c.set.Discovery().RESTClient().Get().AbsPath("/readyz").Param("verbose", "true").DoRaw(ctx)
	if err == nil {
		return nil
	}
	if bad := failing(string(body)); len(bad) > 0 {
		return fail.New(fail.NotReady, "API server is not ready: %s", strings.Join(bad, ", ")).At(c.server)
	}
	return apiError(ctx, err, "ask the API server whether it is ready").At(c.server)
}

// WaitReady waits until /readyz succeeds or ctx ends. It polls, at most every 200 ms: nothing can be watched before an API answers.
func (c *Client) WaitReady(ctx context.Context) error {
	return poll(ctx, 200*time.Millisecond, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, min(c.timeout, 3*time.Second))
		defer cancel()
		return c.Ready(ctx)
	})
}

// failing picks the failed checks out of a verbose readiness report: lines such as "[-]etcd failed: reason withheld".
func failing(report string) []string {
	var out []string
	for line := range strings.Lines(report) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "[-]"); ok {
			name, _, _ = strings.Cut(name, " ")
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
