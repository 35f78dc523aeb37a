package words

import (
	"testing"
	"time"
)

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-1: "0.0s", 340 * time.Millisecond: "0.3s", 12300 * time.Millisecond: "12.3s", 99940 * time.Millisecond: "99.9s",
		245 * time.Second: "4m05s", 3599600 * time.Millisecond: "60m00s", 62 * time.Minute: "1h02m",
	} {
		if got := Duration(d); got != want {
			t.Errorf("%d: %s, want %s", d, got, want)
		}
	}
}
