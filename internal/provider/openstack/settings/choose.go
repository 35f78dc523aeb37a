package settings

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// chosen is the merged entry of the selected cloud.
type chosen struct {
	entry
	source string // for messages
	env    string // the interface from the environment
	file   string // the file for a missing setting; empty: the variables
}

// field returns the name of a missing setting.
func (c chosen) field(key string) string {
	if c.file == "" {
		return "OS_" + strings.ToUpper(key)
	}
	if slices.Contains(authKeys, key) {
		return "auth." + key
	}
	return key
}

// files are the existing settings files.
type files struct {
	clouds, secure, public node
	paths                  []string // of clouds and secure, for messages
	denied                 []string
	places                 []string
}

func readFiles(s Source) (f files, err error) {
	f.places = s.dirs()
	cloudsFile, denied, err := s.search([]string{s.Getenv("OS_CLIENT_CONFIG_FILE")}, "clouds", f.places)
	if err != nil {
		return f, err
	}
	f.denied = denied
	beside := f.places
	if cloudsFile.path != "" { // openstacksdk searches only its own directories; here, a secure.yaml next to a file from a variable counts too
		if named, err := s.expand(s.Getenv("OS_CLIENT_CONFIG_FILE")); err == nil && named == cloudsFile.path {
			beside = append([]string{filepath.Dir(named)}, beside...)
		}
	}
	secureFile, denied, err := s.search([]string{s.Getenv("OS_CLIENT_SECURE_FILE")}, "secure", beside)
	if err != nil {
		return f, err
	}
	f.denied = append(f.denied, denied...)
	publicFile, _, err := s.search(nil, "clouds-public", beside)
	if err != nil {
		return f, err
	}
	for _, r := range []struct {
		from found
		to   *node
		key  string
	}{{cloudsFile, &f.clouds, "clouds"}, {secureFile, &f.secure, "clouds"}, {publicFile, &f.public, "public-clouds"}} {
		if r.from.path == "" {
			continue
		}
		if *r.to, err = section(r.from, r.key); err != nil {
			return f, err
		}
		if r.key == "clouds" {
			f.paths = append(f.paths, r.from.path)
		}
	}
	return f, nil
}

// section returns the part of a file that describes clouds.
func section(from found, key string) (node, error) {
	root, err := parse(from)
	if err != nil || root.isNothing() {
		return node{file: from.path, path: key}, err
	}
	root.path = ""
	if !root.isMap() {
		return root, fail.New(fail.Invalid, "it must be a mapping with the key %s", key).At(from.path).Do("write %s: {NAME: {auth: {…}}}", key)
	}
	n, _, err := root.member(key)
	n.path = key
	return n, err
}

// fromFiles reads a cloud by its name.
func fromFiles(s Source, name string) (c chosen, err error) {
	f, err := readFiles(s)
	if err != nil {
		return c, err
	}
	own, inClouds, err := f.clouds.member(name)
	if err != nil {
		return c, err
	}
	secret, inSecure, err := f.secure.member(name)
	if err != nil {
		return c, err
	}
	if !inClouds && !inSecure {
		return c, f.noSuchCloud(name)
	}
	c.file = f.clouds.file
	if !inClouds {
		c.file = f.secure.file
	}
	c.source, c.entry = `cloud "`+name+`" of `+c.file, newEntry()
	for _, n := range []node{own, secret} {
		e, err := readEntry(n)
		if err != nil {
			return c, err
		}
		c.entry = c.with(e)
	}
	return c.withProfile(f)
}

// withProfile merges the cloud's own settings over those of its profile in clouds-public.yaml. A missing profile may be one of openstacksdk's built-in
// ones; a cloud with its own address does not need it.
func (c chosen) withProfile(f files) (chosen, error) {
	profile := c.top["profile"]
	if profile.text == "" {
		profile = c.top["cloud"]
	}
	if profile.text == "" {
		return c, nil
	}
	n, there, err := f.public.member(profile.text)
	if err != nil {
		return c, err
	}
	if !there {
		if c.auth["auth_url"].text == "" && c.top["auth_url"].text == "" {
			return c, fail.New(fail.Invalid, "profile %s is not in clouds-public.yaml, and %s has no auth.auth_url", profile.text, c.source).At(profile.at).
				Do("set auth.auth_url there: Naupegos does not know the openstack command's built-in profiles")
		}
		return c, nil
	}
	e, err := readEntry(n)
	if err != nil {
		return c, err
	}
	if c.regions != nil || c.top["region_name"].text != "" { // the cloud's own choice overrides the profile's
		e.regions = nil
		delete(e.top, "region_name")
	}
	c.entry = e.with(c.entry)
	return c, nil
}

func (f files) noSuchCloud(name string) error {
	const hint = "name a cloud of your clouds.yaml in spec.provider.openstack.cloud or $OS_CLOUD; $OS_CLIENT_CONFIG_FILE sets the path of the file"
	unread := ""
	if len(f.denied) > 0 {
		unread = "; " + strings.Join(f.denied, ", ") + " is not readable"
	}
	if len(f.paths) == 0 {
		return fail.New(fail.Invalid, `cloud "%s" not found: no clouds.yaml in %s%s`, name, strings.Join(f.places, ", "), unread).Do(hint)
	}
	var have []string
	for _, n := range []node{f.clouds, f.secure} {
		all, err := n.members()
		if err != nil {
			return err
		}
		for _, m := range all {
			have = append(have, m.key)
		}
	}
	slices.Sort(have)
	have = slices.Compact(have)
	what := "the file has no clouds below the key clouds"
	if len(have) > 0 {
		what = "available: " + strings.Join(have[:min(len(have), 20)], ", ")
	}
	return fail.New(fail.Invalid, `cloud "%s" not found; %s%s`, name, what, unread).At(strings.Join(f.paths, ", ")).Do(hint)
}

// inRegion determines the region (the document's, else the environment's, else the cloud's first) and merges its values.
func (c chosen) inRegion(want, env string) (chosen, error) {
	all := c.regions
	own := c.top["region_name"]
	if all == nil && strings.Contains(own.text, ",") {
		for _, n := range strings.Split(own.text, ",") {
			all = append(all, region{name: value{strings.TrimSpace(n), own.at}, values: newEntry()})
		}
	}
	name := value{want, "spec.provider.openstack.region"}
	if name.text == "" {
		name = value{env, "$OS_REGION_NAME"}
	}
	if len(all) == 0 {
		if name.text != "" {
			c.top["region_name"] = name
		}
		return c, nil
	}
	if name.text == "" {
		name = all[0].name
	}
	var have []string
	for _, r := range all {
		if r.name.text == name.text {
			c.entry = c.with(r.values)
			c.top["region_name"] = name
			return c, nil
		}
		have = append(have, r.name.text)
	}
	return c, fail.New(fail.Invalid, "%s has no region %s", c.source, name.text).At(name.at).Do("it has %s", strings.Join(have, ", "))
}
