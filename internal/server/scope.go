package server

import (
	"net/http"

	"github.com/naupegos/naupegos/internal/fail"
)

// Scope says what a route is about, so that one check keeps operators of a single cluster from everything else. A mount without one is refused.
type Scope struct {
	kind kind
	// cluster returns the cluster of what the path names.
	cluster func(r *http.Request) (string, error)
	what    string // that thing, for people
	param   string // its name in the path
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

// Public is the scope of routes that tell nothing of a cluster or a machine.
func Public() Scope { return Scope{kind: public} }

// Machine is the scope of routes for machines: each acts for itself alone, and the handler sees to that.
func Machine() Scope { return Scope{kind: machine} }

// Everything is the scope of routes about no cluster in particular, such as physical machines: an operator of a single cluster is refused.
func Everything() Scope { return Scope{kind: everything} }

// Own is the scope of routes whose answer or body decides: the handler shows operators their clusters, and asks Operator.May about one that the
// request names.
func Own() Scope { return Scope{kind: own} }

// Cluster is the scope of routes about the cluster that a part of the path names.
func Cluster(param string) Scope {
	return Scope{kind: named, what: "cluster", param: param, cluster: func(r *http.Request) (string, error) { return r.PathValue(param), nil }}
}

// Found is the scope of routes about a thing of a cluster, such as a job, that a part of the path names. Operators can't tell one that they may
// not see from one that does not exist.
func Found(what, param string, cluster func(r *http.Request, id string) (string, error)) Scope {
	return Scope{kind: found, what: what, param: param, cluster: func(r *http.Request) (string, error) { return cluster(r, r.PathValue(param)) }}
}

// Decided reports whether the handler itself decides what an operator may see.
func (s Scope) Decided() bool { return s.kind == own }

// Param is the part of the path that names what the route is about; empty: none does.
func (s Scope) Param() string { return s.param }

// Of returns the cluster that a request is about; "" is no cluster in particular. sees reports whether the operator may see a cluster.
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

// check refuses a mount that does not say who may ask for it, and about what.
func (m Mount) check() error {
	open := m.Scope.kind == public || m.Scope.kind == machine
	if m.Scope.kind == unsaid || open != (m.Need == Anybody) {
		return fail.New(fail.Internal, "the route %q needs the role %q, and its scope does not fit that", m.Pattern, m.Need)
	}
	return nil
}
