// Package vault has the PKI secrets engines of a HashiCorp Vault or an OpenBao sign a cluster's certificates: a mount for each authority, whose key
// never leaves it. It also says what such mounts need, and finds out what they lack.
//
// It makes the few calls that it needs as plain JSON over HTTPS, and knows the document and what package pki asks of an issuer.
package vault
