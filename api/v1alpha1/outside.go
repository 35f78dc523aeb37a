package v1alpha1

// Proxy is the HTTP proxy through which machines reach destinations outside the cluster, such as packages and images. Naupegos itself uses the
// variables HTTPS_PROXY, HTTP_PROXY and NO_PROXY of its own environment.
type Proxy struct {
	// Proxy for http, such as http://proxy.example.org:3128.
	HTTP string `json:"http,omitempty" yaml:"http,omitempty" host:"none"`
	// Proxy for https. The proxy itself is usually reached by http: http://proxy.example.org:3128.
	HTTPS string `json:"https,omitempty" yaml:"https,omitempty" host:"none"`
	// Destinations that machines reach without the proxy: names, domains such as ".example.org", addresses, and networks in CIDR form. Naupegos adds the networks of pods, Services and machines, the endpoint, and the names of machines and Services.
	NoProxy []string `json:"noProxy,omitempty" yaml:"noProxy,omitempty" jsonschema:"maxItems=100" host:"none"`
	// User and password for the proxy.
	Auth *BasicAuth `json:"auth,omitempty" yaml:"auth,omitempty"`
}

// BasicAuth refers to a user and a password, which are not part of the document.
type BasicAuth struct {
	// Absolute path of a file with one line USER:PASSWORD. Only its owner may have access to it.
	CredentialsFile string `json:"credentialsFile,omitempty" yaml:"credentialsFile,omitempty" host:"file"`
	// Name of a credential (naupegos server credential add) whose value is such a line, instead of credentialsFile. A server accepts nothing else.
	Credential string `json:"credential,omitempty" yaml:"credential,omitempty" jsonschema:"maxLength=63,pattern=^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$" host:"credential"`
}

// Registry says how machines reach an image registry.
type Registry struct {
	// Registry, as in image names: docker.io, registry.example.org:5000. "*" stands for every registry that the list does not name.
	Host string `json:"host" yaml:"host" jsonschema:"required,maxLength=255" host:"none"`
	// Mirrors, tried in this order before the registry itself.
	Mirrors []Mirror `json:"mirrors,omitempty" yaml:"mirrors,omitempty" jsonschema:"maxItems=20"`
	// CA certificates (PEM) of the registry, and of its mirrors that have no ca of their own.
	CA string `json:"ca,omitempty" yaml:"ca,omitempty" host:"none"`
	// User and password for the registry itself; mirrors have their own. All pods on the machines can then use the images without a pull secret.
	Auth *BasicAuth `json:"auth,omitempty" yaml:"auth,omitempty"`
	// Accept any certificate of the registry.
	Insecure bool `json:"insecure,omitempty" yaml:"insecure,omitempty" jsonschema:"default=false"`
}

// Mirror is another source of a registry's images.
type Mirror struct {
	// Address, such as https://mirror.example.org, with the path of the images there.
	URL string `json:"url" yaml:"url" jsonschema:"required" host:"none"`
	// What the mirror is used for: pull (content), resolve (which content a tag refers to). Default: both.
	Capabilities []string `json:"capabilities,omitempty" yaml:"capabilities,omitempty" jsonschema:"maxItems=2"`
	// The path in url is complete: /v2 is not appended.
	OverridePath bool `json:"overridePath,omitempty" yaml:"overridePath,omitempty" jsonschema:"default=false" host:"none"`
	// CA certificates (PEM) of the mirror.
	CA string `json:"ca,omitempty" yaml:"ca,omitempty" host:"none"`
	// User and password for the mirror.
	Auth *BasicAuth `json:"auth,omitempty" yaml:"auth,omitempty"`
	// Accept any certificate of the mirror, or plain http.
	Insecure bool `json:"insecure,omitempty" yaml:"insecure,omitempty" jsonschema:"default=false"`
}

// String names the mirror.
func (m Mirror) String() string { return m.URL }

// String names the registry.
func (r Registry) String() string { return r.Host }

// RegistryPort is where control-plane machines serve images to the machines of the cluster.
const RegistryPort = 5443

// ImageRegistry is the registry inside the cluster.
type ImageRegistry struct {
	// How many control-plane machines serve the images; each has all of them. A machine that is down is passed over.
	Replicas int `json:"replicas,omitempty" yaml:"replicas,omitempty" jsonschema:"minimum=1,maximum=7,default=2"`
	// Sets of images of the bundle library that it serves. Default: the set "site", if there is one.
	Sets []string `json:"sets,omitempty" yaml:"sets,omitempty" jsonschema:"maxItems=100" host:"none"`
}

// DefaultImageSet is the set of images that a registry serves, if there is one, where the document names none.
const DefaultImageSet = "site"

// AnyRegistry is the host of the entry for registries that the list does not name.
const AnyRegistry = "*"

// RegistryHost returns the one name of a registry that has several: Docker's.
func RegistryHost(host string) string {
	switch host {
	case "index.docker.io", "registry-1.docker.io":
		return "docker.io"
	}
	return host
}
