package cloud

import (
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"

	"github.com/naupegos/naupegos/internal/fail"
)

// User is the identity service's description of the logged-in user.
type User struct {
	User struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"user"`
	Project struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"project"`
	Roles         []Role         `json:"roles"`
	AppCredential *AppCredential `json:"application_credential"` // nil: logged in by password or token
}

// Admin reports whether the user is an administrator of the cloud, as its usual policy names one.
func (w User) Admin() bool {
	return slices.ContainsFunc(w.Roles, func(r Role) bool { return strings.EqualFold(r.Name, "admin") })
}

// Role is a role of the user in the project.
type Role struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// AppCredential is the application credential of the login. A restricted one can't create others.
type AppCredential struct {
	Name       string `json:"name"`
	Restricted bool   `json:"restricted"`
}

// WhoAmI returns the logged-in user. It makes no call: the answer came with the token.
func (c *Cloud) WhoAmI() (User, error) {
	var w User
	r, ok := c.Client.GetAuthResult().(interface{ ExtractInto(any) error })
	if !ok {
		return w, fail.New(fail.Internal, "the token of %s says nothing of its user", c.Login.Source)
	}
	if err := r.ExtractInto(&w); err != nil {
		return w, fail.Wrap(fail.Internal, err, "read the token of %s", c.Login.Source)
	}
	if w.Project.ID == "" {
		return w, fail.New(fail.Refused, "the credentials of %s are for no project", c.Login.Source).Do("add project_name or project_id to them")
	}
	return w, nil
}

// Has reports whether the user has a role, ignoring case.
func (w User) Has(name string) bool {
	return slices.ContainsFunc(w.Roles, func(r Role) bool { return strings.EqualFold(r.Name, name) })
}

// RoleNames lists the user's roles for display.
func (w User) RoleNames() string {
	var out []string
	for _, r := range w.Roles {
		out = append(out, r.Name)
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// memberRoles are roles for servers, volumes and networks; the cluster's components need one of them.
var memberRoles = []string{"member", "_member_"}

// BalancerRole is the role that load balancers need.
const BalancerRole = "load-balancer_member"

// MayDelegate returns an error if the user can't create application credentials. It makes no call.
func (w User) MayDelegate(source string) error {
	if w.AppCredential != nil && w.AppCredential.Restricted {
		return CannotDelegate(fail.New(fail.Refused, "the application credential %s of %s may not make others, and the cluster needs one of its own",
			w.AppCredential.Name, source))
	}
	if len(w.Delegated()) == 0 {
		return fail.New(fail.Refused, "the credentials of %s have no role that can be handed on to the cluster (%s)",
			source, strings.Join(memberRoles, " or ")).
			Do("have the cloud's operator give you the role member in project %s", w.Project.Name)
	}
	return nil
}

// CannotDelegate adds the remedy to a refusal.
func CannotDelegate(err error) error {
	if fail.KindOf(err) != fail.Refused {
		return err
	}
	return fail.Wrap(fail.Refused, err, "get a credential for what runs in the cluster").
		Do("use credentials with a password, or an application credential made with `openstack application credential create --unrestricted`")
}

// Delegated lists the roles of a new application credential: only those that the cluster needs. If the user has none of memberRoles, because the
// cloud uses other names, it lists all except those of administrators, services and managers.
func (w User) Delegated() []applicationcredentials.Role {
	var needed, ordinary []applicationcredentials.Role
	for _, r := range w.Roles {
		name := strings.ToLower(r.Name)
		id := applicationcredentials.Role{ID: r.ID}
		if slices.Contains(memberRoles, name) || name == BalancerRole {
			needed = append(needed, id)
		}
		if !strings.Contains(name, "admin") && name != "service" && name != "manager" {
			ordinary = append(ordinary, id)
		}
	}
	if !slices.ContainsFunc(memberRoles, w.Has) {
		return ordinary
	}
	return needed
}
