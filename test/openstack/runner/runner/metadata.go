package runner

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// metadata queries nova-api-metadata as neutron-metadata-agent does: requests name the instance and are signed.
type metadata struct {
	base   *url.URL
	secret string
	client *http.Client
}

func newMetadata(base, secret string) (*metadata, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return nil, fail.New(fail.Invalid, "the metadata service's address %q is not a URL", base)
	}
	return &metadata{base: u, secret: secret, client: &http.Client{Timeout: callTimeout}}, nil
}

// sign adds the headers that identify the instance to Nova.
func (m *metadata) sign(h http.Header, s server, address string) {
	mac := hmac.New(sha256.New, []byte(m.secret))
	mac.Write([]byte(s.ID))
	h.Set("X-Instance-ID", s.ID)
	h.Set("X-Tenant-ID", s.Project)
	h.Set("X-Instance-ID-Signature", hex.EncodeToString(mac.Sum(nil)))
	h.Set("X-Forwarded-For", address)
}

// get reads one path of a server's metadata. It returns nothing if Nova has no such path.
func (m *metadata) get(ctx context.Context, s server, address, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.base.JoinPath(path).String(), nil)
	if err != nil {
		return nil, err
	}
	m.sign(req.Header, s, address)
	resp, err := m.client.Do(req)
	if err != nil {
		return nil, fail.Wrap(fail.Unreachable, err, "ask Nova's metadata service for %s", path).At(s.Name)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	switch {
	case err != nil:
		return nil, fail.Wrap(fail.Unreachable, err, "read Nova's metadata %s", path).At(s.Name)
	case resp.StatusCode == http.StatusNotFound:
		return nil, nil
	case resp.StatusCode != http.StatusOK:
		return nil, fail.New(fail.Unreachable, "Nova's metadata service answers %s for %s", resp.Status, path).At(s.Name)
	}
	return data, nil
}

// instance is a server's metadata.
type instance struct {
	Hostname   string            `json:"hostname"`
	PublicKeys map[string]string `json:"public_keys"`
	UserData   []byte            `json:"-"`
}

// instance reads what a machine needs to boot. Nova has meta_data.json for every server that it knows, and user-data for some.
func (m *metadata) instance(ctx context.Context, s server, address string) (instance, error) {
	var out instance
	data, err := m.get(ctx, s, address, "openstack/latest/meta_data.json")
	if err != nil {
		return out, err
	}
	if data == nil {
		return out, fail.New(fail.NotReady, "Nova's metadata service knows no such instance (yet)").At(s.Name)
	}
	if err := json.Unmarshal(data, &out); err != nil {
		return out, fmt.Errorf("read meta_data.json of %s: %w", s.Name, err)
	}
	out.UserData, err = m.get(ctx, s, address, "openstack/latest/user_data")
	return out, err
}

// metadataProxy serves 169.254.169.254 on one network.
type metadataProxy struct {
	listener net.Listener
	server   *http.Server
}

// startProxy listens on this host's address in the network. who returns the server with a given address.
func (m *metadata) startProxy(address netip.Addr, who func(netip.Addr) (server, bool)) (*metadataProxy, error) {
	l, err := net.Listen("tcp", netip.AddrPortFrom(address, 0).String())
	if err != nil {
		return nil, fmt.Errorf("listen for machines' questions about themselves: %w", err)
	}
	p := &metadataProxy{listener: l, server: &http.Server{Handler: m.handler(who), ReadHeaderTimeout: callTimeout}}
	go func() { _ = p.server.Serve(l) }() // Serve returns when the listener is closed
	return p, nil
}

func (p *metadataProxy) address() netip.AddrPort {
	return p.listener.Addr().(*net.TCPAddr).AddrPort() // a TCP listener's address
}

func (p *metadataProxy) close() error { return p.server.Close() }

func (m *metadata) handler(who func(netip.Addr) (server, bool)) http.Handler {
	type key struct{}
	proxy := &httputil.ReverseProxy{
		Transport: &http.Transport{ResponseHeaderTimeout: callTimeout, IdleConnTimeout: time.Minute},
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(m.base)
			for _, h := range []string{"X-Instance-ID", "X-Tenant-ID", "X-Instance-ID-Signature", "X-Forwarded-For"} {
				r.Out.Header.Del(h) // a machine must not choose its own identity
			}
			s := r.In.Context().Value(key{}).(server) // the handler below sets it
			m.sign(r.Out.Header, s, hostOf(r.In.RemoteAddr).String())
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s, known := who(hostOf(r.RemoteAddr))
		if !known {
			http.Error(w, "no server of this network has the address "+hostOf(r.RemoteAddr).String(), http.StatusNotFound)
			return
		}
		proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), key{}, s)))
	})
}

func hostOf(remote string) netip.Addr {
	a, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	return a.Addr().Unmap()
}
