package provider

// NamedCloud is the clouds.yaml of a named credential.
type NamedCloud struct {
	Name string // of the credential
	YAML []byte
	// Allowed returns an error for the address of an identity service that the credential is not for.
	Allowed func(authURL string) error
}
