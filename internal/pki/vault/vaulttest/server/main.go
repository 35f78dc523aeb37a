// Command vault is a Vault for tests: the core, HTTP API, PKI secrets engine, AppRole and file storage of the module that go.mod pins, without the
// hundreds of packages for clouds and databases in the released program. It also contains the few commands of Vault's client that package vault
// prints, based on Vault's own client library.
//
// It is a module of its own, and for tests only.
package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/vault/builtin/credential/approle"
	"github.com/hashicorp/vault/builtin/logical/pki"
	vaulthttp "github.com/hashicorp/vault/http"
	"github.com/hashicorp/vault/internalshared/configutil"
	"github.com/hashicorp/vault/sdk/helper/consts"
	"github.com/hashicorp/vault/sdk/logical"
	"github.com/hashicorp/vault/sdk/physical/file"
	"github.com/hashicorp/vault/vault"
)

func main() {
	var err error
	switch {
	case len(os.Args) == 4 && os.Args[1] == "server":
		err = serve(os.Args[2], os.Args[3])
	case len(os.Args) > 2:
		err = client(context.Background(), os.Args[1:])
	default:
		err = fmt.Errorf("usage: vault server DIRECTORY ADDRESS, or a command of the client")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

// serve serves at an address, sealed, with its data in a directory.
func serve(dir, address string) error {
	log := hclog.New(&hclog.LoggerOptions{Level: hclog.Info, Output: os.Stderr})
	storage, err := file.NewFileBackend(map[string]string{"path": dir}, log)
	if err != nil {
		return err
	}
	core, err := vault.NewCore(&vault.CoreConfig{
		Physical: storage, StorageType: "file", Logger: log, DisableMlock: true, RedirectAddr: "http://" + address, BuiltinRegistry: registry{},
		LogicalBackends:    map[string]logical.Factory{"pki": pki.Factory},
		CredentialBackends: map[string]logical.Factory{"approle": approle.Factory},
		DefaultLeaseTTL:    768 * time.Hour, MaxLeaseTTL: 768 * time.Hour, // as in the released program
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	handler := vaulthttp.Handler.Handler(&vault.HandlerProperties{Core: core, ListenerConfig: &configutil.Listener{Address: address}})
	return (&http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}).Serve(listener)
}

// registry knows the plugins that are linked into this program.
type registry struct{}

// Contains reports whether there is a plugin of that name.
func (registry) Contains(name string, of consts.PluginType) bool {
	return name == "pki" && of == consts.PluginTypeSecrets || name == "approle" && of == consts.PluginTypeCredential
}

// Get returns the plugin, as vault looks for it.
func (r registry) Get(name string, of consts.PluginType) (func() (interface{}, error), bool) {
	if !r.Contains(name, of) {
		return nil, false
	}
	return func() (interface{}, error) {
		if name == "pki" {
			return logical.Factory(pki.Factory), nil
		}
		return logical.Factory(approle.Factory), nil
	}, true
}

// Keys lists the plugins of a kind.
func (r registry) Keys(of consts.PluginType) (names []string) {
	for _, name := range []string{"pki", "approle"} {
		if r.Contains(name, of) {
			names = append(names, name)
		}
	}
	return names
}

// DeprecationStatus reports every plugin as supported.
func (r registry) DeprecationStatus(name string, of consts.PluginType) (consts.DeprecationStatus, bool) {
	return consts.Supported, r.Contains(name, of)
}

// IsBuiltinEntPlugin returns false, because no plugin is an enterprise plugin.
func (registry) IsBuiltinEntPlugin(string, consts.PluginType) bool { return false }
