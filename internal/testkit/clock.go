package testkit

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"
)

// untilEnv is where make test says when its time is over: in seconds since 1970. Nothing is there where somebody runs tests himself.
const untilEnv = "NAUPEGOS_TEST_UNTIL"

// Timely skips the test where make test's time would be over before the test is, which takes up to need on a slow host. It is for tests of
// minutes, so that a slow host runs fewer of them instead of none to its end; a test that Go runs beside others asks after t.Parallel, when
// its turn has come. Where no time is set, and with -full, all run.
func Timely(t testing.TB, need time.Duration) {
	t.Helper()
	text := os.Getenv(untilEnv)
	if text == "" || Full() {
		return
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatalf("%s is not a time in seconds: %q", untilEnv, text)
	}
	if left := time.Until(time.Unix(seconds, 0)); left < need {
		t.Skipf("make test's time is over in %v, and this takes up to %v on a host that is as slow; make test-full runs all, and so does make e2e",
			max(0, left).Round(time.Second), need)
	}
}

// ProgramStart measures how long a program takes to start on this host, by which hosts differ most: the median of some.
func ProgramStart() (time.Duration, error) {
	var took []time.Duration
	for range 25 {
		began := time.Now()
		if err := exec.Command("true").Run(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}
