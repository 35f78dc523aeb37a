package testkit

import (
	"strconv"
	"testing"
	"time"
)

func TestTimely(t *testing.T) {
	was := *fullFlag
	defer func() { *fullFlag = was }()
	at := func(left time.Duration) string { return strconv.FormatInt(time.Now().Add(left).Unix(), 10) }
	for _, c := range []struct {
		name, until string
		full, skips bool
	}{
		{"no time is set", "", false, false},
		{"enough is left", at(10 * time.Minute), false, false},
		{"too little is left", at(3 * time.Minute), false, true},
		{"it is over", at(-time.Hour), false, true},
		{"all are to run", at(-time.Hour), true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(untilEnv, c.until)
			*fullFlag = c.full
			n := &namedTest{TB: t}
			if Timely(n, 4*time.Minute); n.skipped != c.skips {
				t.Errorf("skipped is %t", n.skipped)
			}
		})
	}
}
