package access

import (
	"fmt"
	"testing"
	"time"
)

// TestManyAddresses: wrong tokens from very many addresses take limited memory and time, and do not reset the count of one address.
func TestManyAddresses(t *testing.T) {
	l, began := newLimits(), time.Now()
	for i := range 100_000 {
		l.failed("", fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255))
	}
	if took := time.Since(began); l.wrong.Len() > most || took > 10*time.Second {
		t.Errorf("the table has %d addresses after %s", l.wrong.Len(), took)
	}
	for i := range burstWrong {
		l.failed("", fmt.Sprintf("2001:db8:0:1::%x", i))
	}
	if l.mayTry("", "2001:db8:0:1:ffff::1") || !l.mayTry("", "2001:db8:0:2::1") {
		t.Error("IPv6 clients do not count by their /64")
	}
	for i := range most - 1 {
		l.failed("", fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255))
	}
	if l.mayTry("", "2001:db8:0:1::1") {
		t.Error("an address was dropped before the table was full")
	}
}
