package gitread

import (
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan/words"
)

// complaint matches errors of git, ssh or curl, and explains them.
type complaint struct {
	says []string // one of these
	kind fail.Kind
	what string
	do   string
}

// complaints are tried in this order, because git repeats the errors of the programs that it starts in words of its own.
var complaints = []complaint{
	{[]string{"REMOTE HOST IDENTIFICATION HAS CHANGED", "Host key verification failed"}, fail.Unauthorized, "the host's key is not in --known-hosts, or has another type there",
		"compare the host's keys (ssh-keyscan HOST) with the published ones, and add the follow again with --replace"},
	{[]string{"SSL certificate problem", "certificate verification failed", "certificate subject name", "no alternative certificate subject name"}, fail.Unauthorized, "the host's certificate is not trusted",
		"pass its authority as --ca"},
	{[]string{"error in libcrypto", "invalid format", "incorrect passphrase", "Load key"}, fail.Unauthorized, "the credential is no private key that ssh reads", "store a key without a passphrase, in the form in which ssh-keygen writes it"},
	{[]string{"Permission denied (", "Authentication failed", "could not read Username", "could not read Password", "Invalid username or", "error: 401", "error: 403", "error 401", "error 403"},
		fail.Unauthorized, "the host does not accept the credential", "store one that may read the repository (naupegos server credential add), and name it with --credential"},
	{[]string{"error: 301", "error: 302", "error: 303", "error: 307", "error: 308", "redirect"}, fail.Refused, "the host answers with a redirect, which is not followed",
		"give the address that it leads to: often that with .git at its end, or without a slash there"},
	{[]string{"error: 429", "rate limit"}, fail.NotReady, "the host has had too many requests", "look less often: --every"},
	{[]string{"not found", "does not appear to be a git repository", "error: 404", "error: 410", "Repository not found", "could not be found", "does not exist", "returned error: 400"}, fail.NotFound,
		"there is no such repository, or the credential may not see it", "check the URL; forges hide private repositories from strangers"},
	{[]string{"couldn't find remote ref"}, fail.NotFound, "the branch is gone", "push it again, or name another one with --branch"},
	{[]string{"dumb http"}, fail.Refused, "the host has only files of the repository (dumb HTTP)", "serve it by git http-backend, a forge or SSH"},
	{[]string{"Could not resolve", "Failed to connect", "Couldn't connect", "Connection refused", "timed out", "unreachable", "No route to host", "too slow", "reset by peer", "closed by remote host",
		"unexpected disconnect", "early EOF", "hung up unexpectedly", "error: 5", "RPC failed", "Empty reply"}, fail.Unreachable, "the repository can't be reached", ""},
	{[]string{"signal 25", "File too large", "invalid index-pack output"}, fail.Refused, "the repository sends more than is allowed", ""}, // the kernel has ended index-pack; tooLarge says more
}

// explain returns the error of a failed git. Its text may contain words of a stranger's host.
func (b *bench) explain(r *ran) error {
	for _, c := range complaints {
		for _, s := range c.says {
			if !strings.Contains(r.said, s) {
				continue
			}
			if c.kind == fail.Refused && c.do == "" {
				return b.tooLarge()
			}
			e := fail.Wrap(c.kind, errText(cause(r.said)), "%s", c.what).At(b.s.URL)
			if c.do != "" {
				return e.Do("%s", c.do)
			}
			return e
		}
	}
	if strings.Contains(r.said, "from promisor remote") {
		return fail.Wrap(fail.Unreachable, errWithheld, "read the repository").At(b.s.URL)
	}
	if r.code < 0 || r.code > 128 {
		return fail.New(fail.Refused, "git was stopped: reading the repository takes more than %d MiB of memory or %s of a processor", maxMemory>>20, maxCPU).At(b.s.URL)
	}
	return fail.Wrap(fail.Unreachable, errText(cause(r.said)), "read the repository").At(b.s.URL)
}

func (b *bench) tooLarge() error {
	return fail.New(fail.Refused, "the repository sends more than %d MiB for its newest commit", b.max>>20).At(b.s.URL).
		Do("keep documents in a repository of their own, or on a host that supports partial clones")
}

// errText is what another program said.
type errText string

// Error implements error.
func (e errText) Error() string { return string(e) }

// cause returns the line that says most: the last one of ssh or git before git's general advice.
func cause(said string) string {
	best := ""
	for _, line := range words.Lines(said) {
		switch {
		case strings.HasPrefix(line, "Please make sure"), strings.HasPrefix(line, "and the repository exists"), strings.HasPrefix(line, "fatal: Could not read from remote"),
			strings.HasPrefix(line, "warning:"), strings.Trim(line, "@ ") == "":
			continue
		}
		best = strings.TrimPrefix(strings.TrimPrefix(line, "fatal: "), "error: ")
	}
	if best == "" {
		best = "git said nothing"
	}
	return words.Clip(best, 300)
}
