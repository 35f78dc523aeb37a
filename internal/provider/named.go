package provider

// NamedCloud is a clouds.yaml that came by the name of a credential.
type NamedCloud struct {
	Name string // of the credential
	YAML []byte
	// Allowed refuses the address of an identity service that the credential is not for.
	Allowed func(authURL string) error
}
