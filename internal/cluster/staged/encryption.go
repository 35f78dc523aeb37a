package staged

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/etcd"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/words"
	"github.com/naupegos/naupegos/internal/provider"
)

// RewriteTimeout bounds the rewriting of all Secrets.
const RewriteTimeout = 30 * time.Minute

// EncryptionStep is the ID of the step that ends a stage. Its text lists the stages that follow, so one consent covers all of them.
const EncryptionStep = "encryption"

// NextProviders returns the list after now on the way to final; written is the provider that has encrypted all Secrets.
func NextProviders(now, final []string, written string) []string {
	writer := final[0]
	switch {
	case slices.Equal(now, final):
		return now
	case !slices.Contains(now, writer):
		return append(slices.Clone(now), writer)
	case now[0] != writer:
		return append([]string{writer}, slices.DeleteFunc(slices.Clone(now), func(p string) bool { return p == writer })...)
	case written != writer:
		return now // nothing that reads may go before everything is rewritten
	}
	return final
}

// AdvanceEncryption moves on to the next list once all API servers run with the present one. Until the API has answered for the first
// time there is nothing to take care of.
func (c *Staged) AdvanceEncryption(ctx context.Context) error {
	now, err := c.Encryption()
	if err != nil {
		return err
	}
	final := c.FinalEncryption()
	if !c.Facts.Bootstrapped() {
		if c.Restoring() != nil && c.Facts.Get(memory.Encryption) != "" {
			return nil // the backup's Secrets were written by these
		}
		return c.SettleEncryption(ctx, final, final[0])
	}
	if c.Facts.Get(memory.EncryptionRun) == "" { // it was up before this was remembered
		if err := c.SettleEncryption(ctx, now, now[0]); err != nil {
			return err
		}
	}
	if strings.Join(now, ",") != c.Facts.Get(memory.EncryptionRun) {
		return nil
	}
	next := NextProviders(now, final, c.Facts.Get(memory.EncryptionWrote))
	if next[0] != now[0] { // from now on some Secrets have another provider, even if the target changes before all have
		if err := c.Facts.Set(ctx, memory.EncryptionWrote, ""); err != nil {
			return err
		}
	}
	return c.Facts.Set(ctx, memory.Encryption, strings.Join(next, ","))
}

// recallEncryption reads from the API servers how Secrets are encrypted, if the store came out of a backup: keys and changes since the backup are known
// only there, and rendering from older facts would lose Secrets.
func (c *Staged) recallEncryption(ctx context.Context) error {
	if c.Facts.Get(memory.Restored) == "" || !c.Facts.Bootstrapped() {
		return nil
	}
	if err := c.LoadTarget(ctx); err != nil {
		return err
	}
	var lists [][]string
	var silent error
	for _, name := range c.NamesOf(provider.ControlPlane) {
		config, err := c.encryptionConfigOf(ctx, name)
		switch kind := fail.KindOf(err); {
		case err == nil:
		case kind == fail.NotFound:
			continue // without the machine, its configuration is lost
		case kind == fail.Unreachable || kind == fail.NotReady:
			silent = err
			continue
		default:
			return err
		}
		list, keys, err := layout.ReadEncryption(config)
		if err != nil {
			return fail.Wrap(fail.KindOf(err), err, "read how Secrets are encrypted").At(name)
		}
		for key, value := range keys {
			if err := c.PKI.KeepEncryptionKey(ctx, key, value); err != nil {
				return err
			}
		}
		lists = append(lists, list)
	}
	if len(lists) == 0 && silent != nil {
		return fail.Wrap(fail.KindOf(silent), silent, "find out how Secrets are encrypted since the backup was made").
			Do("a control-plane machine has to answer first: else what API servers have written since may be lost")
	}
	return c.AdoptEncryption(ctx, lists)
}

// encryptionConfigOf returns the EncryptionConfiguration of a machine's API server, nil without one.
func (c *Staged) encryptionConfigOf(ctx context.Context, name string) ([]byte, error) {
	m, err := c.Prov.Machine(ctx, name)
	if err != nil {
		return nil, err
	}
	if !m.MayRun() {
		return nil, fail.New(fail.NotReady, "the machine is %s", m.State).At(name)
	}
	h, err := c.Host(ctx, name)
	if err != nil {
		return nil, err
	}
	return c.Dialer.Run(ctx, h, nil, "sh", "-c", "test ! -e "+layout.EncryptionPath+" || cat "+layout.EncryptionPath)
}

// AdoptEncryption adopts the API servers' lists. If they differ, as in the middle of a stage, it chooses the one with the most providers, which
// can read everything that the others may have written.
func (c *Staged) AdoptEncryption(ctx context.Context, lists [][]string) error {
	if len(lists) == 0 {
		return nil
	}
	longest, shortest := lists[0], lists[0]
	for _, l := range lists {
		if len(l) > len(longest) {
			longest = l
		}
		if strings.Join(l, ",") != strings.Join(longest, ",") {
			shortest = l
		}
	}
	known, err := c.Encryption()
	if err != nil || slices.Equal(known, longest) && slices.Equal(known, shortest) {
		return err
	}
	if key := slices.IndexFunc(longest, func(p string) bool { return p != layout.Plaintext }); key >= 0 {
		if err := c.Facts.Set(ctx, memory.EncryptionKey, longest[key]); err != nil {
			return err
		}
	}
	for kind, value := range map[memory.Kind]string{
		memory.Encryption: strings.Join(longest, ","), memory.EncryptionRun: strings.Join(shortest, ","),
		memory.EncryptionWrote: "", // unknown: all Secrets are rewritten once
	} {
		if err := c.Facts.Set(ctx, kind, value); err != nil {
			return err
		}
	}
	return nil
}

