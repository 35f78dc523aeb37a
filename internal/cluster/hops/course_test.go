package hops

import "testing"

// TestCourse names the place of each hop of an upgrade, of its end and of the way back.
func TestCourse(t *testing.T) {
	old, next := Of("v1.36.4"), Of("v1.37.2")
	laid := Releases{Servers: "v1.36.4", Machines: "v1.36.4", Ahead: "v1.37.2"}
	soak := Releases{Servers: "v1.37.2", Emulates: "1.36", Machines: "v1.36.4", Ahead: "v1.37.2"}
	to, end := Goal{Version: "v1.37.2"}, Goal{"v1.37.2", true}
	for _, c := range []struct {
		name      string
		run, told Releases
		goal      Goal
		want      Course
	}{
		{"nothing is under way", old, old, to, Course{}},
		{"files first", old, laid, to, Course{"v1.36.4", "v1.37.2", 1, 2}},
		{"then the servers", laid, soak, to, Course{"v1.36.4", "v1.37.2", 2, 2}},
		{"finish", soak, next, end, Course{"v1.36.4", "v1.37.2", 3, 3}},
		{"all at once", laid, soak, end, Course{"v1.36.4", "v1.37.2", 2, 3}},
		{"back", soak, old, Goal{Version: "v1.36.4"}, Course{From: "v1.37.2", To: "v1.36.4"}},
		{"back before anything but files", laid, old, Goal{Version: "v1.36.4"}, Course{From: "v1.37.2", To: "v1.36.4"}},
		{"a patch", Of("v1.36.3"), Releases{"v1.36.3", "", "v1.36.3", "v1.36.4"}, Goal{Version: "v1.36.4"}, Course{"v1.36.3", "v1.36.4", 1, 2}},
		{"another patch while it soaks", Releases{"v1.36.3", "1.35", "v1.35.8", "v1.36.3"}, Releases{"v1.36.3", "1.35", "v1.35.8", "v1.36.4"}, Goal{Version: "v1.36.4"},
			Course{From: "v1.35.8", To: "v1.36.4"}},
		{"two minors", Releases{"v1.36.4", "1.35", "v1.35.8", "v1.36.4"}, Of("v1.36.4"), to, Course{"v1.35.8", "v1.37.2", 3, 5}},
	} {
		if got := CourseOf(c.run, c.told, c.goal); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
