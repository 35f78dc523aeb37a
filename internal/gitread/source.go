// Package gitread reads one file of a branch of a Git repository, and verifies the signature of the branch's commit.
//
// It runs Debian's git, ssh, ssh-keygen and gpgv in processes whose memory, time and output are limited, and keeps nothing between two reads. It knows
// nothing of documents, clusters and servers.
package gitread

import (
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/place"
)

// Source is a file of a branch of a repository, with the keys that its host and its commits must have. No field is secret.
type Source struct {
	URL        string   `json:"url"`
	Branch     string   `json:"branch"`
	Path       string   `json:"path"`
	CA         string   `json:"ca,omitempty"`         // certificates (PEM) of the host's authorities; empty: the authorities that this host trusts
	KnownHosts string   `json:"knownHosts,omitempty"` // the host's SSH keys, as lines of known_hosts
	Signers    *Signers `json:"signers,omitempty"`    // nil: commits need no signature
}

// defaultUser is the user of SSH without one in the URL.
const defaultUser = "git"

// Check refuses a source that can't be read safely.
func (s *Source) Check() error {
	u, err := s.parse()
	if err != nil {
		return err
	}
	switch {
	case u.Scheme == "ssh" && strings.TrimSpace(s.KnownHosts) == "":
		return fail.New(fail.Invalid, "the repository's host keys are not given").Do("ssh-keyscan prints them; compare them with the published ones, and pass the file as --known-hosts")
	case u.Scheme == "ssh" && s.CA != "":
		return fail.New(fail.Invalid, "an authority is given for a repository at an ssh:// address").Do("leave --ca out")
	case u.Scheme == "https" && s.KnownHosts != "":
		return fail.New(fail.Invalid, "host keys are given for a repository at an https:// address").Do("leave --known-hosts out")
	case s.CA != "" && !strings.Contains(s.CA, "-----BEGIN CERTIFICATE-----"):
		return fail.New(fail.Invalid, "the authority is no certificate in PEM").Do("--ca takes a file that begins with -----BEGIN CERTIFICATE-----")
	}
	if err := checkBranch(s.Branch); err != nil {
		return err
	}
	return checkPath(s.Path)
}

var (
	hostName = regexp.MustCompile(`^[a-zA-Z0-9]([-a-zA-Z0-9._]*[a-zA-Z0-9])?$`)
	userName = regexp.MustCompile(`^[a-zA-Z0-9_][-a-zA-Z0-9._]*$`)
	scpLike  = regexp.MustCompile(`^([^/:@\s]+@)?[^/:@\s]+:[^/]`)
)

// parse returns the parts of the URL. Its errors do not repeat the URL, which may hold a password.
func (s *Source) parse() (*url.URL, error) {
	const do = "write https://HOST/PATH or ssh://git@HOST/PATH"
	u, err := url.Parse(s.URL)
	switch {
	case scpLike.MatchString(s.URL) && !strings.Contains(s.URL, "://"):
		host, way, _ := strings.Cut(s.URL, ":")
		return nil, fail.New(fail.Invalid, "the repository's address is no URL").Do("write ssh://%s/%s", host, way)
	case err != nil || strings.ContainsFunc(s.URL, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }):
		return nil, fail.New(fail.Invalid, "the repository's address is no URL").Do(do)
	case u.Scheme == "file" || u.Scheme == "" || u.Host == "":
		return nil, fail.New(fail.Refused, "the repository's address is a path of the server").Do(do)
	case u.Scheme != "https" && u.Scheme != "ssh":
		return nil, fail.New(fail.Refused, "the repository's address has the scheme %.20q: a server reads by https and ssh alone", u.Scheme).Do(do)
	case u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") == "":
		return nil, fail.New(fail.Invalid, "the repository's address has no path, or more than a path").Do(do)
	case u.User != nil && u.Scheme == "https", u.User != nil && hasPassword(u):
		return nil, fail.New(fail.Invalid, "the repository's address holds a user or a password").Do("add it with naupegos server credential add, and name it with --credential")
	case u.User != nil && !userName.MatchString(u.User.Username()):
		return nil, fail.New(fail.Invalid, "the user in the repository's address is not valid").Do(do)
	}
	host := u.Hostname()
	if !hostName.MatchString(host) && !strings.Contains(u.Host, "["+host+"]") { // the second is an IPv6 address
		return nil, fail.New(fail.Invalid, "the host in the repository's address is not valid").Do(do)
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.Atoi(p); err != nil || n < 1 || n > 65535 {
			return nil, fail.New(fail.Invalid, "the port in the repository's address is not valid").Do(do)
		}
	}
	return u, nil
}

func hasPassword(u *url.URL) bool { _, has := u.User.Password(); return has }

// Address returns where the repository is, for the server's policy and for credentials.
func (s *Source) Address() (place.Address, error) {
	u, err := s.parse()
	if err != nil {
		return place.Address{}, err
	}
	port := map[string]int{"https": 443, "ssh": 22}[u.Scheme]
	if p := u.Port(); p != "" {
		port, _ = strconv.Atoi(p) // parse has seen to it
	}
	return place.Address{Scheme: u.Scheme, Host: strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")), Port: port}, nil
}

// RepositoryPath returns the path of the repository at its host.
func (s *Source) RepositoryPath() string {
	u, err := s.parse()
	if err != nil {
		return ""
	}
	return strings.Trim(u.Path, "/")
}

// At names the file at a commit, for people.
func (s *Source) At(commit string) string {
	return s.Path + " of " + s.URL + " at " + Short(commit)
}

// Short shortens the ID of a commit.
func Short(commit string) string { return commit[:min(len(commit), 12)] }

// checkBranch refuses names that git refuses, and other references than branches.
func checkBranch(name string) error {
	bad := name == "" || len(name) > 200 || strings.ContainsAny(name, " ~^:?*[\\\x7f") || strings.ContainsFunc(name, unicode.IsControl) || !utf8.ValidString(name) ||
		strings.Contains(name, "..") || strings.Contains(name, "@{") || strings.Contains(name, "//") || name == "@" || strings.HasPrefix(name, "-")
	for part := range strings.SplitSeq(name, "/") {
		bad = bad || part == "" || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".") || strings.HasSuffix(part, ".lock")
	}
	switch {
	case strings.HasPrefix(name, "refs/"):
		return fail.New(fail.Invalid, "%.60q is not the name of a branch", name).Do("leave out refs/heads/; tags and other references are not followed")
	case bad:
		return fail.New(fail.Invalid, "%.60q is not the name of a branch", name).Do("write --branch main")
	}
	return nil
}

func checkPath(p string) error {
	if p == "" || path.Clean(p) != p || p == "." || p == ".." || strings.HasPrefix(p, "../") || strings.HasPrefix(p, "/") || len(p) > 1000 || strings.ContainsFunc(p, unicode.IsControl) || !utf8.ValidString(p) {
		return fail.New(fail.Invalid, "%.100q is not the path of a file in the repository", p).Do("write it from the top of the repository: clusters/prod.yaml")
	}
	return nil
}
