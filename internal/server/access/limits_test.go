package access

import (
	"fmt"
	"testing"
	"time"
)

// TestManyAddresses: wrong tokens from very many addresses take bounded memory and time, and cost a guesser none of its own count.
func TestManyAddresses(t *testing.T) {
	l, began := newLimits(), time.Now()
	for i := range 100_000 {
		l.failed(fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255))
	}
	if took := time.Since(began); l.wrong.Len() > most || took > 10*time.Second {
		t.Errorf("%d addresses are remembered after %s", l.wrong.Len(), took)
	}
	for i := range burstWrong {
		l.failed(fmt.Sprintf("2001:db8:0:1::%x", i))
	}
	if l.mayTry("2001:db8:0:1:ffff::1") || !l.mayTry("2001:db8:0:2::1") {
		t.Error("IPv6 clients do not count by their /64")
	}
	for i := range most - 1 {
		l.failed(fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255))
	}
	if l.mayTry("2001:db8:0:1::1") {
		t.Error("fewer other addresses than are remembered had one forgotten")
	}
}
