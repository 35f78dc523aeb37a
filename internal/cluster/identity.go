package cluster

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/addon"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/stage"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/identity"
	"github.com/naupegos/naupegos/internal/kube/access"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
)

// authenticationTimeout bounds the wait for API servers: they look at the file once a minute at the latest, and give issuers a minute to answer.
const authenticationTimeout = 3 * time.Minute

// AuthenticationStep is the ID of the step that waits until API servers go by the document's issuers.
const AuthenticationStep = "authentication"

// planAuthentication waits until all API servers go by the document's issuers. The file with them is part of the machines' configuration; servers reload it
// without a restart.
func (a *applying) planAuthentication() {
	issuers, err := identity.Render(a.Doc.Spec.Identity.Authenticators())
	want := ""
	if len(issuers) > 0 {
		sum := sha256.Sum256(issuers)
		want = hex.EncodeToString(sum[:])
	}
	if err == nil && a.Facts.Get(memory.Authenticated) == want {
		return
	}
	config := layout.AuthenticationConfig(issuers)
	s := &plan.Step{
		ID: AuthenticationStep, Action: plan.Wait, Subject: "cluster", Title: "wait until all API servers accept tokens of " + strings.Join(a.issuerNames(), ", ") + ", and of no other issuer",
		Reason: "they reload their list of issuers; none restarts", Timeout: authenticationTimeout,
		Run: func(ctx context.Context, p plan.Progress) error {
			if err != nil {
				return err
			}
			for _, name := range a.NamesOf(provider.ControlPlane) {
				p.Status("waiting for the API server on %s", name)
				if err := waitLoaded(ctx, a.Cluster, name, access.Authentication, config); err != nil {
					return err
				}
			}
			return a.Facts.Set(ctx, memory.Authenticated, want)
		},
	}
	if len(issuers) == 0 {
		s.Title = "wait until all API servers refuse tokens of issuers that left the document"
	}
	a.add(stage.Record, s)
}

func (a *applying) issuerNames() (names []string) {
	for _, i := range a.Doc.Spec.Identity.Issuers {
		names = append(names, i.Name)
	}
	return names
}

// AuthorizationStep is the ID of the step that waits until API servers go by the document's authorization webhooks.
const AuthorizationStep = "authorization"

// planAuthorization waits until all API servers go by the document's authorization webhooks, as planAuthentication does for issuers.
func (a *applying) planAuthorization() {
	now, err := a.Authorization(context.Background())
	want := ""
	if len(now.Config) > 0 {
		sum := sha256.Sum256(now.Config)
		want = hex.EncodeToString(sum[:])
	}
	if err == nil && a.Facts.Get(memory.Authorized) == want {
		return
	}
	s := &plan.Step{
		ID: AuthorizationStep, Action: plan.Wait, Subject: "cluster", Title: "wait until all API servers go by the document's authorization webhooks",
		Reason: "they reload their configuration", Timeout: authenticationTimeout,
		Run: func(ctx context.Context, p plan.Progress) error {
			if err != nil {
				return err
			}
			for _, name := range a.NamesOf(provider.ControlPlane) {
				if want == "" { // a server without webhooks has restarted without the file
					break
				}
				p.Status("waiting for the API server on %s", name)
				if err := waitLoaded(ctx, a.Cluster, name, access.Authorization, now.Config); err != nil {
					return err
				}
			}
			return a.Facts.Set(ctx, memory.Authorized, want)
		},
	}
	if want == "" {
		s.Title, s.Reason = "record that API servers ask no authorization webhook", "they have restarted without"
	}
	a.add(stage.Record, s)
}

// waitLoaded polls one API server: its metrics can't be watched.
func waitLoaded(ctx context.Context, c *Cluster, name string, file access.Reloaded, config []byte) error {
	client, err := c.KubeAt(ctx, name)
	if err != nil {
		return err
	}
	defer client.Close()
	for tick := time.Tick(2 * time.Second); ; {
		err := access.Loaded(ctx, client, file, config)
		if err == nil || !fail.Waitable(err) && ctx.Err() == nil {
			return err
		}
		select {
		case <-tick:
		case <-ctx.Done():
			failed := fail.Wrap(fail.NotReady, cmp.Or(whyNotLoaded(ctx, c, name, file), err), "load the %s configuration", string(file)).At(name)
			if file == access.Authorization {
				return failed.Do("correct spec.identity.authorizationWebhooks, and apply again")
			}
			return failed.Do("an API server takes a new list of issuers only while all of them answer, and tries again each minute; fix the issuer, or remove it from spec.identity.issuers, and apply again")
		}
	}
}

