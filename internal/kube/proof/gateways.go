package proof

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/kube/answer"
)

// RoutesNamespace is where the test of a proxy for Ingresses and Gateways lives while it runs.
const RoutesNamespace = "naupegos-smoke-routes"

// echoServer is the pod that the test's requests must reach; it answers with its name.
const echoServer = "echo"

// domain holds the names of the test's Ingresses and Gateway.
const domain = ".routes.naupegos.invalid"

const (
	askTimeout  = 3 * time.Second // for one request
	goneTimeout = 2 * time.Minute // for the removal of the namespace
	maxPlaces   = 3               // addresses that a proof sends requests to
)

// Proxy is a proxy for Ingresses and Gateways, and the parameters of its test.
type Proxy struct {
	Namespace, Service string // of the proxy; its pods have the Service's name as label app.kubernetes.io/name
	HTTP, HTTPS        int    // ports of the nodes that run its pods; 0: requests go to the address of its Service of type LoadBalancer

	Ingress, NGINX, Gateway string // classes to try: of Ingresses, of Ingresses with annotations of ingress-nginx, and of Gateways; empty: not tried
	Redirects               bool   // it redirects requests by HTTP to HTTPS

	Image  string // of the bundle's echo server
	Status func(format string, args ...any)
	Dial   func(ctx context.Context, network, address string) (net.Conn, error) // from a machine of the cluster
}

// place is an address of a proxy.
type place struct{ http, https string }

// request is a request that has to reach the echo server.
type request struct {
	what, url string
	redirect  bool // the answer is a redirection to HTTPS
}

// Route makes an echo server with an Ingress and a Gateway of the proxy's classes, whose certificate is in a Secret, sends them requests by HTTP and HTTPS until
// each is answered, bounded by ctx, and removes everything again. It returns the number of requests and the first place that was asked.
func Route(ctx context.Context, c *kube.Client, p Proxy) (n int, at string, err error) {
	if err := removeRoutes(ctx, c, p); err != nil { // of an interrupted test
		return 0, "", err
	}
	n, at, err = route(ctx, c, p)
	if cleanup := removeRoutes(context.WithoutCancel(ctx), c, p); err == nil {
		err = cleanup
	}
	return n, at, err
}

func route(ctx context.Context, c *kube.Client, p Proxy) (int, string, error) {
	certificate, key, err := selfSigned("*" + domain)
	if err != nil {
		return 0, "", err
	}
	if err := answer.Poll(ctx, pause, func(ctx context.Context) error { // the API serves new kinds a moment after their definitions
		_, err := c.Apply(ctx, []byte(p.manifests(certificate, key)), kube.ApplyOptions{})
		return err
	}); err != nil {
		return 0, "", err
	}
	p.Status("waiting for the address of %s", p.Service)
	var places []place
	if err := answer.Poll(ctx, pause, func(ctx context.Context) error {
		var err error
		places, err = p.places(ctx, c)
		return err
	}); err != nil {
		return 0, "", err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(certificate)
	n := 0
	for _, at := range places {
		for _, r := range p.requests() {
			p.Status("sending a request by %s to %s", r.what, at.https)
			if err := answer.Poll(ctx, pause, func(ctx context.Context) error { return p.ask(ctx, at, r, trusted) }); err != nil {
				return n, "", err
			}
			n++
		}
	}
	return n, places[0].https, nil
}

// requests lists the requests that have to be answered at each place.
func (p *Proxy) requests() []request {
	var out []request
	if p.Ingress != "" {
		out = append(out, request{"HTTP for an Ingress", "http://ingress" + domain + "/", p.Redirects}, request{"HTTPS for an Ingress", "https://ingress" + domain + "/", false})
	}
	if p.NGINX != "" { // the annotation rewrites the path to /, the only one that the echo server serves
		out = append(out, request{"HTTPS for an Ingress of ingress-nginx", "https://nginx" + domain + "/probe", false})
	}
	if p.Gateway != "" {
		out = append(out, request{"HTTP for a Gateway", "http://gateway" + domain + "/", p.Redirects}, request{"HTTPS for a Gateway", "https://gateway" + domain + "/", false})
	}
	return out
}

// ask sends one request on a new connection. It returns fail.NotReady unless the echo server answers, or the proxy redirects as it should.
func (p *Proxy) ask(ctx context.Context, at place, r request, trusted *x509.CertPool) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, nil)
	if err != nil {
		return fail.Wrap(fail.Internal, err, "make a request for %s", r.url)
	}
	to := map[string]string{"http": at.http, "https": at.https}[req.URL.Scheme]
	client := http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12},
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) { return p.Dial(ctx, network, to) }},
	}
	fault := func(format string, args ...any) error {
		return fail.New(fail.NotReady, "request by %s at %s: %s", r.what, to, fmt.Sprintf(format, args...)).Do("look at the pods of %s/%s and at their logs", p.Namespace, p.Service)
	}
	res, err := client.Do(req)
	if err != nil {
		return fault("%v", err)
	}
	defer res.Body.Close() // read only
	body, err := io.ReadAll(io.LimitReader(res.Body, 100))
	if err != nil {
		return fault("%v", err)
	}
	target, _ := url.Parse(res.Header.Get("Location"))
	switch {
	case r.redirect && res.StatusCode >= 300 && res.StatusCode < 400 && target != nil && target.Scheme == "https":
		return nil
	case r.redirect:
		return fault("%s instead of a redirection to HTTPS", res.Status)
	case res.StatusCode != http.StatusOK || string(bytes.TrimSpace(body)) != echoServer:
		return fault("%s, %q, which is not the answer of the pod behind it", res.Status, bytes.TrimSpace(body))
	}
	return nil
}

