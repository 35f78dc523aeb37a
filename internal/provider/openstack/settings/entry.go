package settings

import (
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// value is one setting and its place: "clouds.yaml:7: clouds.mine.auth.password", or "$OS_PASSWORD".
type value struct{ text, at string }

// entry holds the settings of one cloud, outside and inside of auth, by their names with underscores.
type entry struct {
	top, auth map[string]value
	regions   []region
}

// region is one of the regions of an entry, with settings of its own.
type region struct {
	name   value
	values entry
}

func newEntry() entry { return entry{top: map[string]value{}, auth: map[string]value{}} }

// nothingAbout reports whether an entry has no login settings.
func (e entry) nothingAbout(keys []string) bool {
	return !slices.ContainsFunc(keys, func(k string) bool { return e.top[k].text != "" || e.auth[k].text != "" })
}

// with returns e merged with over, whose settings take precedence. Like openstacksdk, it merges auth key by key.
func (e entry) with(over entry) entry {
	out := newEntry()
	for _, from := range []entry{e, over} {
		for k, v := range from.top {
			out.top[k] = v
		}
		for k, v := range from.auth {
			out.auth[k] = v
		}
		if from.regions != nil {
			out.regions = from.regions
		}
	}
	return out
}

// The names of the settings in auth; OS_ variables have them in capitals.
var (
	authKeys = []string{
		"auth_url", "username", "user_name", "user_id", "userid", "password", "passcode", "token", "auth_token",
		"project_id", "project_name", "tenant_id", "tenant_name", "project_domain_id", "project_domain_name", "user_domain_id", "user_domain_name",
		"domain_id", "domain_name", "default_domain", "default_domain_id", "default_domain_name", "trust_id", "system_scope",
		"application_credential_id", "application_credential_name", "application_credential_secret",
	}
	topKeys = []string{
		"auth_type", "auth_plugin", "auth_methods", "region_name", "interface", "endpoint_type", "cacert", "cert", "key", "insecure", "verify",
		"profile", "cloud",
	}
	services = []string{"identity", "compute", "network", "image", "volume", "block_storage", "volumev3", "load_balancer"}
)

// mayBePEM lists settings that contain a file name or PEM.
var mayBePEM = map[string]bool{"cacert": true, "cert": true, "key": true}

// mayBeList lists settings that openstacksdk takes as a list, too. Separated by commas, they are one value.
var mayBeList = map[string]bool{"auth_methods": true, "interface": true, "endpoint_type": true}

// underscored returns a setting's canonical name; openstacksdk accepts dashes too.
func underscored(key string) string { return strings.ReplaceAll(key, "-", "_") }

// readEntry reads a file's settings of a cloud.
func readEntry(n node) (entry, error) {
	e := newEntry()
	all, err := n.members()
	if err != nil {
		return e, err
	}
	for _, m := range all {
		switch key := underscored(m.key); {
		case key == "auth":
			err = readScalars(m.node, e.auth, authKeys)
		case key == "regions", key == "region_name" && !m.isScalar() && !m.isNothing():
			e.regions, err = readRegions(m.node)
		default:
			err = readScalar(m, e.top, slices.Concat(topKeys, authKeys))
		}
		if err != nil {
			return e, err
		}
	}
	return e, nil
}

func readScalars(n node, into map[string]value, known []string) error {
	all, err := n.members()
	for _, m := range all {
		if err == nil {
			err = readScalar(m, into, known)
		}
	}
	return err
}

// readScalar returns a setting as written, because YAML would convert some names to numbers or dates.
func readScalar(m member, into map[string]value, known []string) error {
	key := underscored(m.key)
	switch {
	case m.isNothing():
		delete(into, key)
	case m.isScalar() && slices.Contains(known, key) && strings.ContainsAny(m.n.Value, "\r\n\x00") && !mayBePEM[key]:
		return m.wrong("this must be one line").Do("quote it, and check the line's end")
	case m.isScalar():
		into[key] = value{m.n.Value, m.at()}
	case mayBeList[key] && !m.isMap():
		return readList(m, into, key)
	case slices.Contains(known, key):
		return m.wrong("this must be a single value").Do("check the indentation")
	}
	return nil
}

func readList(m member, into map[string]value, key string) error {
	items, err := m.items()
	if err != nil {
		return err
	}
	var all []string
	for _, i := range items {
		if !i.isScalar() || strings.ContainsAny(i.n.Value, "\r\n\x00,") {
			return i.wrong("this must be a single value").Do("check the indentation")
		}
		all = append(all, i.n.Value)
	}
	into[key] = value{strings.Join(all, ","), m.at()}
	return nil
}

func readRegions(n node) (out []region, err error) {
	items, err := n.items()
	if err != nil {
		return nil, err
	}
	out = []region{}
	for _, i := range items {
		r := region{name: value{at: i.at()}, values: newEntry()}
		switch {
		case i.isScalar():
			r.name.text = i.n.Value
		case i.isMap():
			if r, err = readRegion(i); err != nil {
				return nil, err
			}
		}
		if r.name.text == "" {
			return nil, i.wrong("a region has no name").Do("write {name: REGION, values: {…}}, or only the name")
		}
		out = append(out, r)
	}
	return out, nil
}

func readRegion(n node) (r region, err error) {
	r.values = newEntry()
	all, err := n.members()
	if err != nil {
		return r, err
	}
	for _, m := range all {
		switch {
		case m.key == "name" && m.isScalar():
			r.name = value{m.n.Value, m.at()}
		case m.key == "values":
			if r.values, err = readEntry(m.node); err != nil {
				return r, err
			}
		default:
			return r, m.wrong("a region has only a name and values").Do("move it below values")
		}
	}
	return r, nil
}

// fromEnv returns the settings in the OS_* variables.
func fromEnv(s Source) (entry, error) {
	e := newEntry()
	for _, k := range slices.Concat(authKeys, topKeys) {
		name := "OS_" + strings.ToUpper(k)
		v := s.Getenv(name)
		if v == "" || k == "cloud" || k == "profile" {
			continue
		}
		if strings.ContainsAny(v, "\r\n\x00") && !mayBePEM[k] {
			return e, fail.New(fail.Invalid, "$%s has more than one line", name).Do("set it again; check the sourced file for Windows line endings")
		}
		e.top[k] = value{v, "$" + name}
	}
	return e, nil
}
