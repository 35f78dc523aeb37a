package operate

import (
	"context"
	"fmt"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/store"
)

// Rotate says which keys to replace, or how to proceed with a rotation under way.
type Rotate struct {
	All            bool `json:"all,omitempty" doc:"authorities, serviceAccount, encryption and ssh together, if the cluster has them"`
	Authorities    bool `json:"authorities,omitempty" doc:"The certificate authorities: of Kubernetes, of etcd and of the front proxy"`
	ServiceAccount bool `json:"serviceAccount,omitempty" doc:"The key that signs service-account tokens"`
	SSH            bool `json:"ssh,omitempty" doc:"The SSH key with which Naupegos logs in to machines"`
	Encryption     bool `json:"encryption,omitempty" doc:"The key with which Secrets are encrypted in etcd"`
	Hold           bool `json:"hold,omitempty" doc:"Keep trusting the former keys until finish"`
	Finish         bool `json:"finish,omitempty" doc:"Continue a held rotation"`
	Abandon        bool `json:"abandon,omitempty" doc:"Undo a rotation whose keys are not in use yet"`

	WireGuard       bool `json:"wireGuard,omitempty" doc:"The keys of gateways, and of peers whose keys Naupegos made"`
	CloudCredential bool `json:"cloudCredential,omitempty" doc:"The cluster's own credential of its cloud"`
	Unbounded       bool `json:"unbounded,omitempty" doc:"With cloudCredential: let it make all calls in the project"`
}

// staged reports whether the request concerns keys that are rotated in stages.
func (r *Rotate) staged() bool {
	return r.All || r.Authorities || r.ServiceAccount || r.SSH || r.Encryption || r.Hold || r.Finish || r.Abandon
}

func checkRotate(a *Asked) error {
	r := a.Rotate
	if r == nil {
		r = &Rotate{}
	}
	kinds := 0
	for _, named := range []bool{r.staged(), r.WireGuard, r.CloudCredential} {
		if named {
			kinds++
		}
	}
	if kinds != 1 {
		return fail.New(fail.Invalid, "say what to rotate").
			Do("--all, or one or more of --authorities, --service-account, --encryption and --ssh; or --cloud-credential; or --wireguard")
	}
	if r.Unbounded && !r.CloudCredential {
		return fail.New(fail.Invalid, "--without-access-rules is for --cloud-credential")
	}
	return nil
}

// keys lists the keys to rotate, except the encryption key of Secrets. On given hosts, All omits the SSH key; SSH lists it, and lookRotate refuses it.
func (r *Rotate) keys(doc *v1alpha1.Cluster) (keys []string) {
	if r.All || r.Authorities {
		keys = append(keys, pki.Authorities()...)
	}
	if r.All || r.ServiceAccount {
		keys = append(keys, pki.ServiceAccountKeyName)
	}
	if r.SSH || r.All && doc.Spec.Provider.Hosts == nil { // on given hosts Naupegos logs in with the user's key
		keys = append(keys, pki.SSHKeyName)
	}
	return keys
}

// lookRotate refuses options that exclude each other, and keys that the cluster does not have. It does not change the document.
func lookRotate(b *Begun, _ *store.Cluster, doc *v1alpha1.Cluster, _ []byte) (*Edited, error) {
	r := b.Asked.Rotate
	keys := len(r.keys(doc)) > 0
	switch {
	case r.CloudCredential && doc.Spec.Provider.OpenStack == nil:
		return nil, fail.New(fail.Invalid, "cluster %s has no credential of a cloud", doc.Metadata.Name).Do("only clusters on OpenStack have one")
	case r.WireGuard && doc.Spec.Access.WireGuard == nil:
		return nil, fail.New(fail.Invalid, "cluster %s has no WireGuard", doc.Metadata.Name).Do("spec.access.wireguard in its document turns it on")
	case r.Finish && r.Abandon, (r.Finish || r.Abandon) && (keys || r.Encryption || r.Hold):
		return nil, fail.New(fail.Invalid, "--finish and --abandon go with nothing else")
	case r.Hold && !keys:
		return nil, fail.New(fail.Invalid, "--hold needs --authorities, --service-account, --ssh or --all")
	case r.SSH && doc.Spec.Provider.Hosts != nil:
		return nil, fail.New(fail.Invalid, "Naupegos has no SSH key of its own on hosts: it logs in with spec.provider.hosts.sshKeyFile").
			Do("make the hosts accept another key, and name it in the document")
	}
	return nil, nil
}

// planRotate makes new WireGuard keys, or begins, finishes or abandons a rotation in stages, and plans the apply that carries it out.
func planRotate(ctx context.Context, b *Begun) (err error) {
	r, name := b.Asked.Rotate, b.Record.Name
	switch {
	case r.CloudCredential: // a plan without apply
		return planCredential(ctx, b)
	case r.WireGuard:
		who, err := b.Cluster.RotateWireGuard(ctx)
		if err != nil {
			return err
		}
		b.said = fmt.Sprintf("New WireGuard keys are in use: %s.\nnaupegos handover %s DIR writes the peers' new configurations.", strings.Join(who, ", "), name)
	case r.Finish:
		b.said = "Nothing of cluster " + name + " trusts the former keys any more."
		err = b.Cluster.FinishRotation(ctx)
	case r.Abandon:
		b.said = "Cluster " + name + " keeps the keys that it had."
		err = b.Cluster.AbandonRotation(ctx)
	default:
		err = b.beginRotation(ctx)
	}
	if err != nil {
		return err
	}
	return b.planApply(ctx) // after an interruption the next apply continues
}

// beginRotation begins or continues a rotation of keys in stages, begins one of the encryption of Secrets, and sets b.said, the message after success.
func (b *Begun) beginRotation(ctx context.Context) (err error) {
	r, c := b.Asked.Rotate, b.Cluster
	var said []string
	begun := true
	if keys := r.keys(b.Document); len(keys) > 0 {
		if begun, err = c.Rotate(ctx, keys, r.Hold); err != nil {
			return err
		}
		end := "and nothing trusts the old ones"
		if r.Hold {
			end = "and the old ones stay trusted until naupegos certs rotate " + c.Name() + " --finish"
		}
		said = append(said, fmt.Sprintf("New keys of cluster %s are in use, %s: %s.", c.Name(), end, strings.Join(keys, ", ")))
		if r.All || r.Authorities {
			said = append(said, fmt.Sprintf("naupegos kubeconfig %s writes the kubeconfig that is needed from now on.", c.Name()))
		}
	}
	if begun && (r.Encryption || r.All && *b.Document.Spec.Security.EncryptionAtRest) { // else the new encryption began with the rotation that continues
		key, err := c.RotateEncryption(ctx)
		if err != nil {
			return err
		}
		said = append(said, fmt.Sprintf("All Secrets of cluster %s are encrypted with %s in etcd, and no API server reads another key.", c.Name(), key))
	}
	b.said = strings.Join(said, "\n")
	return nil
}

// planCredential plans to replace the cluster's credential for its cloud. After an interruption it can be run again.
func planCredential(ctx context.Context, b *Begun) error {
	why := ""
	if b.Asked.Rotate.Unbounded {
		why = "--without-access-rules asked for that"
	}
	p, err := b.Cluster.PlanRotateCredential(ctx, why)
	if err != nil {
		return err
	}
	b.only(p)
	b.carry = func(ctx context.Context, t Terms) (Done, error) {
		t.Commit = nil
		return Done{Changed: true, Said: "Cluster " + b.Record.Name + " signs in to its cloud with a new credential; the former one is deleted."}, b.Session.CarryOut(ctx, p, t)
	}
	return nil
}
