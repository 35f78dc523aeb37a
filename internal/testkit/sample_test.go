package testkit

import (
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
