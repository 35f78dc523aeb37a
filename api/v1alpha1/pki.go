package v1alpha1

// PKI configures the cluster's certificate authorities.
type PKI struct {
	// Who holds the authorities' keys and signs certificates. Left out: Naupegos, which keeps the keys encrypted in its store.
	Issuer *Issuer `json:"issuer,omitempty" yaml:"issuer,omitempty"`
}

// VaultIssuer returns the Vault that signs the cluster's certificates, or nil if Naupegos does.
func (p PKI) VaultIssuer() *Vault {
	if p.Issuer == nil {
		return nil
	}
	return p.Issuer.Vault
}

// Issuer says who signs certificates.
type Issuer struct {
	// PKI secrets engines of a HashiCorp Vault or OpenBao server. The authorities' keys never leave it.
	Vault *Vault `json:"vault" yaml:"vault" jsonschema:"required"`
}

// Vault is a HashiCorp Vault or OpenBao server with a PKI secrets engine for each authority of the cluster. The login secret is not part of the
// document.
type Vault struct {
	// Address of the server, such as https://vault.example.org:8200.
	Address string `json:"address" yaml:"address" jsonschema:"required" host:"address"`
	// Mount path prefix of the PKI secrets engines: with pki/demo they are pki/demo/kubernetes-ca, pki/demo/etcd-ca and pki/demo/front-proxy-ca. Each cluster needs its own.
	Mount string `json:"mount" yaml:"mount" jsonschema:"required,maxLength=200"`
	// Namespace on the server, if it has namespaces.
	Namespace string `json:"namespace,omitempty" yaml:"namespace,omitempty" jsonschema:"maxLength=200"`
	// CA certificate (PEM) of the server, if this host does not trust it already.
	CA string `json:"ca,omitempty" yaml:"ca,omitempty" host:"none"`
	// How to sign in.
	Auth VaultAuth `json:"auth,omitzero" yaml:"auth,omitempty"`
}

// The ways to sign in to Vault.
const (
	VaultToken      = "token"
	VaultAppRole    = "appRole"
	VaultKubernetes = "kubernetes"
)

// VaultAuth says how to sign in to Vault.
type VaultAuth struct {
	// Login method: a token ($VAULT_TOKEN), an AppRole ($VAULT_ROLE_ID and $VAULT_SECRET_ID), or, if naupegos runs in a pod, the pod's service account.
	Method string `json:"method,omitempty" yaml:"method,omitempty" jsonschema:"default=token,enum=token,enum=appRole,enum=kubernetes"`
	// Mount of the auth method. Left out: approle or kubernetes.
	Mount string `json:"mount,omitempty" yaml:"mount,omitempty" jsonschema:"maxLength=200"`
	// Role of the auth method. Only with method kubernetes.
	Role string `json:"role,omitempty" yaml:"role,omitempty" jsonschema:"maxLength=200"`
	// Absolute path of a file with the login secret, instead of the environment variables: the token, or the lines role_id=… and secret_id=…. Only its owner may have access to it. Not with method kubernetes, which uses the pod's own token.
	CredentialsFile string `json:"credentialsFile,omitempty" yaml:"credentialsFile,omitempty" host:"file"`
	// Name of a credential (naupegos server credential add) whose value is the content of such a file, instead of credentialsFile. With methods token and appRole, a server accepts nothing else.
	Credential string `json:"credential,omitempty" yaml:"credential,omitempty" jsonschema:"maxLength=63,pattern=^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$" host:"credential"`
}
