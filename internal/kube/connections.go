package kube

import (
	"context"
	"net"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/naupegos/naupegos/internal/kube/layout"
)

// HTTPClient returns a client for the API of cfg that abandons connections to dead machines as soon as the cluster's own programs do. Its timeout is
// cfg's.
func HTTPClient(cfg *rest.Config) (*http.Client, error) {
	return httpClient(cfg, layout.ReadIdleTimeout, layout.PingTimeout)
}

// httpClient does what rest.HTTPClientFor does, except that the timeouts are parameters: client-go reads them from the environment of the
// whole process.
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

// ProxyPatient reports whether kube-proxy waits for dead machines as long as client-go does by default. That is the case after a user's own "kubeadm
// upgrade", which restores the default. Without kube-proxy it returns false: another program does its work.
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

// patient reports whether kube-proxy's own container lacks part of the environment; it ignores sidecar containers.
func patient(containers []corev1.Container) bool {
	for _, container := range containers {
		if container.Name != "kube-proxy" {
			continue
		}
		for _, want := range layout.ConnectionEnv() {
			if !slices.ContainsFunc(container.Env, func(e corev1.EnvVar) bool { return e.Name == want.Name && e.Value == want.Value }) {
				return true
			}
		}
	}
	return false
}
