package dhcp

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

const (
	offered  = time.Minute      // how long an offered address is reserved
	declined = 10 * time.Minute // how long an address in use by another host is not assigned
	maxRange = 1 << 16
)

// Range is the range of addresses that a server assigns, including both ends.
type Range struct{ First, Last netip.Addr }

// ParseRange parses a range such as 10.0.0.100-10.0.0.200.
func ParseRange(s string) (Range, error) {
	r, err := Range{}, error(nil)
	first, last, ok := cutRange(s)
	if ok {
		if r.First, err = netip.ParseAddr(first); err == nil {
			r.Last, err = netip.ParseAddr(last)
		}
	}
	switch {
	case !ok || err != nil || !r.First.Is4() || !r.Last.Is4():
		return Range{}, fail.New(fail.Invalid, "%q is not a range of IPv4 addresses", s).Do("write it like 10.0.0.100-10.0.0.200")
	case r.Last.Less(r.First):
		return Range{}, fail.New(fail.Invalid, "the range %s ends before it begins", s)
	case r.size() > maxRange:
		return Range{}, fail.New(fail.Invalid, "the range %s has %d addresses; %d is the most", s, r.size(), maxRange)
	}
	return r, nil
}

func cutRange(s string) (first, last string, ok bool) {
	for i := range s {
		if s[i] == '-' {
			return s[:i], s[i+1:], true
		}
	}
	return "", "", false
}

func (r Range) size() int { return int(number(r.Last)-number(r.First)) + 1 }

func (r Range) contains(a netip.Addr) bool {
	return a.Is4() && !a.Less(r.First) && !r.Last.Less(a)
}

func (r Range) at(i int) netip.Addr {
	n := number(r.First) + uint32(i)
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}

