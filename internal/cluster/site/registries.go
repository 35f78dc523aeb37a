package site

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
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

// Registries renders containerd's files for the document's registries.
func Registries(registries []v1alpha1.Registry, account AccountOf) ([]machine.File, error) {
	var files []machine.File
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
		files = append(files, h.files()...)
	}
	return files, nil
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

func (h *hostsFile) endpoint(indent, file string, e Endpoint) {
	if e.CA != "" {
		h.cas = append(h.cas, text(h.dir+"/"+file, strings.TrimSpace(e.CA)+"\n"))
		fmt.Fprintf(&h.text, "%sca = %q\n", indent, h.dir+"/"+file)
	}
	if e.Insecure {
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
