package bundle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/naupegos/naupegos/internal/fail"
)

// Verify reads every blob of a bundle and compares it with the manifest. It returns one error of kind fail.Invalid with all problems, each with
// its artifact.
func (l *Library) Verify(ctx context.Context, id string) error {
	b, err := l.Get(ctx, id)
	if err != nil {
		return err
	}
	problems, err := l.verifyAll(ctx, b.Manifest.artifacts())
	if err != nil || len(problems) == 0 {
		return err
	}
	return fail.Wrap(fail.Invalid, errors.Join(problems...), "%d of %d artifacts differ from the manifest", len(problems), len(b.Manifest.artifacts())).
		At("bundle "+b.ID[:12]).Do("remove it and build, pull or import it again: naupegos bundle remove %s", b.ID[:12])
}

// verifyAll returns the defects of blobs as problems, and a failure to read one as err.
func (l *Library) verifyAll(ctx context.Context, all []Artifact) (problems []error, err error) {
	for _, a := range all {
		problem, err := l.verifyBlob(ctx, a)
		if err != nil {
			return nil, err
		}
		if problem != nil {
			problems = append(problems, problem)
		}
	}
	return problems, nil
}

// verifyBlob returns a defect of a blob as problem, and a failure to read the blob as err.
func (l *Library) verifyBlob(ctx context.Context, a Artifact) (problem, err error) {
	path := filepath.Join(l.blobDir(), hexOf(a.Digest))
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: missing (%s)", a.Name, path), nil
	case err != nil:
		return nil, ioError(err, "verify "+a.Name, path)
	case info.Size() != a.Size:
		return fmt.Errorf("%s: has %d bytes, should have %d (%s)", a.Name, info.Size(), a.Size, path), nil
	}
	got, err := fileDigest(ctx, path)
	if err != nil {
		return nil, ioError(err, "verify "+a.Name, path)
	}
	if got != a.Digest {
		return fmt.Errorf("%s: content has digest %s, should have %s (%s)", a.Name, got, a.Digest, path), nil
	}
	return nil, nil
}
