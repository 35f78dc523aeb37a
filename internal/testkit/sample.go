package testkit

import (
	"flag"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A flag wins over the environment, which reaches the packages that do not have the flag too (make test SEED=7).
var (
	seedFlag = flag.String("seed", os.Getenv("NAUPEGOS_SEED"), "repeat the samples that a run printed with this seed")
	fullFlag = flag.Bool("full", os.Getenv("NAUPEGOS_FULL") != "", "run everything that is sampled otherwise (make test-full)")
)

// Full reports whether tests that enumerate run every case. Where it is false, they run a sample that Rand chooses.
func Full() bool { return *fullFlag }

// OnlyFull skips the test where Full reports false, and logs why other runs can do without.
func OnlyFull(t testing.TB, why string) {
	t.Helper()
	if !Full() {
		t.Skipf("runs with -full (make test-full) alone: %s", why)
	}
}

// Rand returns the source of a test's random choices. It logs the seed, which -seed=N or NAUPEGOS_SEED=N repeats.
func Rand(t testing.TB) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano() % 1e9)
	if *seedFlag != "" {
		var err error
		if seed, err = strconv.ParseUint(*seedFlag, 10, 64); err != nil {
			t.Fatalf("seed %q is not a whole number", *seedFlag)
		}
	}
	t.Logf("seed: %s chooses with -seed=%d", t.Name(), seed)
	return rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a sample is to be drawn again
}

// Sample returns n of all in random order, and all of them, in their order, where Full reports true or there are no more.
func Sample[T any](t testing.TB, n int, all []T) []T {
	t.Helper()
	if Full() || len(all) <= n {
		return all
	}
	r := Rand(t)
	chosen := make([]T, n)
	for i, at := range r.Perm(len(all))[:n] {
		chosen[i] = all[at]
	}
	return chosen
}

// turns has whom InTurn has chosen of each group, for all tests of this run.
var turns struct {
	sync.Mutex
	chosen map[string][]string
}

// InTurn skips the test, which is one of group, unless it is among the n of them that run this time: large tests that are alike take turns. All
// run where Full reports true, and where -run on the command line chooses among them.
func InTurn(t testing.TB, n int, group ...string) {
	t.Helper()
	if !slices.Contains(group, t.Name()) {
		t.Fatalf("%s takes turns with %s, and is not among them", t.Name(), strings.Join(group, ", "))
	}
	if named := flag.Lookup("test.run"); named != nil {
		top, _, _ := strings.Cut(named.Value.String(), "/")
		if run, err := regexp.Compile(top); err != nil || slices.ContainsFunc(group, func(name string) bool { return !run.MatchString(name) }) {
			return
		}
	}
	turns.Lock()
	defer turns.Unlock()
	key := strings.Join(group, " ")
	if turns.chosen[key] == nil {
		if turns.chosen == nil {
			turns.chosen = map[string][]string{}
		}
		turns.chosen[key] = Sample(t, n, group)
	}
	if chosen := turns.chosen[key]; !slices.Contains(chosen, t.Name()) {
		t.Skipf("takes turns, and this time it is for %s; make test-full runs all", strings.Join(chosen, " and "))
	}
}
