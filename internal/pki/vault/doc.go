// Package vault signs a cluster's certificates with the PKI secrets engines of a HashiCorp Vault or an OpenBao: each authority has a mount,
// and its key never leaves it. The package also prints the commands that set up these mounts, and checks what they lack.
//
// It makes its few calls as plain JSON over HTTPS, and knows the document and pki.Issuer.
package vault
