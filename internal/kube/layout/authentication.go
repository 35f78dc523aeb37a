package layout

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/machine"
)

// AuthenticationConfig returns the AuthenticationConfiguration of API servers with these issuers (Params.Issuers).
func AuthenticationConfig(issuers []byte) []byte {
	return append([]byte(authenticationBase), issuers...)
}

// Authorization is an AuthorizationConfiguration and the files that it names. API servers load a changed configuration by themselves, but not a changed
// file of the same name.
type Authorization struct {
	Config      []byte // empty: API servers authorize by Node and RBAC
	Kubeconfigs []machine.File
}

// WebhookPath returns the path of an authorization webhook's kubeconfig, which changes with its content.
func WebhookPath(name string, content []byte) string {
	sum := sha256.Sum256(content)
	return webhookPrefix + name + "-" + hex.EncodeToString(sum[:8]) + ".yaml"
}

const (
	authorizationPath = ourDir + "/authorization.yaml"
	webhookPrefix     = ourDir + "/authorization-webhook-"
)

// files returns the files, the configuration last: the files that it names exist when API servers load it.
func (a Authorization) files() []machine.File {
	if len(a.Config) == 0 {
		return nil
	}
	return append(slices.Clone(a.Kubeconfigs), machine.File{Path: authorizationPath, Mode: 0o600, Content: a.Config})
}

// arg returns the flag that names the configuration, or the modes.
func (a Authorization) arg() arg {
	if len(a.Config) == 0 {
		return arg{"authorization-mode", "Node,RBAC"}
	}
	return arg{"authorization-config", authorizationPath}
}

// asStarted returns a machine's files without the parts that an API server reloads by itself: the issuers in its AuthenticationConfiguration, its
// AuthorizationConfiguration and the files that it names. Changes to these must not change the digest that restarts it.
func asStarted(files fileSet) fileSet {
	files = slices.DeleteFunc(slices.Clone(files), func(f machine.File) bool {
		return f.Path == authorizationPath || strings.HasPrefix(f.Path, webhookPrefix)
	})
	for i, f := range files {
		if f.Path == authenticationPath {
			files[i] = machine.File{Path: f.Path, Mode: f.Mode, Content: []byte(authenticationBase)}
		}
	}
	return files
}
