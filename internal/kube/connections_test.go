package kube

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/kube/manifest"
)

// muteConn is a connection whose other end can lose power: nothing arrives any more, and nothing closes it.
type muteConn struct {
	net.Conn
	dead *atomic.Bool
}

func (c muteConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.dead.Load() {
			return n, err
		}
	}
}

// TestDeadConnectionIsLeft: when the machine at the other end of a client's connection dies, the client pings it, abandons it, and sends the next
// request on another connection.
func TestDeadConnectionIsLeft(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) }))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	var dials []*atomic.Bool
	cfg := &rest.Config{Host: s.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		dead := &atomic.Bool{}
		dials = append(dials, dead)
		return muteConn{conn, dead}, err
	}
	c, err := httpClient(cfg, 50*time.Millisecond, 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseIdleConnections()
	get := func() (string, error) {
		resp, err := c.Get(s.URL)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return string(body), err
	}
	for range 2 {
		if proto, err := get(); err != nil || proto != "HTTP/2.0" {
			t.Fatalf("%q, %v", proto, err)
		}
	}
	if len(dials) != 1 {
		t.Fatalf("%d connections for two requests", len(dials))
	}
	dials[0].Store(true)
	began := time.Now()
	if _, err := get(); err == nil {
		t.Fatal("a dead machine has answered")
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the connection to a dead machine was given up after %v", took)
	}
	if _, err := get(); err != nil || len(dials) != 2 {
		t.Errorf("after that: %v, by connection %d", err, len(dials))
	}
}

func TestHTTPClientKeepsTheConfig(t *testing.T) {
	c, err := HTTPClient(&rest.Config{Timeout: time.Second, BearerToken: "token", TLSClientConfig: rest.TLSClientConfig{ServerName: "api"}})
	if err != nil {
		t.Fatal(err)
	}
	rt := c.Transport
	for {
		w, ok := rt.(interface{ WrappedRoundTripper() http.RoundTripper })
		if !ok {
			break
		}
		rt = w.WrappedRoundTripper()
	}
	base, ok := rt.(*http.Transport)
	if !ok || rt == c.Transport {
		t.Fatalf("the token is not sent: %T", c.Transport)
	}
	if c.Timeout != time.Second || base.TLSClientConfig.ServerName != "api" || base.TLSClientConfig.MinVersion < tls.VersionTLS12 {
		t.Errorf("timeout %v, TLS %+v", c.Timeout, base.TLSClientConfig)
	}
	if h := base.HTTP2; h.SendPingTimeout != layout.ReadIdleTimeout || h.PingTimeout != layout.PingTimeout {
		t.Errorf("%+v", h)
	}
	if _, err := HTTPClient(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: []byte("none")}}); err == nil {
		t.Error("authorities that can't be read are taken")
	}
}

// printedProxy is the relevant part of kubeadm's output.
const printedProxy = `---
apiVersion: v1
kind: ServiceAccount
metadata: {name: kube-proxy, namespace: kube-system}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: kube-proxy, namespace: kube-system}
spec:
  template:
    spec:
      containers:
      - name: kube-proxy
        env:
        - {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
`

// TestPatientProxyIsFound: ProxyPatient recognizes kube-proxy as kubeadm prints it, and as the layout's phase installs it.
func TestPatientProxyIsFound(t *testing.T) {
	out, err := layout.InstallProxy().Manifests([]byte(printedProxy))
	if err != nil {
		t.Fatal(err)
	}
	const sidecar = "      containers:\n      - name: sidecar\n"
	beside := strings.Replace(string(out), "      containers:\n", sidecar, 1)
	if beside == string(out) {
		t.Fatalf("no containers in\n%s", out)
	}
	for text, want := range map[string]bool{printedProxy: true, string(out): false, beside: false} {
		objects, err := manifest.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		var ds appsv1.DaemonSet
		for _, u := range objects {
			if u.GetKind() == "DaemonSet" {
				err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &ds)
			}
		}
		if got := patient(ds.Spec.Template.Spec.Containers); err != nil || got != want {
			t.Errorf("patient: %v, %v, of\n%s", got, err, text)
		}
	}
}
