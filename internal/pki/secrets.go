package pki

import "context"

// Secrets is where the material is remembered, encrypted. Implementations are safe for concurrent use.
type Secrets interface {
	// Get returns the value of name; fail.NotFound where there is none.
	Get(ctx context.Context, name string) ([]byte, error)
	// Put sets the value of name.
	Put(ctx context.Context, name string, value []byte) error
	// PutIfAbsent sets the value of name unless there is one, and returns the value that is there now.
	PutIfAbsent(ctx context.Context, name string, value []byte) ([]byte, error)
	// Delete forgets the value of name. It is no error where there is none.
	Delete(ctx context.Context, name string) error
	// Names returns the names that have a value, in no particular order.
	Names(ctx context.Context) ([]string, error)
}

// The authorities that Ensure makes.
const (
	KubernetesCA = "kubernetes-ca"  // signs API servers, kubelets and users
	FrontProxyCA = "front-proxy-ca" // signs the API server's identity towards aggregated API servers
	EtcdCA       = "etcd-ca"        // signs etcd's servers, peers and clients
)

// The names under which Secrets keeps the material. Authorities and leaves hold their certificate followed by their key, as PEM.
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
