package kube

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/internal/fail"
)

// When the machine of an API server loses its power, nobody ends the connections to it. Gateways of ours do, a cloud's load
// balancer does not: clients have to find out by themselves, by asking on a connection from which nothing came for a while.
// By client-go's defaults (30 s, then 15 s for the answer) they are without an API for 45 s. These values make it 8 s at most.
//
// An idle connection then carries a ping and its answer, some 200 bytes, every 5 s: of a thousand nodes with a handful of
// connections each a few hundred KiB a second and a thousand small frames, shared by all API servers. An API server that can't
// answer a ping for 3 s is one that gateways take out, too; a client that was mistaken makes a new connection and resumes its
// watches.
const (
	readIdleTimeout = 5 * time.Second
	pingTimeout     = 3 * time.Second
)

// connectionEnv is the environment that tells client-go's programs these timeouts; they know no other way.
func connectionEnv() []envVar {
	return []envVar{
		{"HTTP2_READ_IDLE_TIMEOUT_SECONDS", strconv.Itoa(int(readIdleTimeout.Seconds()))},
		{"HTTP2_PING_TIMEOUT_SECONDS", strconv.Itoa(int(pingTimeout.Seconds()))},
	}
}

type envVar struct{ Name, Value string }

// HTTPClient returns a client for the API of cfg that gives up connections to dead machines as soon as the cluster's own
// programs do. Its timeout is cfg's.
func HTTPClient(cfg *rest.Config) (*http.Client, error) {
	return httpClient(cfg, readIdleTimeout, pingTimeout)
}

// httpClient is what rest.HTTPClientFor makes, but for the timeouts: client-go takes those from the environment of the whole
// process.
func httpClient(cfg *rest.Config, idle, ping time.Duration) (*http.Client, error) {
	tls, err := rest.TLSConfigFor(cfg)
	if err != nil {
		return nil, err
	}
	dial, proxy := cfg.Dial, cfg.Proxy
	if dial == nil {
		dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	if proxy == nil {
		proxy = utilnet.NewProxierWithNoProxyCIDR(http.ProxyFromEnvironment)
	}
	base := &http.Transport{
		TLSClientConfig: tls, DialContext: dial, Proxy: proxy, DisableCompression: cfg.DisableCompression,
		TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second, MaxIdleConnsPerHost: 25,
		ForceAttemptHTTP2: true, HTTP2: &http.HTTP2Config{SendPingTimeout: idle, PingTimeout: ping},
	}
	rt, err := rest.HTTPWrappersForConfig(cfg, base)
	return &http.Client{Transport: rt, Timeout: cfg.Timeout}, err
}

// withConnectionEnv adds the environment to the containers of the DaemonSet in what kubeadm has printed.
func withConnectionEnv(manifests []byte) ([]byte, error) {
	objects, err := parse(asYAML(manifests))
	if err != nil {
		return nil, err
	}
	var docs [][]byte
	for _, u := range objects {
		if u.GetKind() == "DaemonSet" {
			if err := addConnectionEnv(u); err != nil {
				return nil, err
			}
		}
		doc, err := yaml.Marshal(u.Object)
		if err != nil {
			return nil, fail.Wrap(fail.Internal, err, "render %s", nameOf(u))
		}
		docs = append(docs, doc)
	}
	if !slices.ContainsFunc(objects, func(u *unstructured.Unstructured) bool { return u.GetKind() == "DaemonSet" }) {
		return nil, fail.New(fail.Internal, "there is no DaemonSet among the %d objects that kubeadm has printed", len(objects))
	}
	return bytes.Join(docs, []byte("---\n")), nil
}

// asYAML makes YAML of what kubeadm prints. That of 1.37 tells among the manifests of the patches that it finds, and has no newline between
// a separator and the DaemonSet.
func asYAML(printed []byte) []byte {
	var kept []byte
	for line := range bytes.Lines(printed) {
		if bytes.HasPrefix(line, []byte("[patches] ")) {
			continue
		}
		if object, ok := bytes.CutPrefix(line, []byte("---apiVersion:")); ok {
			line = append([]byte("---\napiVersion:"), object...)
		}
		kept = append(kept, line...)
	}
	return kept
}

// ProxyPatient reports whether kube-proxy waits for dead machines as long as client-go does by default: so it is after somebody's own
// "kubeadm upgrade", which puts it back. Where there is no kube-proxy, something else does its work.
func (c *Client) ProxyPatient(ctx context.Context) (bool, error) {
	ds, err := c.set.AppsV1().DaemonSets(metav1.NamespaceSystem).Get(ctx, "kube-proxy", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, apiError(ctx, err, "get DaemonSet kube-system/kube-proxy").At(c.server)
	}
	return patient(ds.Spec.Template.Spec.Containers), nil
}

// patient reports whether kube-proxy's own container lacks some of the environment; what others run beside it is their business.
func patient(containers []corev1.Container) bool {
	for _, container := range containers {
		if container.Name != "kube-proxy" {
			continue
		}
		for _, want := range connectionEnv() {
			if !slices.ContainsFunc(container.Env, func(e corev1.EnvVar) bool { return e.Name == want.Name && e.Value == want.Value }) {
				return true
			}
		}
	}
	return false
}

func addConnectionEnv(u *unstructured.Unstructured) error {
	containers, _, err := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
	if err != nil {
		return fail.Wrap(fail.Internal, err, "read the containers of %s", nameOf(u))
	}
	for _, c := range containers {
		container, ok := c.(map[string]any)
		if !ok {
			return fail.New(fail.Internal, "a container of %s is not an object", nameOf(u))
		}
		env, _ := container["env"].([]any)
		for _, e := range connectionEnv() {
			env = append(env, map[string]any{"name": e.Name, "value": e.Value})
		}
		container["env"] = env
	}
	return unstructured.SetNestedSlice(u.Object, containers, "spec", "template", "spec", "containers")
}
