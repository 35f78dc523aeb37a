package testkit

import (
	"flag"
	"fmt"
	"slices"
	"testing"
)

func TestSampleIsRepeatedByItsSeed(t *testing.T) {
	seed, full := *seedFlag, *fullFlag
	defer func() { *seedFlag, *fullFlag = seed, full }()
	all := []int{1, 2, 3, 4, 5, 6, 7, 8, 9}
	*fullFlag, *seedFlag = false, "7"
	first, again := Sample(t, 3, all), Sample(t, 3, all)
	if len(first) != 3 || !slices.Equal(first, again) {
		t.Errorf("the same seed chose %v and %v", first, again)
	}
	*seedFlag = "8"
	if other := Sample(t, 3, all); slices.Equal(first, other) {
		t.Errorf("another seed chose %v too", other)
	}
	*fullFlag = true
	if got := Sample(t, 3, all); !slices.Equal(got, all) {
		t.Errorf("-full chose %v", got)
	}
}

func TestOnlyFull(t *testing.T) {
	was := *fullFlag
	defer func() { *fullFlag = was }()
	for _, full := range []bool{false, true} {
		*fullFlag = full
		t.Run(fmt.Sprintf("full=%v", full), func(t *testing.T) {
			defer func() {
				if t.Skipped() == full {
					t.Errorf("skipped: %v", t.Skipped())
				}
			}()
			OnlyFull(t, "this is what is tested")
		})
	}
}

// namedTest is a test that goes by another name, and does not end its goroutine when it is skipped.
type namedTest struct {
	testing.TB
	name    string
	skipped bool
}

func (n *namedTest) Name() string         { return n.name }
func (n *namedTest) Skipf(string, ...any) { n.skipped = true }

func TestInTurn(t *testing.T) {
	seed, full, run := *seedFlag, *fullFlag, flag.Lookup("test.run").Value.String()
	defer func() {
		*seedFlag, *fullFlag, turns.chosen = seed, full, nil
		Must(t, flag.Set("test.run", run))
	}()
	ran := func(seed, run string, full bool) (names []string) {
		*seedFlag, *fullFlag, turns.chosen = seed, full, nil
		Must(t, flag.Set("test.run", run))
		for _, name := range []string{"TestA", "TestB", "TestC", "TestD"} {
			n := &namedTest{TB: t, name: name}
			if InTurn(n, 2, "TestA", "TestB", "TestC", "TestD"); !n.skipped {
				names = append(names, name)
			}
		}
		return names
	}
	seen := map[string]bool{}
	for i := range 20 {
		seed := fmt.Sprint(i)
		first, again := ran(seed, "", false), ran(seed, "", false)
		if len(first) != 2 || !slices.Equal(first, again) {
			t.Errorf("with seed %s, %v ran, and then %v", seed, first, again)
		}
		for _, name := range first {
			seen[name] = true
		}
	}
	if len(seen) != 4 {
		t.Errorf("of four tests only %v ever ran", seen)
	}
	if all := ran("1", "", true); len(all) != 4 {
		t.Errorf("with -full %v ran", all)
	}
	if all := ran("1", "^TestB$", false); len(all) != 4 {
		t.Errorf("where -run names one of them %v ran", all)
	}
	if all := ran("1", "^(TestA|TestB|TestC|TestD|TestE)$", false); len(all) != 2 {
		t.Errorf("where -run names all of them %v ran", all)
	}
	if all := ran("", "", false); len(all) != 2 {
		t.Errorf("without a seed %v ran", all)
	}
}
