package approver

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"slices"
	"strings"
)

// signer is the only signer whose requests the approver handles.
const signer = "kubernetes.io/kubelet-serving"

// verdict is the decision on a request.
type verdict int

const (
	leave   verdict = iota // not for this approver to decide: another one may
	approve                // the request names only the machine's own names and addresses
	deny                   // the request asks for something its sender may not have
)

// request has the fields of a CertificateSigningRequest's spec that the decision depends on.
type request struct {
	SignerName string   `json:"signerName"`
	Username   string   `json:"username"`
	Groups     []string `json:"groups"`
	Usages     []string `json:"usages"`
	Request    []byte   `json:"request"` // PEM
}

// decide judges a request by its sender (which the API server authenticates) and by the machine's addresses and names. nodes maps a node's name to
// its addresses and further DNS names.
func decide(r request, nodes map[string][]string) (verdict, string) {
	if r.SignerName != signer {
		return leave, "another signer's"
	}
	node, ok := strings.CutPrefix(r.Username, "system:node:")
	if !ok || node == "" {
		return deny, fmt.Sprintf("%q is not a node", r.Username)
	}
	if !slices.Contains(r.Groups, "system:nodes") {
		return deny, fmt.Sprintf("%q is not in group system:nodes", r.Username)
	}
	if !allowedUsages(r.Usages) {
		return deny, fmt.Sprintf("usages %q are not those of a serving certificate", r.Usages)
	}
	csr, why := parse(r.Request)
	if why == "" {
		why = subjectFault(csr, r.Username)
	}
	if why == "" && len(csr.DNSNames)+len(csr.IPAddresses) == 0 {
		why = "it names neither a DNS name nor an address"
	}
	if why == "" && len(csr.EmailAddresses)+len(csr.URIs) > 0 {
		why = "it asks for e-mail addresses or URIs"
	}
	if why != "" {
		return deny, why
	}
	own, known := nodes[node]
	if !known {
		return leave, fmt.Sprintf("node %q is not in the machines file: approve it by hand (kubectl certificate approve) if it is yours", node)
	}
	if why := foreignNames(csr, node, own); why != "" {
		return deny, why
	}
	return approve, fmt.Sprintf("names and addresses are those of machine %q", node)
}

func parse(data []byte) (*x509.CertificateRequest, string) {
	block, rest := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(strings.TrimSpace(string(rest))) > 0 {
		return nil, "it is not one PEM certificate request"
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, "it can't be parsed: " + err.Error()
	}
	if err := csr.CheckSignature(); err != nil {
		return nil, "its signature is wrong: " + err.Error()
	}
	return csr, ""
}

// subjectFault checks that the subject names only the sender.
func subjectFault(csr *x509.CertificateRequest, username string) string {
	switch {
	case csr.Subject.CommonName != username:
		return fmt.Sprintf("its common name %q is not its sender %q", csr.Subject.CommonName, username)
	case !slices.Equal(csr.Subject.Organization, []string{"system:nodes"}):
		return fmt.Sprintf("its organization %q is not system:nodes alone", csr.Subject.Organization)
	case len(csr.Subject.Names) != 2:
		return "its subject has more than a common name and an organization"
	}
	return ""
}

// allowedUsages accepts exactly the two sets that kubelets request: with and without key encipherment (RSA, ECDSA).
func allowedUsages(usages []string) bool {
	have := slices.Sorted(slices.Values(usages))
	return slices.Equal(have, []string{"digital signature", "server auth"}) ||
		slices.Equal(have, []string{"digital signature", "key encipherment", "server auth"})
}

// foreignNames returns a name or address that isn't the machine's own.
func foreignNames(csr *x509.CertificateRequest, node string, own []string) string {
	for _, name := range csr.DNSNames {
		if name != node && !slices.Contains(own, name) {
			return fmt.Sprintf("DNS name %q is not one of machine %q", name, node)
		}
	}
	for _, ip := range csr.IPAddresses {
		if !slices.ContainsFunc(own, func(s string) bool { o := net.ParseIP(s); return o != nil && o.Equal(ip) }) {
			return fmt.Sprintf("address %s is not one of machine %q", ip, node)
		}
	}
	return ""
}
