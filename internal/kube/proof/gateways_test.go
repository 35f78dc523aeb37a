package proof

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/manifest"
	"github.com/naupegos/naupegos/internal/testkit"
)

func tried() Proxy {
	return Proxy{Namespace: "traefik", Service: "traefik", Ingress: "traefik", NGINX: "nginx", Gateway: "traefik", Image: "naupegos.dev/k8s/echo:v2",
		Status: func(string, ...any) {}, Dial: (&net.Dialer{}).DialContext}
}

// TestAskProxy: a request counts only if the pod behind the proxy answers it, over TLS with the test's own certificate, or if the proxy redirects it
// as it should.
func TestAskProxy(t *testing.T) {
	p := tried()
	certificate, key, err := selfSigned("*" + domain)
	testkit.Must(t, err)
	pair := testkit.Value(tls.X509KeyPair(certificate, key))(t)
	other, _, err := selfSigned("*" + domain)
	testkit.Must(t, err)
	trusted, strangers := x509.NewCertPool(), x509.NewCertPool()
	trusted.AppendCertsFromPEM(certificate)
	strangers.AppendCertsFromPEM(other)

	answers := func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.TLS == nil && r.Host == "redirected"+domain:
			http.Redirect(w, r, "https://"+r.Host+r.URL.Path, http.StatusPermanentRedirect)
		case r.Host == "ingress"+domain && r.URL.Path == "/":
			fmt.Fprintln(w, "echo")
		case r.Host == "elsewhere"+domain:
			fmt.Fprintln(w, "another pod")
		default:
			http.NotFound(w, r)
		}
	}
	plain := httptest.NewServer(http.HandlerFunc(answers))
	t.Cleanup(plain.Close)
	secure := httptest.NewUnstartedServer(http.HandlerFunc(answers))
	secure.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	secure.StartTLS()
	t.Cleanup(secure.Close)
	at := place{plain.Listener.Addr().String(), secure.Listener.Addr().String()}
	for _, c := range []struct {
		r       request
		pool    *x509.CertPool
		problem string // empty: it is answered
	}{
		{request{"HTTP", "http://ingress" + domain + "/", false}, trusted, ""},
		{request{"HTTPS", "https://ingress" + domain + "/", false}, trusted, ""},
		{request{"HTTPS", "https://ingress" + domain + "/", false}, strangers, "certificate"},
		{request{"HTTPS", "https://ingress" + domain + "/probe", false}, trusted, "404 Not Found"},
		{request{"HTTP", "http://elsewhere" + domain + "/", false}, trusted, "another pod"},
		{request{"HTTP", "http://redirected" + domain + "/", true}, trusted, ""},
		{request{"HTTP", "http://redirected" + domain + "/", false}, trusted, "308 Permanent Redirect"},
		{request{"HTTP", "http://ingress" + domain + "/", true}, trusted, "200 OK instead of a redirection"},
	} {
		err := p.ask(t.Context(), at, c.r, c.pool)
		if c.problem == "" {
			testkit.Must(t, err)
			continue
		}
		testkit.Fails(t, err, fail.NotReady, c.problem, "by "+c.r.what, "traefik/traefik")
	}
	plain.Close()
	testkit.Fails(t, p.ask(t.Context(), at, request{"HTTP", "http://ingress" + domain + "/", false}, trusted), fail.NotReady, "refused")
}

