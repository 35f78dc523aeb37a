package openstack

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
)

// sessionKeys is a HostKeyMemory that lasts as long as the program.
type sessionKeys struct {
	mu   sync.Mutex
	keys map[string][]string
}

// Get returns the keys that were set.
func (s *sessionKeys) Get(name string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys[name]
}

// Set remembers keys.
func (s *sessionKeys) Set(_ context.Context, name string, keys []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys == nil {
		s.keys = map[string][]string{}
	}
	s.keys[name] = keys
	return nil
}

// trustingConsole bounds the wait for the console of a machine that would be trusted without it too.
const trustingConsole = 20 * time.Second

// pinHostKeys reads a machine's SSH host keys from its console, which only the cloud and the machine can write to, and remembers
// them. cloud-init prints them late in the first boot.
func (p *Provider) pinHostKeys(ctx context.Context, machine string, s servers.Server, progress plan.Progress) error {
	if len(p.opts.HostKeys.Get(s.ID)) > 0 {
		return nil
	}
	c, err := p.cloud(ctx)
	if err != nil {
		return err
	}
	trust := p.spec().TrustOnFirstUse
	wait := p.opts.Timeouts.Console
	if trust {
		wait = min(wait, trustingConsole)
	}
	limit := time.Now().Add(wait)
	for {
		progress.Status("waiting for SSH host keys on the console")
		log, err := servers.ShowConsoleOutput(ctx, c.Compute, s.ID, servers.ShowConsoleOutputOpts{}).Extract()
		switch keys := consoleKeys(log); {
		case err == nil && len(keys) > 0:
			return p.opts.HostKeys.Set(ctx, s.ID, keys)
		case err != nil && noConsole(err) && trust:
			return nil
		case err != nil && noConsole(err):
			return fail.Wrap(fail.Refused, cloud.Wrap(err, "read the console"), "this cloud serves no console log, from which its SSH host keys could be known").At(machine).
				Do("set spec.provider.openstack.trustOnFirstUse to true, if the path between you and the machine is trusted at the first contact")
		case err != nil && !fail.Waitable(cloud.Wrap(err, "")) && cloud.Status(err) != 409: // 409: the server has no console yet
			return cloud.Wrap(err, "read the console of %s", machine)
		case time.Now().After(limit) && trust:
			return nil
		case time.Now().After(limit):
			return fail.New(fail.Refused, "its console shows no SSH host keys after %s", wait).At(machine).
				Do("see openstack console log show; the image needs cloud-init, and a kernel that writes to the console that the cloud reads; or set spec.provider.openstack.trustOnFirstUse")
		}
		if err := cloud.Sleep(ctx, 2*p.opts.Timeouts.Poll); err != nil {
			return err
		}
	}
}

// Console returns at most the last limit bytes of a machine's console log; nothing if it has no server or the cloud keeps no log.
func (p *Provider) Console(name string, limit int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), p.opts.Calls.Limit)
	defer cancel()
	s, ok := p.serverOf(name)
	if !ok {
		return nil, nil
	}
	c, err := p.cloud(ctx)
	if err != nil {
		return nil, err
	}
	log, err := servers.ShowConsoleOutput(ctx, c.Compute, s.ID, servers.ShowConsoleOutputOpts{}).Extract()
	if noConsole(err) {
		return nil, nil
	}
	if cut := len(log) - int(limit); cut > 0 {
		log = log[cut:]
	}
	return []byte(log), cloud.Wrap(err, "read the console of %s", name)
}

// noConsole recognizes the errors with which clouds report a missing console log.
func noConsole(err error) bool {
	s := cloud.Status(err)
	return s == 404 || s == 400 || s == 501 || s == 403
}

var consoleKey = regexp.MustCompile(`((?:ssh|ecdsa|sk)-[a-z0-9@.-]+) (AAAA[0-9A-Za-z+/]+={0,2})`)

const (
	keysBegin = "-----BEGIN SSH HOST KEY KEYS-----"
	keysEnd   = "-----END SSH HOST KEY KEYS-----"
)

// consoleKeys returns the host keys that cloud-init printed, from the last complete block.
func consoleKeys(log string) []string {
	end := strings.LastIndex(log, keysEnd)
	if end < 0 {
		return nil
	}
	begin := strings.LastIndex(log[:end], keysBegin)
	if begin < 0 {
		return nil
	}
	var keys []string
	for _, m := range consoleKey.FindAllStringSubmatch(log[begin:end], -1) {
		if isKey(m[1], m[2]) {
			keys = append(keys, m[1]+" "+m[2])
		}
	}
	return keys
}

// isKey reports whether text is a base64 key of the given kind. A line that a kernel message interrupted is not.
func isKey(kind, text string) bool {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw) < 4 {
		return false
	}
	n := int(binary.BigEndian.Uint32(raw))
	return n > 0 && n <= len(raw)-4 && string(raw[4:4+n]) == kind
}
