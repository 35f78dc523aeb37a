package operate

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/policy"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestCredentialRemovedDuringApply takes a credential away while a plan runs, or its path: the next step does not run, and the error names the credential.
// Once it is back, the same plan continues.
func TestCredentialRemovedDuringApply(t *testing.T) {
	st := testkit.Value(store.Open(t.Context(), store.Location{Dir: t.TempDir()}))(t)
	defer st.Close()
	rec := testkit.Value(st.CreateCluster(t.Context(), store.Cluster{Name: "demo", Provider: "metal", Document: []byte("kind: Cluster\n")}))(t)
	creds := policy.NewCredentials(st.ServerSecrets())
	add := func(path string) {
		t.Helper()
		testkit.Must(t, creds.Add(t.Context(), policy.Credential{Name: "s3", For: []string{"s3.example.org"}, Clusters: []string{"demo"}, Paths: []string{path}}, []byte("value"), true))
	}
	add("backups/{cluster}")
	s := &Session{Store: st, Record: rec, credentials: []used{{"s3", "backups/demo"}}}
	first, second := 0, 0
	p := &plan.Plan{Verb: "apply", Cluster: "demo", Steps: []*plan.Step{
		{ID: "first", Action: plan.Change, Title: "first", Subject: "a", Run: func(ctx context.Context, _ plan.Progress) error {
			if first++; first == 1 {
				return creds.Remove(ctx, "s3")
			}
			return nil
		}},
		{ID: "second", Action: plan.Change, Title: "second", Subject: "a", Needs: []string{"first"}, Run: func(context.Context, plan.Progress) error {
			second++
			return nil
		}},
	}}
	testkit.Fails(t, s.CarryOut(t.Context(), p, Terms{Front: &desk{out: t.Output()}, Plain: true, Step: time.Minute}), fail.Unauthorized, "cluster demo has no credential s3", "naupegos server credential add s3")
	if first != 1 || second != 0 {
		t.Errorf("the first step ran %d times, the second %d", first, second)
	}
	add("others")
	testkit.Fails(t, s.CarryOut(t.Context(), p, Terms{Front: &desk{out: t.Output()}, Plain: true, Step: time.Minute}), fail.Refused, "credential s3 is not bound to path backups/demo")
	if second != 0 {
		t.Errorf("the second step ran %d times", second)
	}
	add("backups/{cluster}")
	testkit.Must(t, s.CarryOut(t.Context(), p, Terms{Front: &desk{out: t.Output()}, Plain: true, Step: time.Minute}))
	if second != 1 {
		t.Errorf("the second step ran %d times", second)
	}
}

// TestAdmit: a session under a policy refuses a given or stored document before it opens anything.
func TestAdmit(t *testing.T) {
	const document = `apiVersion: naupegos.dev/v1alpha1
kind: Cluster
metadata: {name: demo}
spec:
  provider: {metal: {}}
  backup: {to: {directory: /etc}}
  endpoint: {kind: direct}
  controlPlane: {replicas: 1, schedulable: true}
`
	for how, begin := range map[string]func(context.Context, store.Store, Options) error{
		"apply": func(ctx context.Context, st store.Store, o Options) error {
			_, err := Begin(ctx, st, Asked{Verb: Apply, Document: document}, o)
			return err
		},
		"stored": func(ctx context.Context, st store.Store, o Options) error {
			_ = testkit.Value(st.CreateCluster(ctx, store.Cluster{Name: "demo", Provider: "metal", Document: []byte(document)}))(t)
			_, _, err := OpenNamed(ctx, st, "demo", o)
			return err
		},
		"restore": func(ctx context.Context, st store.Store, o Options) error {
			_, err := Begin(ctx, st, Asked{Verb: restoreBackup, Cluster: "demo", Backup: "latest", Document: document}, o)
			return err
		},
	} {
		t.Run(how, func(t *testing.T) {
			st := testkit.Value(store.Open(t.Context(), store.Location{Dir: t.TempDir()}))(t)
			agent := func() (string, error) { t.Error("the session went on"); return "", nil }
			err := begin(t.Context(), st, Options{Policy: policy.New(v1alpha1.DefaultServerPolicy()), ReadOnly: true, Agent: agent})
			testkit.Fails(t, err, fail.Refused, "spec.backup.to.directory", "the server's policy: cluster demo may not use directory /etc")
		})
	}
}

// TestBackupsOfAnotherCluster: a credential that is bound to a cluster's own path does not open another cluster's backups in the same bucket.
func TestBackupsOfAnotherCluster(t *testing.T) {
	const document = `apiVersion: naupegos.dev/v1alpha1
kind: Cluster
metadata: {name: copy}
spec:
  provider: {metal: {}}
  backup: {to: {s3: {endpoint: "https://127.0.0.1:1", bucket: backups, prefix: site, credential: s3}}}
  endpoint: {kind: direct}
  controlPlane: {replicas: 1, schedulable: true}
`
	for _, c := range []struct{ path, of, refused string }{
		{"backups/site/{cluster}", "demo", "credential s3 is not bound to path backups/site/demo"},
		{"backups/site/{cluster}", "copy", ""},
		{"backups/site", "demo", ""},
		{"", "demo", ""},
	} {
		st := testkit.Value(store.Open(t.Context(), store.Location{Dir: t.TempDir()}))(t)
		cred := policy.Credential{Name: "s3", For: []string{"https://127.0.0.1:1"}, Clusters: []string{"copy"}}
		if c.path != "" {
			cred.Paths = []string{c.path}
		}
		testkit.Must(t, policy.NewCredentials(st.ServerSecrets()).Add(t.Context(), cred, []byte("key:secret"), false))
		o := Options{Policy: policy.New(v1alpha1.DefaultServerPolicy()), ReadOnly: true}
		if c.refused == "" {
			doc := testkit.Value(validation.Parse("test", []byte(document)))(t)
			_, err := FindBackups(t.Context(), st, c.of, doc, &o)
			testkit.Must(t, errors.Join(err, st.Close()))
			continue
		}
		_, err := Begin(t.Context(), st, Asked{Verb: restoreBackup, Cluster: "copy", Backup: "latest", Document: document, Restore: &Restore{New: true, Of: c.of}}, o) // it closes the store
		testkit.Fails(t, err, fail.Refused, "spec.backup.to.s3.credential", "the server's policy: "+c.refused)
	}
}
