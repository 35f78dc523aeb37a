package testkit

import (
	"flag"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// A flag wins over the environment, which also reaches packages without the flag (make test SEED=7).
var (
	seedFlag = flag.String("seed", os.Getenv("NAUPEGOS_SEED"), "repeat the samples that a run printed with this seed")
	fullFlag = flag.Bool("full", os.Getenv("NAUPEGOS_FULL") != "", "run everything that is sampled otherwise (make test-full)")
)

// Full reports whether tests run every case of an enumeration. Otherwise they run a sample, which is the same in every run.
func Full() bool { return *fullFlag }

// OnlyFull skips the test in make test, and logs why make test can omit it. It is the first statement of such a test: hack/ci searches for it.
func OnlyFull(t testing.TB, why string) {
	t.Helper()
	if !Full() {
		t.Skipf("runs with -full (make test-full) alone: %s", why)
	}
}

// usual is the seed of make test, so that its tests make the same choices in every run.
const usual = 1

// Rand returns a test's random source. If Full reports true, it differs from run to run. Rand logs the seed, which -seed=N or NAUPEGOS_SEED=N
// repeats.
func Rand(t testing.TB) *rand.Rand {
	t.Helper()
	seed := uint64(usual)
	if Full() {
		seed = uint64(time.Now().UnixNano() % 1e9)
	}
	if *seedFlag != "" {
		var err error
		if seed, err = strconv.ParseUint(*seedFlag, 10, 64); err != nil {
			t.Fatalf("seed %q is not a whole number", *seedFlag)
		}
	}
	t.Logf("seed: %s chooses with -seed=%d", t.Name(), seed)
	return rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a sample is to be drawn again
}

// Sample returns n of all in random order. If Full reports true or there are at most n, it returns all in their order.
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
