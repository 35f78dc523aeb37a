package upkeep

import (
	"slices"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// Window is a time of the day or of the week, in UTC, at which machines may be disturbed. The zero Window is always open.
type Window struct {
	days     []time.Weekday // on which it opens; none: on all
	from, to time.Duration  // since midnight; to is on the next day unless it is after from
	limited  bool
}

// ParseWindow reads a window as documents write it: days "Mon", times "22:00".
func ParseWindow(days []string, from, to string) (Window, error) {
	w := Window{limited: true}
	for _, day := range days {
		at := slices.IndexFunc(weekdays(), func(d time.Weekday) bool { return d.String()[:3] == day })
		if at < 0 {
			return Window{}, fail.New(fail.Invalid, "%q is not a day", day)
		}
		w.days = append(w.days, weekdays()[at])
	}
	for into, text := range map[*time.Duration]string{&w.from: from, &w.to: to} {
		at, err := time.Parse("15:04", text)
		if err != nil {
			return Window{}, fail.Wrap(fail.Invalid, err, "%q is not a time of the day", text)
		}
		*into = time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute
	}
	return w, nil
}

func weekdays() []time.Weekday {
	return []time.Weekday{time.Sunday, time.Monday, time.Tuesday, time.Wednesday, time.Thursday, time.Friday, time.Saturday}
}

// Open reports whether machines may be disturbed at a time.
func (w Window) Open(now time.Time) bool {
	if !w.limited {
		return true
	}
	for _, back := range []int{0, 1} { // it may have opened yesterday
		if from, to, opens := w.on(now, -back); opens && !now.Before(from) && now.Before(to) {
			return true
		}
	}
	return false
}

// Next returns the next opening after a time, or the time itself if the window is open.
func (w Window) Next(now time.Time) time.Time {
	if w.Open(now) {
		return now
	}
	for ahead := range 8 {
		if from, _, opens := w.on(now, ahead); opens && from.After(now) {
			return from
		}
	}
	return now // there is a day within a week
}

// on returns the opening and closing times on the day of now, plus later days, and whether the window opens on that day.
func (w Window) on(now time.Time, later int) (from, to time.Time, opens bool) {
	now = now.UTC()
	midnight := time.Date(now.Year(), now.Month(), now.Day()+later, 0, 0, 0, 0, time.UTC)
	from, to = midnight.Add(w.from), midnight.Add(w.to)
	if w.to <= w.from {
		to = to.AddDate(0, 0, 1)
	}
	return from, to, len(w.days) == 0 || slices.Contains(w.days, midnight.Weekday())
}