func number(a netip.Addr) uint32 {
	b := a.As4()
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

// lease assigns an address until a time. An empty MAC blocks the address.
type lease struct {
	MAC   string     `json:"mac"`
	Addr  netip.Addr `json:"address"`
	Until time.Time  `json:"until"`
}

// Pool is a range of addresses with their leases. It writes a lease to the journal before the client gets it.
type Pool struct {
	mu       sync.Mutex
	span     Range
	duration time.Duration
	now      func() time.Time
	byAddr   map[netip.Addr]*lease
	byMAC    map[string]*lease
	journal  *os.File // nil: leases are not stored
	path     string
	lines    int // number of lines in the journal
}

// NewPool returns the pool of a range, without the addresses in keep. It reads leases from a file and writes them to it; with an empty path it
// stores nothing.
func NewPool(span Range, duration time.Duration, path string, now func() time.Time, keep ...netip.Addr) (*Pool, error) {
	p := &Pool{span: span, duration: duration, now: now, byAddr: map[netip.Addr]*lease{}, byMAC: map[string]*lease{}}
	if path != "" {
		if err := p.open(path); err != nil {
			return nil, fail.Wrap(fail.Internal, err, "read the leases of addresses").At(path)
		}
	}
	for _, a := range keep {
		p.set("", a, now().AddDate(1000, 0, 0))
	}
	return p, nil
}

// open reads the journal, which has a line for each lease, rewrites it without expired leases, and keeps it open.
func (p *Pool) open(path string) error {
	old, err := os.Open(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err == nil {
		for lines := bufio.NewScanner(old); lines.Scan(); {
			var l lease
			if json.Unmarshal(lines.Bytes(), &l) == nil && p.span.contains(l.Addr) && l.MAC != "" { // a power cut leaves an incomplete last line
				p.set(l.MAC, l.Addr, l.Until)
			}
		}
		old.Close()
	}
	p.path = path
	return p.rewrite()
}

// rewrite rewrites the journal without expired and superseded leases.
func (p *Pool) rewrite() error {
	fresh, err := os.OpenFile(p.path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	old := p.journal
	p.journal, p.lines = fresh, 0
	for _, l := range p.byAddr {
		if l.MAC != "" && l.Until.After(p.now()) {
			err = errors.Join(err, p.append(*l))
		}
	}
	if err = errors.Join(err, fresh.Sync(), os.Rename(p.path+".new", p.path)); err != nil {
		p.journal = old // it contains everything that the new one would
		return errors.Join(err, fresh.Close())
	}
	if old != nil {
		return old.Close()
	}
	return nil
}

func (p *Pool) append(l lease) error {
	line, err := json.Marshal(l)
	if err == nil {
		_, err = p.journal.Write(append(line, '\n'))
	}
	p.lines++
	return err
}

// write adds a lease to the journal.
func (p *Pool) write(l lease) error {
	if p.journal == nil {
		return nil
	}
	if p.lines > 4*p.span.size()+1000 {
		if err := p.rewrite(); err != nil {
			return err
		}
	}
	return p.append(l)
}

// Close closes the journal.
func (p *Pool) Close() error {
	if p.journal == nil {
		return nil
	}
	return p.journal.Close()
}

// set assigns an address exclusively to one machine, as its only address.
func (p *Pool) set(mac string, addr netip.Addr, until time.Time) {
	p.drop(p.byAddr[addr])
	l := &lease{mac, addr, until}
	if mac != "" {
		p.drop(p.byMAC[mac])
		p.byMAC[mac] = l
	}
	p.byAddr[addr] = l
}

func (p *Pool) drop(l *lease) {
	if l != nil {
		delete(p.byAddr, l.Addr)
		delete(p.byMAC, l.MAC)
	}
}

// free reports whether a machine may get an address.
func (p *Pool) free(mac string, addr netip.Addr) bool {
	l := p.byAddr[addr]
	return p.span.contains(addr) && (l == nil || l.MAC == mac || !l.Until.After(p.now()))
}

// Offer reserves an address for a machine for a minute: the machine's current or former one, the one that it wants, or one derived from its MAC
// address, so that a machine gets the same address even after leases were lost. It returns false if no address is free.
func (p *Pool) Offer(mac string, wanted netip.Addr) (netip.Addr, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.byMAC[mac]; l != nil && p.free(mac, l.Addr) {
		if until := p.now().Add(offered); l.Until.Before(until) {
			l.Until = until
		}
		return l.Addr, true
	}
	h := fnv.New32a()
	h.Write([]byte(mac))
	size := p.span.size()
	start := int(h.Sum32() % uint32(size))
	if !wanted.IsValid() || !p.free(mac, wanted) {
		wanted = netip.Addr{}
		for i := range size {
			if a := p.span.at((start + i) % size); p.free(mac, a) {
				wanted = a
				break
			}
		}
	}
	if !wanted.IsValid() {
		return wanted, false
	}
	p.set(mac, wanted, p.now().Add(offered))
	return wanted, true
}

// Take assigns an address to a machine for the pool's duration.
func (p *Pool) Take(mac string, addr netip.Addr) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.span.contains(addr) {
		return fmt.Errorf("it is not one of %s-%s", p.span.First, p.span.Last)
	}
	if !p.free(mac, addr) {
		return errors.New("another machine has it")
	}
	until := p.now().Add(p.duration)
	if err := p.write(lease{mac, addr, until}); err != nil {
		return fmt.Errorf("write it down: %w", err)
	}
	p.set(mac, addr, until)
	return nil
}

// Release ends a machine's lease.
func (p *Pool) Release(mac string, addr netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.byMAC[mac]; l != nil && l.Addr == addr {
		l.Until = p.now() // kept for the machine's return, and free for others
	}
}

// Withdraw cancels the offer to a machine that accepted another server's address.
func (p *Pool) Withdraw(mac string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(p.byMAC[mac])
}

// Decline blocks an address for a while because its machine found that another host uses it.
func (p *Pool) Decline(mac string, addr netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.byMAC[mac]; l != nil && l.Addr == addr {
		p.set("", addr, p.now().Add(declined))
	}
}