func TestPlacesOfProxy(t *testing.T) {
	const service, pods = "/api/v1/namespaces/traefik/services/traefik", "/api/v1/namespaces/traefik/pods"
	places := func(p Proxy, answers map[string]string) ([]place, error) {
		return p.places(t.Context(), client(t, answers))
	}
	balanced, ports := tried(), tried()
	ports.HTTP, ports.HTTPS = 30080, 30443
	got, err := places(balanced, map[string]string{service: `{"kind":"Service","apiVersion":"v1","status":{"loadBalancer":{"ingress":[{"ip":"192.168.7.200"},{"hostname":"lb.example.org"}]}}}`})
	if fmt.Sprint(got) != "[{192.168.7.200:80 192.168.7.200:443} {lb.example.org:80 lb.example.org:443}]" || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	_, err = places(balanced, map[string]string{service: `{"kind":"Service","apiVersion":"v1"}`})
	testkit.Fails(t, err, fail.NotReady, "traefik/traefik has no address", "metallb")
	_, err = places(balanced, nil)
	testkit.Fails(t, err, fail.NotReady, "get Service traefik/traefik")

	pod := func(host, phase, more string) string {
		return fmt.Sprintf(`{"metadata":{"name":"p"%s},"status":{"phase":%q,"hostIP":%q}}`, more, phase, host)
	}
	list := func(all ...string) map[string]string {
		return map[string]string{pods: `{"kind":"PodList","apiVersion":"v1","items":[` + strings.Join(all, ",") + `]}`}
	}
	got, err = places(ports, list(pod("10.0.0.3", "Running", ""), pod("10.0.0.2", "Running", ""), pod("10.0.0.2", "Running", ""), pod("10.0.0.1", "Pending", ""),
		pod("10.0.0.4", "Running", `,"deletionTimestamp":"2026-01-01T00:00:00Z"`), pod("10.0.0.5", "Running", ""), pod("10.0.0.6", "Running", "")))
	if fmt.Sprint(got) != "[{10.0.0.2:30080 10.0.0.2:30443} {10.0.0.3:30080 10.0.0.3:30443} {10.0.0.5:30080 10.0.0.5:30443}]" || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	_, err = places(ports, list(pod("10.0.0.1", "Pending", "")))
	testkit.Fails(t, err, fail.NotReady, "no pod of traefik runs")
}

// TestRoutesOfProxy: a test creates only the objects that it needs, and each request has its object.
func TestRoutesOfProxy(t *testing.T) {
	all := tried()
	for _, c := range []struct {
		ingress, nginx, gateway bool
		want                    string // kinds of the routes
		requests                int
	}{{true, true, true, "Ingress/ingress Ingress/nginx Gateway/gateway HTTPRoute/gateway", 5}, {true, false, false, "Ingress/ingress", 2}, {false, false, true, "Gateway/gateway HTTPRoute/gateway", 2}} {
		p := all
		if !c.ingress {
			p.Ingress = ""
		}
		if !c.nginx {
			p.NGINX = ""
		}
		if !c.gateway {
			p.Gateway = ""
		}
		var routes []string
		text := p.manifests([]byte("certificate"), []byte("key"))
		for _, o := range testkit.Value(manifest.Parse([]byte(text)))(t) {
			if o.GetKind() != "Namespace" && o.GetNamespace() != RoutesNamespace {
				t.Errorf("%s %s is in namespace %q", o.GetKind(), o.GetName(), o.GetNamespace())
			}
			if strings.HasPrefix(o.GetAPIVersion(), "networking") || strings.HasPrefix(o.GetAPIVersion(), "gateway") {
				routes = append(routes, o.GetKind()+"/"+o.GetName())
			}
		}
		if got := strings.Join(routes, " "); got != c.want || len(p.requests()) != c.requests {
			t.Errorf("%q with %d requests, want %q with %d", got, len(p.requests()), c.want, c.requests)
		}
		for _, r := range p.requests() {
			host, _, _ := strings.Cut(r.url[strings.Index(r.url, "//")+2:], "/")
			if !strings.Contains(text, host) {
				t.Errorf("nothing routes %s", r.url)
			}
		}
	}
}

// TestRemoveRoutes: the test waits until its namespace is gone, and says what it waits for.
func TestRemoveRoutes(t *testing.T) {
	t.Parallel()
	testkit.Must(t, removeRoutes(t.Context(), client(t, nil), tried()))
	there := map[string]string{"/api/v1/namespaces/" + RoutesNamespace: `{"kind":"Namespace","apiVersion":"v1"}`}
	testkit.Fails(t, removeRoutes(soon(t), client(t, there), tried()), fail.NotReady, RoutesNamespace+" is not gone")
}

// TestRouteEnds: an interruption ends the test.
func TestRouteEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := Route(ctx, client(t, nil), tried()); fail.KindOf(err) != fail.Interrupted {
		t.Errorf("%v", err)
	}
}
