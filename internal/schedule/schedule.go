// Package schedule reads at which times something is to be done by itself, in the form of cron: it says when the next time is, and has it as systemd does.
//
// It knows nothing.
package schedule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Schedule says at which minutes something is done, in UTC.
type Schedule struct {
	minutes, hours, days, months, weekdays field
}

// field is one field of a schedule: the values that fit, and whether that is all of them.
type field struct {
	fits [60]bool
	all  bool
}

// words that stand for a schedule.
var named = map[string]string{"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@weekly": "0 0 * * 0", "@monthly": "0 0 1 * *"}

// Parse reads a schedule in the form of cron: minute, hour, day of the month, month, day of the week (0 or 7 is Sunday), each *, a
// number, a range, with a step where there is one, or a list of these; or @hourly, @daily, @weekly, @monthly.
func Parse(text string) (s Schedule, err error) {
	if cron, ok := named[text]; ok {
		text = cron
	}
	words := strings.Fields(text)
	if len(words) != 5 {
		return s, fmt.Errorf("has %d fields, not five: minute, hour, day of the month, month, day of the week", len(words))
	}
	for i, f := range []struct {
		of       *field
		name     string
		from, to int
	}{
		{&s.minutes, "minute", 0, 59}, {&s.hours, "hour", 0, 23}, {&s.days, "day of the month", 1, 31}, {&s.months, "month", 1, 12}, {&s.weekdays, "day of the week", 0, 7},
	} {
		if err := f.of.parse(words[i], f.from, f.to); err != nil {
			return Schedule{}, fmt.Errorf("its %s %w", f.name, err)
		}
	}
	if s.weekdays.fits[7] {
		s.weekdays.fits[0], s.weekdays.fits[7] = true, false
	}
	if s.Next(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return Schedule{}, fmt.Errorf("names a day that never comes")
	}
	return s, nil
}

func (f *field) parse(text string, from, to int) error {
	f.all = text == "*"
	for _, part := range strings.Split(text, ",") {
		span, step, stepped := strings.Cut(part, "/")
		first, last, ranged := strings.Cut(span, "-")
		a, b, by := from, to, 1
		var err error
		if span != "*" {
			if a, err = strconv.Atoi(first); err == nil {
				if b = a; ranged {
					b, err = strconv.Atoi(last)
				} else if stepped {
					b = to
				}
			}
		}
		if err == nil && stepped {
			by, err = strconv.Atoi(step)
		}
		if err != nil || by < 1 {
			return fmt.Errorf("is %q: it is *, a number, a range as 1-5, or a list of these, with a step as */6", text)
		}
		if a < from || b > to || a > b {
			return fmt.Errorf("is %q: numbers go from %d to %d", text, from, to)
		}
		for v := a; v <= b; v += by {
			f.fits[v] = true
		}
	}
	return nil
}

// values lists what fits, as systemd has it.
func (f *field) values() string {
	if f.all {
		return "*"
	}
	var all []string
	for v, fits := range f.fits {
		if fits {
			all = append(all, fmt.Sprintf("%02d", v))
		}
	}
	return strings.Join(all, ",")
}

// OnCalendar is the schedule as systemd's timers have it: one or two values of OnCalendar.
func (s Schedule) OnCalendar() []string {
	clock := s.hours.values() + ":" + s.minutes.values() + ":00 UTC"
	byDate := "*-" + s.months.values() + "-" + s.days.values() + " " + clock
	var names []string
	for d := time.Sunday; d <= time.Saturday; d++ {
		if s.weekdays.fits[d] {
			names = append(names, d.String()[:3])
		}
	}
	byDay := strings.Join(names, ",") + " *-" + s.months.values() + "-* " + clock
	switch {
	case s.weekdays.all:
		return []string{byDate}
	case s.days.all:
		return []string{byDay}
	}
	return []string{byDate, byDay} // as cron has it: either of them
}

// onDay reports whether something is done on a day.
func (s Schedule) onDay(t time.Time) bool {
	if !s.months.fits[t.Month()] {
		return false
	}
	byDate, byDay := s.days.fits[t.Day()], s.weekdays.fits[t.Weekday()]
	if s.days.all || s.weekdays.all {
		return byDate && byDay
	}
	return byDate || byDay
}

// reach is how many days are looked at: a 29th of February is never farther than eight years away.
const reach = 9 * 366

// Next is the first time after t; zero where there is none.
func (s Schedule) Next(t time.Time) time.Time { return s.near(t.UTC(), false) }

// Last is the last time that is not after t; zero where there is none.
func (s Schedule) Last(t time.Time) time.Time { return s.near(t.UTC(), true) }

func (s Schedule) near(t time.Time, back bool) time.Time {
	midnight := time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
	for n := range reach {
		day := midnight.AddDate(0, 0, n)
		if back {
			day = midnight.AddDate(0, 0, -n)
		}
		if !s.onDay(day) {
			continue
		}
		times := s.timesOf(day)
		if back {
			slices.Reverse(times)
		}
		for _, at := range times {
			if back != at.After(t) {
				return at
			}
		}
	}
	return time.Time{}
}

// timesOf lists the times of a day on which something is done.
func (s Schedule) timesOf(day time.Time) (all []time.Time) {
	for h := range 24 {
		for m := range 60 {
			if s.hours.fits[h] && s.minutes.fits[m] {
				all = append(all, day.Add(time.Duration(h)*time.Hour+time.Duration(m)*time.Minute))
			}
		}
	}
	return all
}
