package fail

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestWaitable(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"not ready":              {New(NotReady, "x"), true},
		"unreachable, wrapped":   {fmt.Errorf("y: %w", New(Unreachable, "x")), true},
		"refused":                {New(Refused, "x"), false},
		"unclassified":           {errors.New("x"), false},
		"waited for long enough": {New(NotReady, "x").Enough(), false},
		"enough in the chain":    {Wrap(NotReady, fmt.Errorf("y: %w", New(Unreachable, "x").Enough()), "z"), false},
	} {
		if got := Waitable(c.err); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if k := KindOf(New(NotReady, "x").Enough()); k != NotReady {
		t.Errorf("an error that is final has kind %s", k)
	}
}

// TestAdviceOnce is stumble 24: a retried step wraps an error that gives the same advice.
func TestAdviceOnce(t *testing.T) {
	const advice = "is the machine running?"
	err := Wrap(NotReady, New(Unreachable, "connect").At("cp-1").Do(advice), "wait for cp-1").Do(advice)
	if got := err.Error(); strings.Count(got, advice) != 1 {
		t.Error(got)
	}
}

// TestConfidential: only Whole shows an error's confidential text, from every place in its tree and once each.
func TestConfidential(t *testing.T) {
	secret := New(Refused, "there are not enough machines").Do("use fewer").Confide("rack-7 is harbourmaster's")
	for name, err := range map[string]error{
		"alone": secret, "wrapped": Wrap(Refused, secret, "plan"), "by fmt": fmt.Errorf("plan: %w", secret), "joined": errors.Join(errors.New("x"), secret),
	} {
		if strings.Contains(err.Error(), "rack-7") {
			t.Errorf("%s: %v", name, err)
		}
		all := Whole(Whole(err))
		if got := all.Error(); strings.Count(got, "rack-7") != 1 || !strings.Contains(got, "use fewer") {
			t.Errorf("%s: %s", name, got)
		}
		if KindOf(all) != Refused || !errors.Is(all, secret) {
			t.Errorf("%s: %s", name, KindOf(all))
		}
	}
	if plain := errors.New("x"); Whole(plain) != plain || Whole(nil) != nil { //nolint:errorlint // the very value
		t.Error("an error without such text changes")
	}
}

// TestExitCodes: scripts rely on these.
func TestExitCodes(t *testing.T) {
	want := map[Kind]int{Internal: 1, Invalid: 3, Refused: 4, NotReady: 5, Conflict: 6, Unreachable: 7, Unauthorized: 8, NotFound: 9, Interrupted: 130}
	if len(want) != len(names) {
		t.Errorf("there are %d kinds, and %d are tested", len(names), len(want))
	}
	for kind, code := range want {
		if got := kind.ExitCode(); got != code || got == ExitDrifted {
			t.Errorf("%s: %d, want %d", kind, got, code)
		}
	}
}
