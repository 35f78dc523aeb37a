package machine

// Credential describes, without secrets, a pod's credential for the API and the authorities by which the pod verifies the API.
type Credential struct {
	Pod         string   `json:"pod"`                   // its UID
	Volume      string   `json:"volume"`                // name of the volume that contains it
	KeyID       string   `json:"keyID"`                 // ID of the key that signed its token ("kid")
	Authorities []string `json:"authorities,omitempty"` // SHA-256 (hex) of the CA certificates for verifying the API; none if the pod got none
}
