package staged

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/rotation"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/words"
	"github.com/naupegos/naupegos/internal/provider"
)

// TokensRead is how long programs may keep using a token after it was replaced on disk: client-go reads it once a minute.
const TokensRead = 75 * time.Second

// vouched is slightly less than the lifetime of a certificate that links the next authority to the former one in API servers' chains.
const vouched = 360 * 24 * time.Hour

// RotationScan finds out whether everything is in a phase.
type RotationScan struct {
	*Staged
	Now       rotation.Rotation
	Restarted map[string]bool                                            // machines whose kubelet was restarted, so that it asks for new tokens
	clean     time.Time                                                  // when all pods had new tokens
	Ask       func(context.Context, wanted.Slot) (machine.Report, error) // returns the pending changes of a machine's agent; nil: by SSH
}

// End notes that everything is in the phase, once that is so.
func (s *RotationScan) End(ctx context.Context, p plan.Progress) error {
	if s.Now.Phase == rotation.Make {
		return s.Make(ctx, p)
	}
	if err := s.Taken(ctx, "", p); err != nil {
		return err
	}
	p.Status("checking that all machines are configured as wanted")
	if err := s.machines(ctx); err != nil {
		return err
	}
	if s.Now.Phase == rotation.Use && s.Now.Has(pki.ServiceAccountKeyName, pki.KubernetesCA) {
		if err := s.pods(ctx, p); err != nil {
			return err
		}
	}
	if s.Now.Next().IsZero() {
		return s.settle(ctx)
	}
	return s.Facts.Set(ctx, memory.RotationRun, s.Now.String())
}

// Make requests the next authorities from the issuer of the cluster's certificates.
func (s *RotationScan) Make(ctx context.Context, p plan.Progress) error {
	for _, key := range s.Now.Keys() {
		if !slices.Contains(pki.Authorities(), key) {
			continue
		}
		p.Status("creating the next authority: %s", key)
		if err := s.PKI.Prepare(ctx, key, s.Now.Former(key)); err != nil {
			return err
		}
	}
	return s.Facts.Set(ctx, memory.RotationRun, s.Now.String())
}

// machines is fail.NotReady while an agent would change anything on its machine, or does not answer.
func (s *RotationScan) machines(ctx context.Context) error {
	ask := s.Ask
	if ask == nil {
		ask = func(ctx context.Context, m wanted.Slot) (machine.Report, error) {
			return s.Configure(ctx, m, true, nil)
		}
	}
	return s.eachMachine(ctx, s.Known(), func(ctx context.Context, m wanted.Slot) error {
		r, err := ask(ctx, m)
		if err != nil {
			return err
		}
		if what := observe.Describe(&r); len(what) > 0 {
			return fail.New(fail.NotReady, "it differs from its configuration: %s", strings.Join(what, "; ")).At(m.Name).Do("naupegos apply continues")
		}
		return nil
	})
}

// eachMachine does something with machines side by side.
func (c *Staged) eachMachine(ctx context.Context, slots []wanted.Slot, do func(context.Context, wanted.Slot) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(16)
	for _, m := range slots {
		g.Go(func() error { return do(ctx, m) })
	}
	return g.Wait()
}

// pods returns fail.NotReady while a pod has a token that the former key signed, or does not know the next authority.
func (s *RotationScan) pods(ctx context.Context, p plan.Progress) error {
	p.Status("checking the tokens of the pods on all machines")
	client, err := s.Kube(ctx)
	if err != nil {
		return err
	}
	key, err := s.PKI.ServiceAccountKeyID(ctx)
	if err != nil {
		return err
	}
	if err := s.podsOnMachines(ctx, client, key); err != nil {
		s.clean = time.Time{}
		return err
	}
	tokens := s.Now.Has(pki.ServiceAccountKeyName)
	if tokens {
		if err := renewStored(ctx, p, client, key); err != nil {
			return err
		}
	}
	if s.clean.IsZero() {
		s.clean = time.Now()
	}
	if err := s.noteOlder(ctx, p, client); err != nil || !tokens {
		return err
	}
	p.Status("waiting until programs have read their new tokens")
	select {
	case <-time.After(time.Until(s.clean.Add(TokensRead))):
	case <-ctx.Done():
		return fail.Wrap(fail.KindOf(ctx.Err()), ctx.Err(), "wait until programs have read their new tokens")
	}
	return nil
}

func (s *RotationScan) podsOnMachines(ctx context.Context, client *kube.Client, key string) error {
	pods, err := client.Pods(ctx)
	if err != nil {
		return err
	}
	names := map[string]string{} // of running pods; kubelet has yet to delete the directories of others
	for _, pod := range pods {
		names[pod.UID] = pod.Namespace + "/" + pod.Name
	}
	signer, err := s.PKI.Signer(ctx, pki.KubernetesCA)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var behind []string
	nodes := slices.DeleteFunc(slices.Clone(s.Known()), func(m wanted.Slot) bool { return m.Role == provider.Gateway })
	err = s.eachMachine(ctx, nodes, func(ctx context.Context, m wanted.Slot) error {
		h, err := s.Host(ctx, m.Name)
		if err != nil {
			return err
		}
		have, err := s.Dialer.Credentials(ctx, h)
		if err != nil {
			return err
		}
		old := BehindOn(have, names, key, fingerprint(signer))
		if len(old) == 0 {
			return nil
		}
		mu.Lock()
		behind = append(behind, old...)
		again := s.Restarted[m.Name]
		s.Restarted[m.Name] = true
		mu.Unlock()
		if again {
			return nil
		}
		_, err = s.Dialer.Run(ctx, h, nil, "systemctl", "restart", "kubelet.service") // it keeps tokens that it has asked for, until it restarts
		return err
	})
	if err == nil && len(behind) > 0 {
		slices.Sort(behind)
		behind = slices.Compact(behind)
		err = fail.New(fail.NotReady, "the credentials of %s are of the former key, or lack the next authority: %s", words.Count(len(behind), "pod", "pods"),
			strings.Join(behind[:min(len(behind), 10)], ", ")).Do("delete the pods that never get new tokens; naupegos apply continues")
	}
	return err
}

