package testkit

import (
	"os/exec"
	"slices"
	"time"
)

// ProgramStart returns the median time that a program takes to start on this host, in which hosts differ most.
func ProgramStart() (time.Duration, error) {
	var took []time.Duration
	for range 25 {
		began := time.Now()
		if err := exec.Command("true").Run(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}
