package machine

// Credential is what a pod on a machine is given to be known by, and to know the API by, as far as it is no secret.
type Credential struct {
	Pod         string   `json:"pod"`                   // its UID
	Volume      string   `json:"volume"`                // that it lies in
	KeyID       string   `json:"keyID"`                 // of the key that has signed its token ("kid")
	Authorities []string `json:"authorities,omitempty"` // SHA-256 (hex) of the certificates by which it is to know the API; none where it is given none
}
