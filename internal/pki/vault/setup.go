package vault

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/pki"
)

// policyName returns the name of a cluster's policy.
func policyName(cluster string) string { return "naupegos-" + cluster }

// rotationPolicyName returns the name of the policy for rotations of a cluster's authorities.
func rotationPolicyName(cluster string) string { return policyName(cluster) + "-rotation" }

// rootSettings returns the settings of a new authority with a key that never leaves its mount.
func rootSettings(cluster, mount, name string) map[string]string {
	return map[string]string{
		"common_name": cluster + "-" + mount[strings.LastIndexByte(mount, '/')+1:], "issuer_name": name, "key_type": "ec", "key_bits": "256",
		"not_before_duration": "10m", "ttl": "87600h",
	}
}

// rootCommand returns the command that makes an authority.
func rootCommand(cluster, mount string) string {
	settings := rootSettings(cluster, mount, "naupegos")
	words := []string{"vault write " + mount + "/root/generate/internal"}
	for _, key := range []string{"common_name", "issuer_name", "key_type", "key_bits", "not_before_duration", "ttl"} {
		words = append(words, key+"="+settings[key])
	}
	return strings.Join(words, " ")
}

// Policy returns the policy of naupegos for a cluster. It allows only to sign by the roles, and to read what Check checks.
func Policy(spec v1alpha1.Vault) string {
	var b strings.Builder
	rule := func(path, capability string) {
		fmt.Fprintf(&b, "path %q { capabilities = [%q] }\n", path, capability)
	}
	for _, authority := range pki.Authorities() {
		mount := spec.Mount + "/" + authority
		rule(mount+"/issuers", "list")
		rule(mount+"/issuer/+/json", "read")
		rule(mount+"/roles/+", "read")
		for _, r := range roles(authority) {
			rule(mount+"/issuer/+/sign/"+r.name, "update")
		}
	}
	return b.String()
}

// rotationPolicy returns the additional policy for rotations of authorities: make the next ones, cross-sign them with the present ones, and
// retire old ones.
func rotationPolicy(spec v1alpha1.Vault) string {
	var b strings.Builder
	for _, authority := range pki.Authorities() {
		rights := map[string][]string{}
		for _, n := range needed(spec.Mount+"/"+authority, "+") {
			rights[n[0]] = append(rights[n[0]], fmt.Sprintf("%q", n[1]))
		}
		for _, path := range slices.Sorted(maps.Keys(rights)) {
			fmt.Fprintf(&b, "path %q { capabilities = [%s] }\n", path, strings.Join(rights[path], ", "))
		}
	}
	return b.String()
}

// RotationCommands returns a shell script for an operator to run before a rotation of a cluster's authorities. It prints a token for it.
func RotationCommands(cluster string, spec v1alpha1.Vault) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# What rotates the authorities of cluster %s, beside what naupegos signs in with: a token for $%s that ends within a day.\n", cluster, RotationToken)
	preamble(&b, spec)
	fmt.Fprintf(&b, "vault policy write %[1]s - >/dev/null <<'END'\n%[2]sEND\nvault token create -policy=%[1]s -ttl=24h -explicit-max-ttl=24h -orphan -field=token\n",
		rotationPolicyName(cluster), rotationPolicy(spec))
	return b.String()
}

// preamble writes the beginning of a shell script, which makes it end at its first error and use the document's Vault.
func preamble(b *strings.Builder, spec v1alpha1.Vault) {
	fmt.Fprintf(b, "set -eu\nexport VAULT_ADDR=%s\n", spec.Address)
	if spec.Namespace != "" {
		fmt.Fprintf(b, "export VAULT_NAMESPACE=%s\n", spec.Namespace)
	}
}

// Commands returns a shell script that sets up in Vault everything that a cluster needs. An operator who may make mounts, policies, roles
// and auth methods there runs it once.
func Commands(cluster string, spec v1alpha1.Vault) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# What cluster %s needs in Vault. To be run once, by an administrator who may create mounts, policies and roles there.", cluster)
	preamble(&b, spec)
	for _, authority := range pki.Authorities() {
		mount := spec.Mount + "/" + authority
		line("\n# %s: its key is made there, and never leaves it.", authority)
		line("vault secrets enable -path=%s -max-lease-ttl=87600h pki", mount)
		line("%s", rootCommand(cluster, mount))
		for _, r := range roles(authority) {
			line("%s", r.command(mount))
		}
	}
	line("\n# What naupegos may do.")
	line("vault policy write %s - <<'END'\n%sEND", policyName(cluster), Policy(spec))
	b.WriteString(signInCommands(cluster, spec.Auth))
	return b.String()
}

// signInCommands returns the commands that make the credential for the document's auth method.
func signInCommands(cluster string, auth v1alpha1.VaultAuth) string {
	policy := policyName(cluster)
	mount := cmp.Or(auth.Mount, strings.ToLower(auth.Method))
	switch auth.Method {
	case v1alpha1.VaultAppRole:
		return fmt.Sprintf(`
# How it signs in: an AppRole. Its two halves go into a file that only its owner can read, or into $VAULT_ROLE_ID and $VAULT_SECRET_ID.
vault read sys/auth/%[1]s >/dev/null 2>&1 || vault auth enable -path=%[1]s approle
vault write auth/%[1]s/role/%[2]s token_policies=%[2]s token_ttl=1h token_max_ttl=4h
echo "role_id=$(vault read -field=role_id auth/%[1]s/role/%[2]s/role-id)"
echo "secret_id=$(vault write -f -field=secret_id auth/%[1]s/role/%[2]s/secret-id)"
`, mount, policy)
	case v1alpha1.VaultKubernetes:
		return fmt.Sprintf(`
# How it signs in: as the service account naupegos of namespace naupegos, where naupegos runs. The auth method has to be set up for that cluster.
vault write auth/%s/role/%s bound_service_account_names=naupegos bound_service_account_namespaces=naupegos token_policies=%s token_ttl=1h
`, mount, auth.Role, policy)
	}
	return fmt.Sprintf(`
# How it signs in: a token that lives as long as it is renewed within a month. Write it to a file that only its owner can read, or into $VAULT_TOKEN.
vault token create -policy=%s -period=768h -orphan -field=token
`, policy)
}