// lastWords prints the last line of the API server's log about its configuration of $1.
const lastWords = `f=$(ls -t /var/log/pods/kube-system_kube-apiserver-*/kube-apiserver/*.log | head -n 1) && grep -F "$1 config" "$f" | tail -n 1 | cut -c 1-1000`

// whyNotLoaded returns the API server's log lines about the file; nil if it has none.
func whyNotLoaded(ctx context.Context, c *Cluster, name string, file access.Reloaded) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	h, err := c.Host(ctx, name)
	if err != nil {
		return nil //nolint:nilerr // the caller has a better one
	}
	out, err := c.Dialer.Run(ctx, h, nil, "sh", "-c", lastWords, "sh", string(file))
	if line := strings.TrimSpace(string(out)); err == nil && line != "" {
		return fail.New(fail.NotReady, "the API server's log: %s", line)
	}
	return nil
}

// Users lists the users of a cluster's API with their roles.
type Users struct {
	Issuers []SignIn       `json:"issuers" doc:"Issuers whose tokens the API servers accept"`
	Items   []access.Grant `json:"items" doc:"Roles of subjects"`
}

// UsersOf returns the roles of all users and groups.
func UsersOf(ctx context.Context, c *Cluster) (*Users, error) {
	client, err := c.Kube(ctx)
	if err != nil {
		return nil, err
	}
	grants, err := access.Grants(ctx, client, addon.NameBindings)
	if err != nil {
		return nil, err
	}
	return &Users{Issuers: signIns(c), Items: append([]access.Grant{}, grants...)}, nil
}

// SignIn describes how users sign in with an issuer. It contains no secrets.
type SignIn struct {
	Name     string   `json:"name"`
	URL      string   `json:"url"`
	ClientID string   `json:"clientID"`
	Scopes   []string `json:"scopes"`
	CA       []byte   `json:"ca,omitempty" doc:"Certificate (PEM) of the authority that vouches for the issuer"`
	Port     int      `json:"port,omitempty" doc:"Port of this machine that the browser returns to; absent: any free port"`
}

// Entrance describes where the API is and how users sign in there. It contains no secrets.
type Entrance struct {
	Server  string   `json:"server" doc:"URL of the Kubernetes API"`
	CA      []byte   `json:"ca" doc:"Certificates (PEM) of the authority that vouches for it"`
	Issuers []SignIn `json:"issuers"`
}

// EntranceOf returns the address of the API and how users sign in there.
func EntranceOf(ctx context.Context, c *Cluster) (*Entrance, error) {
	endpoint, err := c.Endpoint(ctx)
	if err != nil {
		return nil, err
	}
	ca, err := c.PKI.CABundle(ctx, pki.KubernetesCA)
	return &Entrance{Server: "https://" + endpoint, CA: ca, Issuers: signIns(c)}, err
}

func signIns(c *Cluster) []SignIn {
	all := []SignIn{}
	for _, i := range c.Doc.Spec.Identity.Issuers {
		all = append(all, SignIn{i.Name, i.URL, i.LoginClient(), i.LoginScopes(), []byte(i.CA), i.LoginPort})
	}
	return all
}

// Choose returns the issuer of this name, or the only one if name is empty.
func (e *Entrance) Choose(cluster, name string) (*SignIn, error) {
	var names []string
	for i := range e.Issuers {
		if e.Issuers[i].Name == name || name == "" && len(e.Issuers) == 1 {
			return &e.Issuers[i], nil
		}
		names = append(names, e.Issuers[i].Name)
	}
	slices.Sort(names)
	switch {
	case len(names) == 0:
		return nil, fail.New(fail.Invalid, "cluster %s has no issuer", cluster).Do("list one in spec.identity.issuers of its document, and apply it")
	case name == "":
		return nil, fail.New(fail.Invalid, "cluster %s has %d issuers", cluster, len(names)).Do("name one by --issuer: %s", strings.Join(names, ", "))
	}
	return nil, fail.New(fail.NotFound, "cluster %s has no issuer %q", cluster, name).Do("known: %s", strings.Join(names, ", "))
}
