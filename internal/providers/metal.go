package providers

import (
	"context"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/image"
	"github.com/naupegos/naupegos/internal/provider/metal"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/registry/bmc"
	"github.com/naupegos/naupegos/internal/registry/order"
)

// newMetal returns the provider for physical machines, which are recorded in the store.
func newMetal(o Options) (*metal.Provider, error) {
	if o.Store == nil {
		return nil, fail.New(fail.Internal, "provider metal needs the store that knows the machines")
	}
	reg := registry.New(o.Store.Metal(), registry.Options{Power: bmc.Controllers{Allowed: o.BMCs}, Secrets: o.Store.ServerSecrets()})
	return metal.New(metal.Options{Document: o.Document, Registry: reg, Run: o.Runner, SSHKeys: o.SSHKeys, System: o.system}), nil
}

// system returns the system image for machines: the one that the document names, else the newest of its Kubernetes release.
func (o Options) system(context.Context) (order.System, error) {
	found, err := image.Systems(image.SystemsDir(o.Store.Dir()))
	if err != nil {
		return order.System{}, err
	}
	version, named := o.Document.Spec.Kubernetes.Version, o.Document.Spec.Provider.Metal.System
	return newest(found, version, named, image.SystemsDir(o.Store.Dir()))
}

// newest picks one of the system images, which are sorted by creation time.
func newest(found []order.System, version, named, dir string) (order.System, error) {
	for _, s := range slices.Backward(found) {
		switch {
		case named != "" && s.ID != named:
			continue
		case s.Kubernetes == version || strings.HasPrefix(s.Kubernetes, version+"+"): // with addons
			return s, nil
		case named != "":
			return order.System{}, fail.New(fail.Refused, "the system image %s is of %s, and the cluster is to run %s", named, s.Kubernetes, version).
				At("spec.provider.metal.system").Do("name another one, or leave it out")
		}
	}
	if named != "" {
		return order.System{}, fail.New(fail.Refused, "there is no system image %s", named).At("spec.provider.metal.system").Do("naupegos image system creates one, and prints its ID").Confide("  system images are in %s", dir)
	}
	return order.System{}, fail.New(fail.Refused, "there is no system image of Kubernetes %s to install", version).
		Do("make it where naupegos server runs: naupegos image system --kubernetes %s", version).Confide("  system images are in %s", dir)
}
