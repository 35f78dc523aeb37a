// Package access authenticates operators, authorizes their requests, and records them in the audit.
//
// Operators present tokens; the store has only their hashes. The package does not depend on the handlers.
package access

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/server"
)

// roles are the roles that a token can have, the lowest first.
var roles = []server.Role{server.Read, server.Operate, server.Admin}

// Roles lists the roles that a token can have, for people.
func Roles() []string {
	var names []string
	for _, r := range roles {
		names = append(names, string(r))
	}
	return names
}

// Operator is the author of a request.
type Operator struct {
	Name    string // the token's name and ID: "ann (3f…)"
	ID      string // ID of the token
	Role    server.Role
	Cluster string // the only cluster that the operator may see; empty: all
	// Via is the sign-in method, and Session the token or session that was presented, for the audit.
	Via, Session string
	// SignedIn is the time of the sign-in with the provider; zero for a token.
	SignedIn time.Time
}

// Sign-in methods, as in the audit.
const (
	ViaToken        = "token"
	ViaTokenPages   = "token, pages"
	ViaIDToken      = "OIDC"
	ViaIDTokenPages = "OIDC, pages" //nolint:gosec // a name
	ViaHost         = "command on the host"
	ViaLink         = "link, pages"
)

// Admit is the one authorization check for the API and the pages: it refuses a request that exceeds the operator's role or scope, and returns the
// request's cluster.
func (o Operator) Admit(r *http.Request, need server.Role, scope server.Scope) (cluster string, err error) {
	cluster, err = scope.Of(r, o.Sees)
	switch {
	case err != nil:
		return cluster, err
	case scope.Decided():
		return cluster, o.May(need, o.Cluster)
	}
	return cluster, o.May(need, cluster)
}

// May refuses an operator without the role on a cluster; an empty cluster means that the request concerns no particular one. A cluster that the
// operator may not see looks like a missing one.
func (o Operator) May(need server.Role, cluster string) error {
	if o.Cluster != "" && o.Cluster != cluster {
		if cluster == "" {
			return fail.New(fail.Refused, "this token is good for cluster %s alone", o.Cluster)
		}
		return fail.New(fail.NotFound, "there is no such cluster").At(cluster).Do("this token is good for cluster %s", o.Cluster)
	}
	if slices.Index(roles, o.Role) < slices.Index(roles, need) {
		return fail.New(fail.Refused, "this needs the role %s; the token has %s", need, o.Role).Do("ask for a token: naupegos server token create --role %s", need)
	}
	return nil
}

// Told returns the error to show to the operator: the whole error to one of all clusters. Not-found errors suggest other clusters' names, so an
// operator of a single cluster gets a generic one, and others without their confidential text and without paths of the server.
func (o Operator) Told(err error) error {
	switch {
	case err == nil || o.Cluster == "":
		return fail.Whole(err)
	case fail.KindOf(err) == fail.NotFound:
		return fail.New(fail.NotFound, "there is no such cluster, or nothing of that name in it").Do("this token is good for cluster %s", o.Cluster)
	}
	return fail.Public(err)
}

// MayBuild reports whether the operator may have the server build what its library lacks. For one of a single cluster the server's policy decides.
func (o Operator) MayBuild() bool { return o.Cluster == "" }

// Sees reports whether the operator may see a cluster.
func (o Operator) Sees(cluster string) bool { return o.Cluster == "" || o.Cluster == cluster }

// key is the type of the context's key.
type key struct{}

// From returns the operator of a request. Without Guard, it is an operator without rights.
func From(ctx context.Context) Operator {
	o, _ := ctx.Value(key{}).(*asked)
	if o == nil {
		return Operator{Name: "nobody"}
	}
	return o.Operator
}

// asked is one request.
type asked struct {
	Operator
	cluster string
	asks    string       // what the request is for, in addition to its path, for the audit: a verb with its arguments
	looks   bool         // the request only reads, although its method is POST
	begun   func() error // records in the audit that the request begins
	fresh   func() error // refuses a sign-in that is too old
}

// About notes the cluster of a request, for the audit.
func About(ctx context.Context, cluster string) {
	if o, _ := ctx.Value(key{}).(*asked); o != nil {
		o.cluster = cluster
	}
}

// Asks notes the verb of a request with its arguments, for the audit.
func Asks(ctx context.Context, title string) {
	if o, _ := ctx.Value(key{}).(*asked); o != nil {
		o.asks = title
	}
}

// Looks notes that a POST request only reads: like other reads, it is in the audit only if it is refused.
func Looks(ctx context.Context) {
	if o, _ := ctx.Value(key{}).(*asked); o != nil {
		o.looks = true
	}
}

// Sensitive requires a recent sign-in, and records in the audit that the request begins. It fails if that cannot be recorded, so that nothing is handed
// out or destroyed without a trace.
func Sensitive(ctx context.Context) error {
	o, _ := ctx.Value(key{}).(*asked)
	if o == nil {
		return From(ctx).May(server.Admin, "")
	}
	if err := o.fresh(); err != nil {
		return err
	}
	return o.begun()
}
