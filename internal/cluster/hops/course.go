package hops

import (
	"cmp"
	"slices"
)

// Course is the position of a hop on the way from one release to another.
type Course struct {
	From, To string
	Hop, Of  int // from 1; Hop is 0 on the way back, and for a hop that is not on the direct way
}

// CourseOf returns the course of the hop from the releases that run to the releases that are wanted next. It returns the zero value if none is under
// way.
func CourseOf(run, told Releases, g Goal) Course {
	switch {
	case run == told:
		return Course{}
	case g.Version == run.Machines: // back
		return Course{From: cmp.Or(run.Ahead, run.Servers), To: g.Version}
	}
	c := Course{From: run.Machines, To: g.Version}
	path, err := Path(Of(run.Machines), g)
	if err != nil {
		return c
	}
	if i := slices.Index(path, told); i >= 0 && len(path) > 1 {
		c.Hop, c.Of = i+1, len(path)
	}
	return c
}
