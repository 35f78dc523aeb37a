package vault

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/pki"
)

// policyName is what the policy of a cluster is called.
func policyName(cluster string) string { return "naupegos-" + cluster }

// rootCommand makes an authority whose key never leaves its mount.
func rootCommand(cluster, mount string) string {
	return fmt.Sprintf("vault write %s/root/generate/internal common_name=%s-%s issuer_name=naupegos key_type=ec key_bits=256 not_before_duration=10m ttl=87600h",
		mount, cluster, mount[strings.LastIndexByte(mount, '/')+1:])
}

// Policy is what naupegos may do in Vault for a cluster, and no more: sign by the roles, and look at what it checks.
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

// Commands are what somebody runs once who may make mounts, policies and auth methods in Vault, as a shell script: they make all that a cluster needs.
func Commands(cluster string, spec v1alpha1.Vault) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# What cluster %s needs in Vault. For somebody who may make mounts, policies and roles there; once.", cluster)
	line("set -eu")
	line("export VAULT_ADDR=%s", spec.Address)
	if spec.Namespace != "" {
		line("export VAULT_NAMESPACE=%s", spec.Namespace)
	}
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

// signInCommands make what signs in, in the way that the document names.
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
# How it signs in: a token that lives as long as it is renewed within a month. It goes into a file that only its owner can read, or into $VAULT_TOKEN.
vault token create -policy=%s -period=768h -orphan -field=token
`, policy)
}
