package validation

import (
	"bytes"
	"crypto/rsa"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"golang.org/x/crypto/ssh"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/api/v1alpha1"
)

// minRSABits is the minimum size of a safe RSA key.
const minRSABits = 2048

// checkSecurity checks the packet filter and the audit log.
func checkSecurity(c *v1alpha1.Cluster, r *findings) {
	if f := c.Spec.Security.PacketFilter; f != nil {
		const path = "spec.security.packetFilter"
		switch {
		case c.Spec.Provider.Hosts == nil && c.Spec.Provider.Metal == nil:
			r.Add(path, "belongs to providers hosts and metal, but the provider is another", "remove it", "spec.provider")
		case f.Enabled != nil && !*f.Enabled && len(f.Admit) > 0:
			r.Add(path+".admit", "is given, but the packet filter is not enabled", "remove it or set enabled to true", path+".enabled")
		}
		checkCIDRList(r, path+".admit", f.Admit)
	}
	const path = "spec.security.auditLog"
	a := c.Spec.Security.AuditLog
	if a.Policy == "" {
		return
	}
	if a.Enabled != nil && !*a.Enabled {
		r.Add(path+".policy", "is given, but the audit log is not enabled", "remove it or set enabled to true", path+".enabled")
	}
	if problem, hint := checkAuditPolicy(a.Policy); problem != "" {
		r.Add(path+".policy", problem, hint)
	}
}

// checkAuditPolicy reports why an API server would refuse to start with an audit policy; empty if it would not.
func checkAuditPolicy(text string) (problem, hint string) {
	const form = `it starts with "apiVersion: audit.k8s.io/v1", "kind: Policy" and has a list of rules`
	docs, err := strict.Documents([]byte(text))
	switch {
	case err != nil:
		return strict.NotYAML(err, text), form
	case len(docs) != 1 || docs[0].Kind != yaml.MappingNode:
		return "is not an audit policy", form
	case valueOf(docs[0], "apiVersion") != "audit.k8s.io/v1" || valueOf(docs[0], "kind") != "Policy":
		return "is not an audit.k8s.io/v1 Policy", form
	}
	rules := child(docs[0], "rules")
	if rules == nil || rules.Kind != yaml.SequenceNode || len(rules.Content) == 0 {
		return "has no rules", form
	}
	levels := []string{"None", "Metadata", "Request", "RequestResponse"}
	for i, rule := range rules.Content {
		if !slices.Contains(levels, valueOf(rule, "level")) {
			return fmt.Sprintf("rules[%d] has no known level", i), "known: " + strings.Join(levels, ", ")
		}
	}
	return "", ""
}

// child returns the value of a key, or nil.
func child(n *yaml.Node, key string) *yaml.Node {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// valueOf returns the text of a key, or "".
func valueOf(n *yaml.Node, key string) string {
	if v := child(n, key); v != nil && v.Kind == yaml.ScalarNode {
		return v.Value
	}
	return ""
}

// checkAccess checks the users' keys.
func checkAccess(c *v1alpha1.Cluster, r *findings) {
	seen := map[string]int{}
	for i, k := range c.Spec.Access.SSHKeys {
		field := strict.Item("spec.access.sshKeys", i)
		if problem, hint := checkPublicKey(k); problem != "" {
			r.Add(field, problem, hint)
			continue
		}
		parts := strings.Fields(k)
		if first, again := seen[parts[1]]; again {
			r.Add(field, fmt.Sprintf("is the same key as sshKeys[%d]", first), "keep one of them")
		}
		seen[parts[1]] = i
	}
}

// checkPublicKey reports what is wrong with a public SSH key. It never shows the text, which may be a private key by mistake.
func checkPublicKey(s string) (problem, hint string) {
	const form = `write it like "ssh-ed25519 AAAA... comment"`
	if strings.Contains(s, "PRIVATE KEY") {
		return "is a private key", "give the public one, from the file that ends in .pub; replace this one if others could read the document"
	}
	if strings.HasPrefix(s, "SHA256:") || strings.HasPrefix(s, "MD5:") {
		return "is the fingerprint of a key", form
	}
	key, _, options, rest, err := ssh.ParseAuthorizedKey([]byte(s))
	switch {
	case err != nil:
		return "is not a public SSH key", form
	case len(bytes.TrimSpace(rest)) > 0 || strings.ContainsAny(strings.TrimSpace(s), "\r\n"):
		return "is more than one line", "one key an item"
	case len(options) > 0:
		return "has something before the key", form
	case strings.Contains(key.Type(), "-cert-"):
		return "is a certificate, not a key", form
	}
	if ck, ok := key.(ssh.CryptoPublicKey); ok {
		if k, ok := ck.CryptoPublicKey().(*rsa.PublicKey); ok && k.N.BitLen() < minRSABits {
			return fmt.Sprintf("is an RSA key of %d bits", k.N.BitLen()), "take an ed25519 key, or RSA of 2048 bits or more"
		}
	}
	if key.Type() == "ssh-dss" {
		return "is a DSA key, which SSH servers no longer accept", "take an ed25519 key"
	}
	return "", ""
}
