package agent

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
)

// fileError gives an error of the file system a kind and a remedy. Content never gets into it.
func fileError(err error, what, where string) error {
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fail.Wrap(fail.Refused, err, "%s", what).At(where).Do("the disk is full: free space on the file system that holds it, then run again; what was there before is untouched")
	case errors.Is(err, unix.EROFS):
		return fail.Wrap(fail.Refused, err, "%s", what).At(where).Do("the file system is read-only: remount it for writing, then run again")
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return fail.Wrap(fail.Refused, err, "%s", what).At(where).Do("the agent must run as root, and the file must not be immutable (lsattr)")
	}
	return fail.Wrap(fail.Internal, err, "%s", what).At(where)
}
