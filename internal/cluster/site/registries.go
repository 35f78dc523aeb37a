package site

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/agent/registrycheck"
	"github.com/naupegos/naupegos/internal/machine"
)

// CertsDir contains a directory for each registry. containerd reads it at every pull.
const CertsDir = "/etc/containerd/certs.d"

// Account is a user with a password.
type Account struct{ User, Password string }

// authorization returns the value of the HTTP header Authorization. containerd sends it to the host and to the host's token server, if there is one.
func (a Account) authorization() string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(a.User+":"+a.Password))
}

// Endpoint is a registry or a mirror as machines reach it.
type Endpoint struct {
	URL      string
	CA       string // PEM; empty: the system's authorities
	Insecure bool
	Account  *Account // nil: none
}

// AccountOf returns the user and password to which a document refers for the service at a URL.
type AccountOf func(auth *v1alpha1.BasicAuth, url string) (*Account, error)

// ServerURL returns the URL of the registry at a host.
func ServerURL(host string) string {
	if host = v1alpha1.RegistryHost(host); host == "docker.io" {
		host = "registry-1.docker.io"
	}
	return "https://" + host
}

// Inside is a registry inside the cluster.
type Inside struct {
	URLs   []string // of the replicas, in the order in which they are asked
	CA     string   // file with the authority of their certificates
	Client string   // file with the client's certificate and key
}

// Registries renders containerd's files for the document's registries. If the cluster has a registry inside, containerd asks it after the mirrors of
// each registry.
func Registries(registries []v1alpha1.Registry, inside *Inside, account AccountOf) ([]machine.File, error) {
	var files []machine.File
	if any := func(r v1alpha1.Registry) bool { return r.Host == v1alpha1.AnyRegistry }; inside != nil && !slices.ContainsFunc(registries, any) {
		registries = append(slices.Clone(registries), v1alpha1.Registry{Host: v1alpha1.AnyRegistry})
	}
	for _, r := range registries {
		dir := CertsDir + "/" + v1alpha1.RegistryHost(r.Host)
		if r.Host == v1alpha1.AnyRegistry {
			dir = CertsDir + "/_default"
		}
		h := hostsFile{dir: dir}
		if r.Host != v1alpha1.AnyRegistry {
			a, err := account(r.Auth, ServerURL(r.Host))
			if err != nil {
				return nil, err
			}
			h.server(Endpoint{URL: ServerURL(r.Host), CA: r.CA, Insecure: r.Insecure, Account: a})
		}
		for i, m := range r.Mirrors {
			a, err := account(m.Auth, m.URL)
			if err != nil {
				return nil, err
			}
			e := Endpoint{URL: m.URL, CA: m.CA, Insecure: m.Insecure, Account: a}
			if e.CA == "" && !m.Insecure {
				e.CA = r.CA
			}
			h.mirror(i, m, e)
		}
		h.inside(inside)
		files = append(files, h.files()...)
	}
	return files, nil
}

// Endpoints lists the endpoints that a machine can check: every mirror, and the registries that the document itself configures.
func Endpoints(registries []v1alpha1.Registry, account AccountOf) ([]registrycheck.Endpoint, error) {
	var out []registrycheck.Endpoint
	add := func(r v1alpha1.Registry, whole bool, e Endpoint, auth *v1alpha1.BasicAuth) error {
		a, err := account(auth, e.URL)
		if err != nil {
			return err
		}
		c := registrycheck.Endpoint{Registry: r.Host, URL: e.URL, Whole: whole, CA: e.CA, Insecure: e.Insecure}
		if a != nil {
			c.Authorization = a.authorization()
		}
		out = append(out, c)
		return nil
	}
	for _, r := range registries {
		for _, m := range r.Mirrors {
			e := Endpoint{URL: m.URL, CA: m.CA, Insecure: m.Insecure}
			if e.CA == "" && !m.Insecure {
				e.CA = r.CA
			}
			if err := add(r, m.OverridePath, e, m.Auth); err != nil {
				return nil, err
			}
		}
		if r.Auth == nil && (len(r.Mirrors) > 0 || r.CA == "" && !r.Insecure) {
			continue // a site with mirrors may have no way to the registry itself
		}
		if err := add(r, false, Endpoint{URL: ServerURL(r.Host), CA: r.CA, Insecure: r.Insecure}, r.Auth); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// hostsFile builds a hosts.toml and the certificates that it refers to.
type hostsFile struct {
	dir    string
	text   strings.Builder
	cas    []machine.File
	secret bool
}

func (h *hostsFile) server(e Endpoint) {
	fmt.Fprintf(&h.text, "server = %q\n", e.URL)
	h.endpoint("", "ca.crt", e)
	if e.Account != nil {
		h.text.WriteString("\n[header]\n")
		h.authorize("", *e.Account)
	}
}

func (h *hostsFile) mirror(i int, m v1alpha1.Mirror, e Endpoint) {
	url := strings.TrimRight(m.URL, "/")
	fmt.Fprintf(&h.text, "\n[host.%q]\n", url)
	can := m.Capabilities
	if len(can) == 0 {
		can = []string{"pull", "resolve"}
	}
	fmt.Fprintf(&h.text, "  capabilities = [\"%s\"]\n", strings.Join(can, `", "`))
	if m.OverridePath {
		h.text.WriteString("  override_path = true\n")
	}
	h.endpoint("  ", fmt.Sprintf("mirror-%d.crt", i), e)
	if e.Account != nil {
		fmt.Fprintf(&h.text, "  [host.%q.header]\n", url)
		h.authorize("    ", *e.Account)
	}
}

// inside adds the replicas of the registry inside the cluster. A machine that is down must not keep a pod waiting.
func (h *hostsFile) inside(in *Inside) {
	if in == nil {
		return
	}
	for _, url := range in.URLs {
		fmt.Fprintf(&h.text, "\n[host.%q]\n  capabilities = [\"pull\", \"resolve\"]\n  ca = %q\n  client = %q\n  dial_timeout = \"3s\"\n", url, in.CA, in.Client)
	}
}

func (h *hostsFile) endpoint(indent, file string, e Endpoint) {
	if e.CA != "" {
		h.cas = append(h.cas, text(h.dir+"/"+file, strings.TrimSpace(e.CA)+"\n"))
		fmt.Fprintf(&h.text, "%sca = %q\n", indent, h.dir+"/"+file)
	}
	if e.Insecure && !strings.HasPrefix(e.URL, "http://") { // with skip_verify, containerd would try such a server by TLS first
		h.text.WriteString(indent + "skip_verify = true\n")
	}
}

func (h *hostsFile) authorize(indent string, a Account) {
	h.secret = true
	fmt.Fprintf(&h.text, "%sAuthorization = %q\n", indent, a.authorization())
}

func (h *hostsFile) files() []machine.File {
	f := text(h.dir+"/hosts.toml", h.text.String())
	if h.secret {
		f.Mode, f.Secret = 0o600, true
	}
	return append(h.cas, f)
}