// places returns the addresses at which clients reach the proxy; fail.NotReady while there are none.
func (p *Proxy) places(ctx context.Context, c *kube.Client) ([]place, error) {
	var hosts []string
	web, secure := cmp.Or(p.HTTP, 80), cmp.Or(p.HTTPS, 443)
	if p.HTTP == 0 {
		s, err := kube.Set(c).CoreV1().Services(p.Namespace).Get(ctx, p.Service, metav1.GetOptions{})
		if err != nil {
			return nil, awaited(ctx, c, err, "get Service %s/%s", p.Namespace, p.Service)
		}
		for _, in := range s.Status.LoadBalancer.Ingress {
			hosts = append(hosts, cmp.Or(in.IP, in.Hostname))
		}
		if len(hosts) == 0 {
			return nil, fail.New(fail.NotReady, "Service %s/%s has no address", p.Namespace, p.Service).At(c.Server()).
				Do("look at the events of the Service: metallb or the cloud gives the address")
		}
	} else {
		pods, err := kube.Set(c).CoreV1().Pods(p.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + p.Service})
		if err != nil {
			return nil, kube.APIError(ctx, err, "list the pods of %s", p.Service).At(c.Server())
		}
		for i := range pods.Items {
			if s := pods.Items[i].Status; pods.Items[i].DeletionTimestamp == nil && s.Phase == corev1.PodRunning && s.HostIP != "" {
				hosts = append(hosts, s.HostIP)
			}
		}
		if len(hosts) == 0 {
			return nil, fail.New(fail.NotReady, "no pod of %s runs", p.Service).At(c.Server()).Do("look at the pods in namespace %s", p.Namespace)
		}
	}
	slices.Sort(hosts)
	hosts = slices.Compact(hosts)
	var out []place
	for _, h := range hosts[:min(len(hosts), maxPlaces)] {
		out = append(out, place{net.JoinHostPort(h, strconv.Itoa(web)), net.JoinHostPort(h, strconv.Itoa(secure))})
	}
	return out, nil
}

// removeRoutes deletes the namespace and waits until it is gone.
func removeRoutes(ctx context.Context, c *kube.Client, p Proxy) error {
	ctx, cancel := context.WithTimeout(ctx, goneTimeout)
	defer cancel()
	return answer.Poll(ctx, pause, func(ctx context.Context) error {
		err := kube.Set(c).CoreV1().Namespaces().Delete(ctx, RoutesNamespace, metav1.DeleteOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil && !apierrors.IsConflict(err): // conflict: it is already being deleted
			return kube.APIError(ctx, err, "delete namespace %s", RoutesNamespace).At(c.Server())
		}
		p.Status("deleting the test's objects")
		return fail.New(fail.NotReady, "namespace %s is not gone", RoutesNamespace).At(c.Server()).Do("look at its conditions: kubectl get namespace %s -o yaml", RoutesNamespace)
	})
}

