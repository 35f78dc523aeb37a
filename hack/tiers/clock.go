package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/naupegos/naupegos/internal/testkit"
)

const untilEnv = "NAUPEGOS_TEST_UNTIL"

// limits say how long all tiers may take.
type limits struct {
	Began  time.Time
	Tests  time.Duration // for tests; what only makes what they need is not counted
	Latest time.Duration // for all
}

const limitsFile = "limits" // no tier

// slowStart is how long a program takes to start on a slow host; it is 0.7 ms on a quick one, and 3 to 8 on those that are slow.
const slowStart = 2 * time.Millisecond

// begin forgets what has been kept, and keeps how long the tiers may take from now on, which is less on a slow host.
func begin(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("tiers begin", flag.ContinueOnError)
	began := flags.Int64("began", time.Now().Unix(), "when the set-up began, in seconds since 1970")
	tests := flags.Duration("tests", 0, "how long the tests may take")
	slow := flags.Duration("slow", 0, "how long they may take on a slow host; 0: as long")
	latest := flags.Duration("latest", 0, "when nothing that takes long begins any more, however long it took to make what tests need; 0: as for tests")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || *tests <= 0 {
		return errors.New("usage: tiers begin -tests D [-began SECONDS] [-slow D] [-latest D]")
	}
	start, err := testkit.ProgramStart()
	if err != nil {
		return err
	}
	l := limits{Began: time.Unix(*began, 0), Tests: *tests}
	kind := "a quick host"
	if start >= slowStart && *slow > 0 {
		kind, l.Tests = "a slow host", *slow
	}
	l.Latest = max(l.Tests, *latest)
	fmt.Fprintf(out, "a program starts in %v here, %s: nothing that takes long begins once tests have taken %v; what they need is made beside that\n",
		start.Round(10*time.Microsecond), kind, l.Tests)
	if err := os.RemoveAll(kept); err != nil {
		return err
	}
	if err := save(kept, &tier{Name: "set-up", Began: l.Began, Seconds: time.Since(l.Began).Seconds(), Makes: true}); err != nil {
		return err
	}
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(kept, limitsFile), text, 0o644)
}

// end returns when the time for all tiers is over; zero where nobody has said.
func end() (time.Time, error) {
	text, err := os.ReadFile(filepath.Join(kept, limitsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, err
	}
	var l limits
	if err := json.Unmarshal(text, &l); err != nil {
		return time.Time{}, err
	}
	all, err := load(kept)
	if err != nil {
		return time.Time{}, err
	}
	made := 0.0
	for _, t := range all {
		if t.Makes {
			made += t.Seconds
		}
	}
	return l.Began.Add(min(l.Tests+time.Duration(made*float64(time.Second)), l.Latest)), nil
}

// until returns when a tier's time is over; zero where it has all that it needs.
func until(began time.Time, within time.Duration) (time.Time, error) {
	end, err := end()
	if err != nil || end.IsZero() || within == 0 {
		return end, err
	}
	if own := began.Add(within); own.Before(end) {
		return own, nil
	}
	return end, nil
}

// left fails where the time for all tiers is over before some are, which need so much of it. That they are left out is kept, for the report.
func left(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("tiers time", flag.ContinueOnError)
	need := flags.Duration("need", 0, "how long the tiers take on a slow host")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("usage: tiers time -need D NAME...")
	}
	end, err := end()
	if err != nil || end.IsZero() || time.Until(end) >= *need {
		return err
	}
	for _, name := range flags.Args() {
		t := &tier{Name: name, Began: time.Now(), Left: fmt.Sprintf("%v are left of the time, and they need %v", max(0, time.Until(end)).Round(time.Second), *need)}
		if err := save(kept, t); err != nil {
			return err
		}
		fmt.Fprintf(out, "left out: %s: %s\n", name, t.Left)
	}
	return errFailed
}
