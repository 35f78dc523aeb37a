package peer

import (
	"fmt"
	"testing"
	"time"
)

func TestFirst(t *testing.T) {
	f, began := NewFirst(10), time.Unix(1000, 0)
	if got := f.Seen("a", began); got != began {
		t.Errorf("a new key was first seen %s", got)
	}
	for i := range 100 { // a key that is seen again and again stays
		f.Seen(fmt.Sprint(i), began)
		if got := f.Seen("a", began.Add(time.Minute)); got != began {
			t.Fatalf("after %d other keys it was first seen %s", i+1, got)
		}
	}
	if got := f.Seen("0", began.Add(time.Hour)); got.Equal(began) {
		t.Error("more keys than the limit are remembered")
	}
}
