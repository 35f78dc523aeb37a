package pki

import "context"

// Secrets stores the material, encrypted. Implementations are safe for concurrent use.
type Secrets interface {
	// Get returns the value of name, or fail.NotFound.
	Get(ctx context.Context, name string) ([]byte, error)
	// Put sets the value of name.
	Put(ctx context.Context, name string, value []byte) error
	// PutIfAbsent sets the value of name unless it has one, and returns the value that name then has.
	PutIfAbsent(ctx context.Context, name string, value []byte) ([]byte, error)
	// Delete deletes the value of name. A missing value is not an error.
	Delete(ctx context.Context, name string) error
	// Names returns the names with a value, in no particular order.
	Names(ctx context.Context) ([]string, error)
}

// The authorities that Ensure makes.
const (
	KubernetesCA = "kubernetes-ca"  // signs API servers, kubelets and users
	FrontProxyCA = "front-proxy-ca" // signs the API server's identity towards aggregated API servers
	EtcdCA       = "etcd-ca"        // signs etcd's servers, peers and clients
)

// The names of the material in Secrets. Authorities and leaves are a certificate followed by its key, as PEM; external authorities lack the key.
const (
	authorityPrefix = "authority/"
	leafPrefix      = "leaf/"
	crossPrefix     = "cross/"
	encryptionKey   = "encryption-at-rest"
	// ServiceAccountKeyName is the secret that holds the key that signs service-account tokens (PEM).
	ServiceAccountKeyName = "service-account"
	// SSHKeyName is the secret that holds the SSH user key (OpenSSH private key format).
	SSHKeyName = "ssh"
)
