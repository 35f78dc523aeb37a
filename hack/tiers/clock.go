package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"
)

const (
	endEnv   = "NAUPEGOS_TEST_END"
	untilEnv = "NAUPEGOS_TEST_UNTIL"
)

// end returns when the time for all tiers is over; zero where nobody has said.
func end() (time.Time, error) {
	text := os.Getenv(endEnv)
	if text == "" {
		return time.Time{}, nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("$%s is not a time in seconds since 1970: %q", endEnv, text)
	}
	return time.Unix(seconds, 0), nil
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