// manifests renders the test's objects.
func (p *Proxy) manifests(certificate, key []byte) string {
	var b strings.Builder
	encode := base64.StdEncoding.EncodeToString
	fmt.Fprintf(&b, `apiVersion: v1
kind: Namespace
metadata:
  name: %[1]s
  labels: {pod-security.kubernetes.io/enforce: restricted, pod-security.kubernetes.io/enforce-version: latest}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: %[2]s, namespace: %[1]s}
automountServiceAccountToken: false
---
apiVersion: v1
kind: Secret
metadata: {name: certificate, namespace: %[1]s}
type: kubernetes.io/tls
data: {tls.crt: %[4]s, tls.key: %[5]s}
---
apiVersion: v1
kind: Service
metadata: {name: %[2]s, namespace: %[1]s}
spec:
  selector: {app: %[2]s}
  ports: [{name: http, port: 80, targetPort: 8080}]
---
apiVersion: v1
kind: Pod
metadata: {name: %[2]s, namespace: %[1]s, labels: {app: %[2]s}}
spec:
  serviceAccountName: %[2]s
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: 1
  containers:
    - name: %[2]s
      image: %[3]q
      imagePullPolicy: IfNotPresent
      ports: [{containerPort: 8080}]
      resources: {requests: {cpu: 10m, memory: 16Mi}, limits: {memory: 64Mi}}
      securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, runAsNonRoot: true, runAsUser: 65532, capabilities: {drop: [ALL]}, seccompProfile: {type: RuntimeDefault}}
`, RoutesNamespace, echoServer, p.Image, encode(certificate), encode(key))
	if p.Ingress != "" {
		b.WriteString(ingress("ingress", p.Ingress, "{}", "/"))
	}
	if p.NGINX != "" {
		b.WriteString(ingress("nginx", p.NGINX, `{nginx.ingress.kubernetes.io/rewrite-target: /}`, "/probe"))
	}
	if p.Gateway != "" {
		fmt.Fprintf(&b, `---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gateway, namespace: %[1]s}
spec:
  gatewayClassName: %[2]s
  listeners:
    - {name: http, port: 80, protocol: HTTP, hostname: gateway%[3]s}
    - name: https
      port: 443
      protocol: HTTPS
      hostname: gateway%[3]s
      tls: {certificateRefs: [{name: certificate}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: gateway, namespace: %[1]s}
spec:
  parentRefs: [{name: gateway}]
  hostnames: [gateway%[3]s]
  rules:
    - backendRefs: [{name: %[4]s, port: 80}]
`, RoutesNamespace, p.Gateway, domain, echoServer)
	}
	return b.String()
}

// ingress renders an Ingress of a class.
func ingress(name, class, annotations, path string) string {
	return fmt.Sprintf(`---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: %[2]s, namespace: %[1]s, annotations: %[4]s}
spec:
  ingressClassName: %[3]s
  tls: [{hosts: [%[2]s%[6]s], secretName: certificate}]
  rules:
    - host: %[2]s%[6]s
      http:
        paths:
          - {path: %[5]s, pathType: Prefix, backend: {service: {name: %[7]s, port: {number: 80}}}}
`, RoutesNamespace, name, class, annotations, path, domain, echoServer)
}

// selfSigned makes a certificate for a name with its key, for an hour.
func selfSigned(name string) (certificate, key []byte, err error) {
	const doing = "make the certificate of a test"
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fail.Wrap(fail.Internal, err, doing)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, fail.Wrap(fail.Internal, err, doing)
	}
	now := time.Now()
	of := &x509.Certificate{SerialNumber: serial, DNSNames: []string{name}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, of, of, secret.Public(), secret)
	if err != nil {
		return nil, nil, fail.Wrap(fail.Internal, err, doing)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		return nil, nil, fail.Wrap(fail.Internal, err, doing)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), nil
}
