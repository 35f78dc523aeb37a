// Package schedule parses schedules in cron syntax, computes their next and last times, and converts them to systemd's OnCalendar syntax.
package schedule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Schedule is a set of minutes, in UTC.
type Schedule struct {
	minutes, hours, days, months, weekdays field
}

// field is one field of a schedule: the matching values, and whether all values match.
type field struct {
	fits [60]bool
	all  bool
}

// named maps abbreviations to schedules.
var named = map[string]string{"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@weekly": "0 0 * * 0", "@monthly": "0 0 1 * *"}

// Parse parses a schedule in cron syntax: minute, hour, day of the month, month, day of the week (0 or 7 is Sunday). Each is *, a number, a range, one
// of these with a step, or a list; or the text is @hourly, @daily, @weekly or @monthly.
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

// values lists the matching values in systemd's syntax.
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

// OnCalendar returns the schedule as one or two OnCalendar values of a systemd timer.
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
	return []string{byDate, byDay} // cron matches if either does
}

// onDay reports whether the schedule includes a time on the day of t.
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

// reach is the number of days to search: the next 29th of February is at most eight years away.
const reach = 9 * 366

// Next returns the first time after t; zero if there is none.
func (s Schedule) Next(t time.Time) time.Time { return s.near(t.UTC(), false) }

// Last returns the latest time not after t; zero if there is none.
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

// timesOf lists the scheduled times of a day.
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