// SettleEncryption remembers the list that all API servers run with, and the provider that wrote all Secrets.
func (c *Staged) SettleEncryption(ctx context.Context, list []string, written string) error {
	for kind, value := range map[memory.Kind]string{memory.Encryption: strings.Join(list, ","), memory.EncryptionRun: strings.Join(list, ","), memory.EncryptionWrote: written} {
		if err := c.Facts.Set(ctx, kind, value); err != nil {
			return err
		}
	}
	return nil
}

// StagesAfter describes the stages that follow; written is the provider of all Secrets after this stage.
func StagesAfter(now, final []string, written string) (after []string) {
	for !slices.Equal(now, final) {
		now = NextProviders(now, final, written)
		after = append(after, "then all API servers "+ReadsAndWrites(now))
		if now[0] == final[0] && written != final[0] {
			written = final[0]
			after = append(after, "then "+Rewriting(written))
		}
	}
	return after
}

// ReadsAndWrites describes how API servers use a list.
func ReadsAndWrites(list []string) string {
	names := make([]string, len(list))
	for i, p := range list {
		names[i] = "with " + p
		if p == layout.Plaintext {
			names[i] = "in plaintext"
		}
	}
	if len(names) == 1 {
		return "write and read Secrets " + names[0]
	}
	return "write Secrets " + names[0] + ", and also read them " + strings.Join(names[1:], " and ")
}

// Rewriting describes the rewriting of Secrets by a provider.
func Rewriting(provider string) string {
	if provider == layout.Plaintext {
		return "decrypt all Secrets in etcd"
	}
	return "encrypt all Secrets in etcd with " + provider
}

// RewriteSecrets stores all Secrets again, by the first of the list that all API servers run with, and looks in etcd whether none is left
// that is not.
func (c *Staged) RewriteSecrets(ctx context.Context, p plan.Progress, list []string) error {
	if err := c.Taken(ctx, "", p); err != nil {
		return err
	}
	client, err := c.Kube(ctx)
	if err != nil {
		return err
	}
	if _, err := client.RewriteSecrets(ctx, func(n int) { p.Status("%s rewritten", words.Count(n, "Secret", "Secrets")) }); err != nil {
		return err
	}
	p.Status("checking etcd for Secrets that were not rewritten")
	left, err := c.notStoredBy(ctx, list[0])
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fail.New(fail.NotReady, "%s in etcd must still be stored that way, %s among them", words.Count(len(left), "Secret", "Secrets"), left[0])
	}
	return c.SettleEncryption(ctx, list, list[0])
}

// notStoredBy lists the keys in etcd of Secrets that were not written by a provider.
func (c *Staged) notStoredBy(ctx context.Context, provider string) (left []string, err error) {
	prefix := []byte(layout.StoredPrefix(provider))
	err = c.WithEtcd(ctx, func(e *etcd.Client) error {
		_, err := e.Values(ctx, layout.SecretsPrefix, 0, func(key, value []byte) error {
			if !bytes.HasPrefix(value, prefix) || provider == layout.Plaintext && bytes.HasPrefix(value, []byte(layout.EncryptedPrefix)) {
				left = append(left, string(key))
			}
			return nil
		})
		return err
	})
	return left, err
}

// RotateEncryption has the Secrets encrypted by a key of another name from the next plan on; it returns the name.
func (c *Staged) RotateEncryption(ctx context.Context) (string, error) {
	switch {
	case !*c.Doc.Spec.Security.EncryptionAtRest:
		return "", fail.New(fail.Invalid, "Secrets of cluster %s are not encrypted in etcd", c.Name()).Do("spec.security.encryptionAtRest in its document turns that on")
	case !c.Facts.Bootstrapped():
		return "", fail.New(fail.NotReady, "cluster %s was never up", c.Name()).Do("naupegos apply brings it up")
	case c.EncryptionChanging():
		return "", fail.New(fail.Refused, "the encryption of cluster %s's Secrets is being changed already", c.Name()).Do("naupegos apply continues that; then try again")
	}
	n, err := strconv.Atoi(strings.TrimPrefix(c.EncryptionKey(), env.EncryptionKeyPrefix))
	if err != nil {
		return "", fail.Wrap(fail.Internal, err, "name the key after %s", c.EncryptionKey())
	}
	name := env.EncryptionKeyPrefix + strconv.Itoa(n+1)
	return name, c.Facts.Set(ctx, memory.EncryptionKey, name)
}

// EncryptOtherwise prepares a cluster that is built from another cluster's backup: it reads Secrets with the other's providers and writes them with a new
// key. It returns the list of providers for reading, and the new key by its name.
func (c *Staged) EncryptOtherwise(ctx context.Context, others []string) (list []string, keys map[string][]byte, err error) {
	highest := 1
	for _, o := range others {
		if n, err := strconv.Atoi(strings.TrimPrefix(o, env.EncryptionKeyPrefix)); err == nil {
			highest = max(highest, n)
		}
	}
	name := env.EncryptionKeyPrefix + strconv.Itoa(highest+1)
	if err := c.Facts.Set(ctx, memory.EncryptionKey, name); err != nil {
		return nil, nil, err
	}
	key, err := c.PKI.EncryptionKey(ctx, name)
	return c.FinalEncryption(), map[string][]byte{name: key}, err
}