// BehindOn names the running pods on a machine whose credentials don't come from the next key and authority.
func BehindOn(have []machine.Credential, names map[string]string, key, authority string) (behind []string) {
	for _, c := range have {
		name, runs := names[c.Pod]
		if runs && (c.KeyID != key || len(c.Authorities) > 0 && !slices.Contains(c.Authorities, authority)) {
			behind = append(behind, name)
		}
	}
	return behind
}

// noteOlder names pods that started before they got their present tokens and authorities: whether their programs read these again is unknown.
func (s *RotationScan) noteOlder(ctx context.Context, p plan.Progress, client *kube.Client) error {
	n, ok := p.(plan.Noter)
	if !ok {
		return nil
	}
	pods, err := client.Pods(ctx)
	if err != nil {
		return err
	}
	for _, note := range OlderNotes(pods, s.Now, s.clean) {
		n.Note("%s", note)
	}
	return nil
}

// OlderNotes names the older pods that need a restart unless their programs reread tokens and authorities, with the time until which it is needed.
func OlderNotes(pods []kube.RunningPod, now rotation.Rotation, since time.Time) (notes []string) {
	var all, others []string // others are not ours, which read their tokens again: client-go's programs all
	for _, pod := range pods {
		if !pod.Mounted || !pod.Started.Before(since) {
			continue
		}
		name := pod.Namespace + "/" + pod.Name
		if all = append(all, name); pod.Namespace != "kube-system" && pod.Namespace != "kube-flannel" {
			others = append(others, name)
		}
	}
	if now.Has(pki.ServiceAccountKeyName) && len(others) > 0 {
		notes = append(notes, fmt.Sprintf("%s with a token run since before, and need a restart if they read it but once, at their start: %s", words.Count(len(others), "pod", "pods"), first(others)))
	}
	if now.Has(pki.KubernetesCA) && len(all) > 0 {
		notes = append(notes, fmt.Sprintf("%s run since before the next authority was used, and need a restart before %s if they read ca.crt but once, at their start: %s",
			words.Count(len(all), "pod", "pods"), since.Add(vouched).Format(time.DateOnly), first(all)))
	}
	return notes
}

// first lists the first twenty names in order.
func first(names []string) string {
	slices.Sort(names)
	return strings.Join(names[:min(len(names), 20)], ", ")
}

// fingerprint is the SHA-256 of a certificate, as machine.Credential has it.
func fingerprint(cert []byte) string {
	b, _ := pem.Decode(cert)
	if b == nil {
		return ""
	}
	sum := sha256.Sum256(b.Bytes)
	return hex.EncodeToString(sum[:])
}

// renewStored renews the tokens in Secrets with the next key, and returns fail.NotReady until all are renewed.
func renewStored(ctx context.Context, p plan.Progress, client *kube.Client, key string) error {
	tokens, err := client.StoredTokens(ctx)
	if err != nil {
		return err
	}
	tokens = slices.DeleteFunc(tokens, func(t kube.StoredToken) bool { return t.KeyID == key })
	var names []string
	for _, t := range tokens {
		names = append(names, t.String())
		if t.KeyID == "" { // it is being made
			continue
		}
		if n, ok := p.(plan.Noter); ok {
			n.Note("the token in Secret %s is regenerated: copies of it become invalid in the end", t)
		}
		if err := client.RenewToken(ctx, t); err != nil {
			return err
		}
	}
	if len(names) > 0 {
		return fail.New(fail.NotReady, "tokens in Secrets must still be made: %s", strings.Join(names, ", ")).
			Do("if their service account is gone, no controller creates them: delete those Secrets")
	}
	return nil
}

// settle ends a rotation: it checks that no machine trusts the former keys any more, and deletes them.
func (s *RotationScan) settle(ctx context.Context) error {
	client, err := s.Kube(ctx)
	if err != nil {
		return err
	}
	for _, key := range s.Now.Keys() {
		if !slices.Contains(pki.Authorities(), key) {
			continue
		}
		cert, err := s.PKI.Certificate(ctx, key, s.Now.Goes(key))
		if fail.KindOf(err) == fail.NotFound {
			continue // by a run that was cut short
		}
		if err != nil {
			return err
		}
		if _, err := client.Distrust(ctx, cert); err != nil {
			return err
		}
	}
	return s.Forget(ctx)
}

// Forget deletes the former keys and records the new generations. It records last that no rotation is in progress.
func (s *RotationScan) Forget(ctx context.Context) error {
	for _, key := range s.Now.Keys() {
		goes, stays := s.Now.Goes(key), s.Now.In(key, 0).Signs
		if err := s.PKI.Retire(ctx, key, goes, stays); err != nil {
			return err
		}
		if err := s.PKI.Forget(ctx, key, goes); err != nil {
			return err
		}
		if err := s.Facts.SetOf(ctx, memory.Generation, key, fmt.Sprint(stays)); err != nil {
			return err
		}
	}
	for _, kind := range []memory.Kind{memory.RotationRun, memory.RotationHold, memory.Rotation} {
		if err := s.Facts.Set(ctx, kind, ""); err != nil {
			return err
		}
	}
	return nil
}
