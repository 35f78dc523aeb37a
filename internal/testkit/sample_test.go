package testkit

import (
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
	*seedFlag = ""
	if first, again := Sample(t, 3, all), Sample(t, 3, all); !slices.Equal(first, again) {
		t.Errorf("without a seed, one run chose %v and another one %v", first, again)
	}
	*fullFlag = true
	if got := Sample(t, 3, all); !slices.Equal(got, all) {
		t.Errorf("-full chose %v", got)
	}
	if first, again := Rand(t).Uint64(), Rand(t).Uint64(); first == again {
		t.Errorf("with -full, two runs chose %d", first)
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
