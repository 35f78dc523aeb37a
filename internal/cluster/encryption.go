package cluster

import (
	"context"
	"strings"

	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/stage"
	"github.com/naupegos/naupegos/internal/cluster/staged"
	"github.com/naupegos/naupegos/internal/plan"
)

// Encryption at rest is changed in stages, because several API servers read each other's Secrets. Each has a list of providers (names of keys, or
// layout.Plaintext): it writes with the first and reads with all. Consecutive lists differ in one change only, and a stage begins only once all
// API servers run with the list of the previous one:
//
//	off → on     identity | identity,key1 | key1,identity, rewrite
//	on → off     key1,identity | identity,key1, rewrite | identity
//	another key  key1,identity | key1,identity,key2 | key2,key1,identity, rewrite | key2,identity
//
// Facts record which list is being rolled out, which one all API servers run with, and which provider all Secrets are written with.

// planEncryption ends a stage of changing the encryption at rest once all API servers have restarted with it.
func (a *applying) planEncryption() {
	run := a.Facts.Get(memory.EncryptionRun)
	if !a.Facts.Bootstrapped() || run == "" {
		return
	}
	now, final, written := env.ProviderList(a.Facts.Get(memory.Encryption)), a.FinalEncryption(), a.Facts.Get(memory.EncryptionWrote)
	rewrite := now[0] == final[0] && written != final[0]
	if rewrite {
		written = now[0] // by this stage
	}
	if !rewrite && strings.Join(now, ",") == run {
		return
	}
	s := &plan.Step{
		ID: staged.EncryptionStep, Action: plan.Change, Subject: "cluster", Title: "verify that all API servers " + staged.ReadsAndWrites(now),
		Reason: "encryption at rest changes in stages: no API server may write what another can't read", Details: staged.StagesAfter(now, final, written),
		Run: func(ctx context.Context, p plan.Progress) error {
			if err := a.Taken(ctx, "", p); err != nil {
				return err
			}
			return a.Facts.Set(ctx, memory.EncryptionRun, strings.Join(now, ","))
		},
	}
	if rewrite {
		s.Title, s.Timeout, s.Reason = staged.Rewriting(now[0]), staged.RewriteTimeout, "existing Secrets stay as they are until they are rewritten"
		s.Run = func(ctx context.Context, p plan.Progress) error { return a.RewriteSecrets(ctx, p, now) }
	}
	a.add(stage.Record, s)
}
