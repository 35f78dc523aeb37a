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
	offered  = time.Minute      // how long an address that was offered is kept
	declined = 10 * time.Minute // how long one that somebody else has is not given out
	maxRange = 1 << 16
)

// Range is the addresses that a server gives out, both ends included.
type Range struct{ First, Last netip.Addr }

// ParseRange reads a range as 10.0.0.100-10.0.0.200.
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

// lease is who has an address, and until when. An empty MAC is that of nobody who may have it.
type lease struct {
	MAC   string     `json:"mac"`
	Addr  netip.Addr `json:"address"`
	Until time.Time  `json:"until"`
}

// Pool is the addresses of a range, and who has them. What was agreed to is written down before it is answered.
type Pool struct {
	mu       sync.Mutex
	span     Range
	duration time.Duration
	now      func() time.Time
	byAddr   map[netip.Addr]*lease
	byMAC    map[string]*lease
	journal  *os.File // nil: nothing is written down
	path     string
	lines    int // of the journal
}

// NewPool returns the pool of a range in which the addresses of keep are not given out. Leases are read from a file and written to it; an empty
// path is no file.
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

// open reads the journal, a line for each lease, writes it anew without those that are over, and keeps it open.
func (p *Pool) open(path string) error {
	old, err := os.Open(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err == nil {
		for lines := bufio.NewScanner(old); lines.Scan(); {
			var l lease
			if json.Unmarshal(lines.Bytes(), &l) == nil && p.span.contains(l.Addr) && l.MAC != "" { // the last line of a power cut is none
				p.set(l.MAC, l.Addr, l.Until)
			}
		}
		old.Close()
	}
	p.path = path
	return p.rewrite()
}

// rewrite writes the journal anew, without leases that are over or were renewed.
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
		p.journal = old // which has all that the new one was to have
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

// write writes a lease down.
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

// set makes an address one machine's, and nobody else's, and the machine's only one.
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

// free reports whether a machine may have an address.
func (p *Pool) free(mac string, addr netip.Addr) bool {
	l := p.byAddr[addr]
	return p.span.contains(addr) && (l == nil || l.MAC == mac || !l.Until.After(p.now()))
}

// Offer finds an address for a machine: the one that it has or had, the one that it wants, else one that follows from its MAC address, so that
// it comes to the same one where nothing is known any more. It is kept for a minute. It reports false where none is free.
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

// Take gives an address to a machine for the pool's duration.
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

// Release takes an address back from the machine that has it.
func (p *Pool) Release(mac string, addr netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.byMAC[mac]; l != nil && l.Addr == addr {
		l.Until = p.now() // remembered for when it comes back, and free for others
	}
}

// Withdraw takes back what was offered to a machine that took another server's address.
func (p *Pool) Withdraw(mac string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(p.byMAC[mac])
}

// Decline gives out for a while no more what a machine was given and somebody else has.
func (p *Pool) Decline(mac string, addr netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.byMAC[mac]; l != nil && l.Addr == addr {
		p.set("", addr, p.now().Add(declined))
	}
}
