package cluster

import (
	"errors"
	"testing"

	"github.com/naupegos/naupegos/internal/cluster/addons"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/remote"
)

// TestPhasesAreTriedAgain: kubeadm's phases are retried if the API did not answer, but not after other errors.
func TestPhasesAreTriedAgain(t *testing.T) {
	for said, want := range map[string]fail.Kind{
		// Output of kubeadm 1.37 on an emulated machine.
		`error: error execution phase addon/coredns: unable to create a new DNS service: Post "https://10.92.0.123:6443/api/v1/namespaces/kube-system/services?timeout=10s": net/http: request canceled (Client.Timeout exceeded while awaiting headers)`: fail.NotReady,
		`error execution phase upload-config/kubeadm: Get "https://10.0.0.1:6443/api": net/http: TLS handshake timeout`:                                                                                                                                   fail.NotReady,
		"rpc error: etcdserver: request timed out":             fail.NotReady,
		`dial tcp 10.0.0.10:6443: connect: connection refused`: fail.NotReady,
		`deployments.apps is forbidden: User "kubernetes-admin" cannot list resource "deployments" in API group "apps" in the namespace "kube-system"`: fail.NotReady,
		"error: configmaps is forbidden: User \"x\" cannot create resource":                                                                            fail.Internal,
		"couldn't parse the pod manifest": fail.Internal,
	} {
		err := addons.PerhapsLater(fail.Wrap(fail.Internal, &remote.ExitError{Command: "kubeadm", Status: 1, Stderr: said}, "run a command"))
		if got := fail.KindOf(err); got != want {
			t.Errorf("%s: %v, want %v", said, got, want)
		}
	}
	if err := addons.PerhapsLater(nil); err != nil {
		t.Error(err)
	}
	if other := errors.New("i/o timeout"); addons.PerhapsLater(other) != other { //nolint:errorlint // the very same
		t.Error("what is no command's end is what it was")
	}
}
