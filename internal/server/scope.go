package server

import (
	"net/http"

	"github.com/naupegos/naupegos/internal/fail"
)

// Scope names the cluster of a route, so that one check restricts operators of a single cluster. A mount needs one.
type Scope struct {
	kind kind
	// cluster returns the cluster of the object in the path.
	cluster func(r *http.Request) (string, error)
	what    string // kind of the object, for error messages
	param   string // its path parameter
}

// kind is the kind of a scope.
type kind int

const (
	unsaid kind = iota
	public
	machine
	everything
	own
	named
	found
)

// Public is the scope of routes without data of a cluster or a machine.
func Public() Scope { return Scope{kind: public} }

// Machine is the scope of routes for machines. The handler restricts each machine to its own data.
func Machine() Scope { return Scope{kind: machine} }

// Everything is the scope of routes that concern all clusters, such as physical machines. They refuse operators of a single cluster.
func Everything() Scope { return Scope{kind: everything} }

// Own is the scope of routes that filter by operator: the handler lists only the operator's clusters, and checks a cluster in the request with
// Operator.May.
func Own() Scope { return Scope{kind: own} }

// Cluster is the scope of routes for the cluster in a path parameter.
func Cluster(param string) Scope {
	return Scope{kind: named, what: "cluster", param: param, cluster: func(r *http.Request) (string, error) { return r.PathValue(param), nil }}
}

// Found is the scope of routes for an object of a cluster, such as a job, in a path parameter. To an operator of another cluster, the object does not
// exist.
func Found(what, param string, cluster func(r *http.Request, id string) (string, error)) Scope {
	return Scope{kind: found, what: what, param: param, cluster: func(r *http.Request) (string, error) { return cluster(r, r.PathValue(param)) }}
}

// Decided reports whether the handler itself filters by operator.
func (s Scope) Decided() bool { return s.kind == own }

// Param returns the path parameter of the route's object, if any.
func (s Scope) Param() string { return s.param }

// Of returns the cluster of a request, or "" for none. sees reports whether the operator may see a cluster.
func (s Scope) Of(r *http.Request, sees func(cluster string) bool) (string, error) {
	if s.cluster == nil {
		return "", nil
	}
	cluster, err := s.cluster(r)
	if err != nil && fail.KindOf(err) != fail.NotFound {
		return "", err
	}
	if s.kind == found && (err != nil || !sees(cluster)) {
		return "", fail.New(fail.NotFound, "there is no %s %.64q", s.what, r.PathValue(s.param))
	}
	return cluster, err
}

// check refuses a mount without a matching role and scope.
func (m Mount) check() error {
	open := m.Scope.kind == public || m.Scope.kind == machine
	if m.Scope.kind == unsaid || open != (m.Need == Anybody) {
		return fail.New(fail.Internal, "the scope of route %q does not match its role %q", m.Pattern, m.Need)
	}
	return nil
}
